"""Hosts of others show our apps and skills: the Inspector at the command line, and an AppBridge in a real Chromium."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from interop.wild.environments import HERE, HOST, ROOT, node
from interop.wild.test_wild import listening
from ports import free_port

pytestmark = pytest.mark.e2e

INSPECTOR = HOST / "node_modules/@modelcontextprotocol/inspector/clients/cli/build/index.js"
DEADLINE = 120.0
SERVER = """
import sys
from dragoman import Server, apps
from dragoman.skills import Skill

server = Server("shown")
server.add_app("ui://shown/app.html", "<!doctype html><title>Shown</title>", domain="shown.example.com", border=False,
               csp=apps.Csp(connect=["https://api.example.com"], frames=["https://maps.example.com"]),
               permissions=["clipboard_write"])
server.add_skills(sys.argv[1])
server.add_skill(Skill("greetings", "How to greet: briefly", "Say hello.", files={"logo.png": b"\\x89PNG\\xff"}))

@server.tool(ui="ui://shown/app.html")
def show() -> str:
    return "shown"

@server.tool
def plain() -> str:
    return "plain"

server.run()
"""


def inspector(*words: str, folder: Path, code: int = 0) -> str:
    command = [
        node(),
        INSPECTOR,
        *words,
        "--format",
        "json",
        "--",
        sys.executable,
        "-c",
        SERVER,
        ROOT / "examples/skills",
    ]
    ended = subprocess.run(
        [str(word) for word in command],
        capture_output=True,
        text=True,
        timeout=DEADLINE,
        check=False,
        env=os.environ | {"HOME": str(folder), "MCP_CATALOG_PATH": str(folder / "mcp.json")},
    )
    assert ended.returncode == code, ended.stdout + ended.stderr
    return ended.stdout


@pytest.mark.covers("APP-10")
@pytest.mark.parametrize("era", ["legacy", "modern"])
def test_the_inspector_shows_what_our_app_needs(era: str, tmp_path: Path) -> None:
    shown = inspector(
        *("--protocol-era", era, "--method", "tools/call", "--tool-name", "show", "--app-info"), folder=tmp_path
    )
    assert json.loads(shown)["appInfo"] == {
        "hasApp": True,
        "toolName": "show",
        "resourceUri": "ui://shown/app.html",
        "resourceMimeType": "text/html;profile=mcp-app",
        "csp": {"connectDomains": ["https://api.example.com"], "frameDomains": ["https://maps.example.com"]},
        "permissions": {"clipboardWrite": {}},
        "domain": "shown.example.com",
        "prefersBorder": False,
    }


@pytest.mark.covers("SKL-17")
@pytest.mark.parametrize("era", ["legacy", "modern"])
def test_the_inspector_verifies_our_skills(era: str, tmp_path: Path) -> None:
    shown = inspector(
        "--protocol-era", era, "--method", "skills/list", "--verify", "--require-digests", folder=tmp_path
    )
    reports = [json.loads(line) for line in shown.splitlines()]
    assert [(report["name"], report["outcome"], report["conformance"]) for report in reports] == [
        ("expense-report", "verified", []),
        ("greetings", "verified", []),
    ]
    assert [file["status"] for report in reports for file in report["files"]] == ["verified"] * 5
    listed = inspector(
        *("--protocol-era", era, "--method", "resources/directory/read", "--uri", "skill://expense-report"),
        folder=tmp_path,
    )
    assert "inode/directory" in listed


@pytest.mark.covers("APP-10")
def test_an_app_of_ours_is_shown_in_chromium_and_calls_a_tool_through_the_bridge(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    port, host_port = free_port(), free_port()
    monkeypatch.setenv("DRAGOMAN_ALLOWED_ORIGINS", f"http://127.0.0.1:{host_port}")
    command = [sys.executable, "-m", "dragoman", "run", "--http", "--port", str(port), str(ROOT / "examples/clock.py")]
    with listening(command, port, tmp_path) as url:
        seen = shown(url, host_port, tmp_path)
    assert seen["uri"] == "ui://clock/app.html"
    assert seen["mimeType"] == "text/html;profile=mcp-app"
    assert seen["meta"]["ui"] == {"prefersBorder": True}
    assert seen["declared"] == {"mimeTypes": ["text/html;profile=mcp-app"]}
    assert seen["app"] == {"name": "clock", "version": "1.0"}
    assert seen["text"].endswith("in Oslo. The user sees a clock.")
    assert seen["before"] in seen["text"]
    assert seen["city"] == "Oslo"
    assert seen["after"] != seen["before"]
    assert (seen["problem"], seen["complaints"]) == ("", [])
    assert seen["size"]["height"] > 0


def shown(url: str, host_port: int, folder: Path) -> Any:
    command = [node(), HERE / "host/show.mjs", url, "show_time", json.dumps({"city": "Oslo"}), folder / "shown.png"]
    ended = subprocess.run(
        [str(word) for word in command],
        capture_output=True,
        text=True,
        timeout=DEADLINE,
        check=False,
        env=os.environ | {"DRAGOMAN_HOST_PORT": str(host_port)},
    )
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stdout)
