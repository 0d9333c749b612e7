"""Clients of others use servers through `dragoman tap` and `dragoman bridge`, and see what they see directly."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from dragoman.compose.session_file import SessionFile
from dragoman.testing.cassettes.cassette import session_messages, write_cassette
from interop.client.peers import command as peer_command
from interop.expectations import ERAS, EXPECTED, PEERS, expected
from interop.processes import SERVER, SERVERS, client_command, http_servers
from interop.test_servers import WORKS, cell

pytestmark = pytest.mark.e2e
HERE = Path(__file__).parent
DEADLINE = 240.0
DRAGOMAN = [sys.executable, "-m", "dragoman"]


START = """
import os, sys
words = {commands}[sys.argv[1] if len(sys.argv) > 1 else "main"]
os.execvp(words[0], words)
"""


@pytest.fixture
def start(tmp_path: Path) -> Any:
    """Give how a client starts the commands that a test names; official clients pass no variables on."""

    def write(**commands: list[str]) -> list[str]:
        script = tmp_path / "start.py"
        script.write_text(START.format(commands=commands), encoding="utf-8")
        return [sys.executable, str(script)]

    return write


def sightings(peer: str, era: str, words: list[str]) -> dict[str, Any]:
    """Let a client use the servers on stdio, and return what it saw of each feature."""
    command = [*map(str, client_command(peer)), era, "stdio", *words]
    ended = subprocess.run(command, capture_output=True, timeout=DEADLINE, check=False)
    assert ended.returncode == 0, ended.stderr.decode()
    return {line["feature"]: line for line in map(json.loads, ended.stdout.splitlines())}


def differing(seen: dict[str, Any], peer: str, era: str, *transports: str) -> dict[str, Any]:
    """Return what was seen otherwise than the matrix promises on all of the transports."""
    promised = [
        feature for feature in EXPECTED if all(cell(feature, peer, era, transport) == WORKS for transport in transports)
    ]
    assert len(promised) > 20
    return {feature: seen[feature] for feature in promised if seen[feature].get("saw") != expected(feature, peer, era)}


@pytest.mark.parametrize("peer", PEERS)
@pytest.mark.parametrize("era", ERAS)
def test_a_client_sees_through_a_tap_what_it_sees_directly(peer: str, era: str, tmp_path: Path, start: Any) -> None:
    files = {name: tmp_path / f"{name}.mcpsession" for name in SERVERS}
    taps = {
        name: [*DRAGOMAN, "tap", "-o", str(files[name]), "--", sys.executable, str(SERVER), name] for name in SERVERS
    }
    seen = sightings(peer, era, start(**taps))
    assert differing(seen, peer, era, "stdio") == {}
    records = list(SessionFile(files["main"]).records())
    methods = {record.message().get("method") for record in records if record.kind == "message" and record.message()}
    assert {"tools/call", "tools/list", "resources/read"} <= methods


@pytest.mark.parametrize("peer", PEERS)
@pytest.mark.parametrize("era", ERAS)
def test_a_client_sees_through_a_bridge_what_it_sees_directly(peer: str, era: str, start: Any) -> None:
    with http_servers(*SERVERS, workers=1) as servers:
        urls = dict(zip(SERVERS, (server.url for server in servers), strict=True))
        bridges = {name: [*DRAGOMAN, "bridge", "--token", "none", url] for name, url in urls.items()}
        seen = sightings(peer, era, start(**bridges))
    assert differing(seen, peer, era, "stdio", "http") == {}


CLIENT = """
import anyio, sys
from mcp.client.session import ClientSession
from mcp.client.stdio import StdioServerParameters, stdio_client

async def main(words):
    async with stdio_client(StdioServerParameters(command=words[0], args=words[1:])) as (read, write):
        async with ClientSession(read, write) as session:
            await session.initialize()
            tools = await session.list_tools()
            result = await session.call_tool("echo", {"message": "hello"})
            print(len(tools.tools), result.content[0].text)

anyio.run(main, sys.argv[1:])
"""


def written(path: Path) -> str:
    """Wait for a file, and return its text."""
    ends = time.monotonic() + DEADLINE
    while not path.exists() and time.monotonic() < ends:
        time.sleep(0.01)
    return path.read_text(encoding="utf-8")


def run_official_client(words: list[str]) -> str:
    """Return what the client of the official Python SDK prints of an echo."""
    python = client_command("python")[0]
    ended = subprocess.run(
        [str(python), "-c", CLIENT, *words], capture_output=True, timeout=DEADLINE, check=False, text=True
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def test_a_tap_between_the_official_client_and_a_fastmcp_server_changes_no_byte(tmp_path: Path, start: Any) -> None:
    outer, inner = tmp_path / "outer.json", tmp_path / "inner.json"
    hashing = [sys.executable, str(HERE / "hashing.py")]
    server = peer_command("fastmcp", "stdio", tmp_path)
    tapped = [*DRAGOMAN, "tap", "-o", str(tmp_path / "x.mcpsession"), "--", *hashing, str(inner), *server]
    words = start(main=[*hashing, str(outer), *tapped])
    peer = str(client_command("python")[0])
    ended = subprocess.run(
        [peer, "-c", CLIENT.replace('"echo", {"message": "hello"}', '"add", {"a": 1, "b": 2}'), *words],
        capture_output=True,
        timeout=DEADLINE,
        check=False,
        text=True,
    )
    assert ended.returncode == 0, ended.stderr
    digests = [json.loads(written(path)) for path in (outer, inner)]
    assert digests[0] == digests[1]
    assert digests[0][0] != digests[0][1]


def test_a_session_with_the_everything_server_is_played_back_to_the_official_client(tmp_path: Path, start: Any) -> None:
    session, tape = tmp_path / "everything.mcpsession", tmp_path / "everything.jsonl"
    server = peer_command("everything", "stdio", tmp_path)
    recorded = run_official_client(start(main=[*DRAGOMAN, "tap", "-o", str(session), "--", *server]))
    write_cassette(tape, session_messages(session))
    assert run_official_client(start(main=[*DRAGOMAN, "bridge", str(tape)])) == recorded
    assert "hello" in recorded
