"""Exports of calls: what they hold, and that they run."""

import asyncio
import json
import shlex
import shutil
import subprocess
import sys

import pytest

from dragoman import AsyncClient, Server
from dragoman.testing import cassette
from scenarios.command_line import serving
from scenarios.inspector_page import connected_page, open_page, serving_mcp

DEADLINE = 60


async def exported(page, format, **chosen):
    return await page.call("export/make", format=format, **chosen)


async def test_a_call_becomes_a_test_that_passes(tmp_path):
    async with connected_page() as (page, id):
        outcome = await page.tool(id, "echo", {"city": "Oslo", "days": [1, 2]})
        failed = await page.tool(id, "fail")
        found = await exported(page, "pytest", numbers=[outcome["rows"][0], failed["rows"][0]])
    assert (found["name"], found["type"]) == ("test_recorded.py", "text/x-python")
    assert "def test_echo_1():" in found["text"]
    path = tmp_path / found["name"]
    path.write_text(found["text"], encoding="utf-8")
    ran = run([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(path)], tmp_path)
    assert (ran.returncode, "2 passed" in ran.stdout) == (0, True), ran.stdout


async def test_a_call_becomes_a_program_that_runs(tmp_path):
    async with connected_page() as (page, id):
        outcome = await page.tool(id, "echo", {"city": "Oslo"})
        await page.call("explore/request", server=id, method="resources/read", params={"uri": "file:///a"}, key="k")
        params = {"name": "greet", "arguments": {"name": "Ada"}}
        await page.call("explore/request", server=id, method="prompts/get", params=params, key="k")
        found = await exported(page, "python", server=id)
        one = await exported(page, "python", numbers=[outcome["rows"][0]])
    assert one["text"].count("client.") == 1
    path = tmp_path / found["name"]
    path.write_text(found["text"], encoding="utf-8")
    ran = run([sys.executable, str(path)], tmp_path)
    assert (ran.returncode, "Oslo" in ran.stdout, "Ada" in ran.stdout) == (0, True, True), ran.stderr


def run(command, folder):
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=DEADLINE, check=False)


async def test_a_session_becomes_a_cassette_that_plays(tmp_path):
    async with connected_page(version="2025-11-25") as (page, id):
        await page.tool(id, "fail")
        found = await exported(page, "cassette", server=id)
    path = tmp_path / found["name"]
    path.write_text(found["text"], encoding="utf-8")
    with cassette(path, order="any") as tape:
        async with AsyncClient(tape, protocol_version="2025-11-25", name="dragoman-inspector") as client:
            result = await client.call_tool("fail", raise_on_error=False)
        tape._tape.missing.clear()  # this client declares less than the inspector
    assert result.text == "it failed"


def shop():
    server = Server("shop")

    @server.tool
    async def add(a: int) -> int:
        """Adds one."""
        return a + 1

    return server


async def test_a_call_over_http_becomes_curl_and_har_without_its_token():
    async with serving_mcp(shop()) as url, open_page() as page:
        [added] = (await page.call("servers/add", target=url, token="a-very-secret-token"))["servers"]
        await page.call("servers/connect", server=added["id"])
        outcome = await page.tool(added["id"], "add", {"a": 1})
        curl = (await exported(page, "curl", numbers=outcome["rows"]))["text"]
        har = (await exported(page, "har", server=added["id"]))["text"]
    assert "a-very-secret-token" not in curl + har
    words = shlex.split(curl.replace("\\\n", " "))
    assert words[:3] == ["curl", "-sS", url]
    assert "Authorization: Bearer $DRAGOMAN_TOKEN" in words
    assert json.loads(words[words.index("--data-raw") + 1])["params"]["arguments"] == {"a": 1}
    entries = json.loads(har)["log"]["entries"]
    last = next(entry for entry in entries if "tools/call" in entry["request"]["postData"]["text"])
    assert (last["request"]["url"], last["request"]["method"], last["response"]["status"]) == (url, "POST", 200)
    assert json.loads(last["response"]["content"]["text"])["result"]["structuredContent"] == {"result": 2}
    assert last["time"] >= 0


SHOP = """
from dragoman import Server

server = Server("shop")

@server.tool
def add(a: int) -> int:
    return a + 1

if __name__ == "__main__":
    server.run()
"""


@pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl")
@pytest.mark.parametrize("version", ["2025-03-26", "2025-11-25", "2026-07-28"])
async def test_curl_commands_begin_a_session_where_the_server_has_one_and_run(tmp_path, version):
    script = tmp_path / "shop.py"
    script.write_text(SHOP, encoding="utf-8")
    with serving(script, home=tmp_path) as url:
        async with open_page() as page:
            id = await page.connected(url, version=version)
            outcome = await page.tool(id, "add", {"a": 41})
            one = (await exported(page, "curl", numbers=outcome["rows"]))["text"]
            every = (await exported(page, "curl", server=id))["text"]
        has_session = version != "2026-07-28"
        for text in (one, every):
            assert ("sha256:" in text, "session=$(" in text) == (False, has_session)
            assert text.count('"initialize"') == has_session
            ran = await asyncio.to_thread(run, ["sh", "-c", text], tmp_path)
            assert (ran.returncode, ran.stderr, '"text":"42"' in ran.stdout) == (0, "", True), ran


async def test_a_message_of_a_process_becomes_curl_for_a_server_over_http():
    async with connected_page() as (page, id):
        outcome = await page.tool(id, "echo", {"it's": "quoted"})
        words = shlex.split((await exported(page, "curl", numbers=outcome["rows"]))["text"].replace("\\\n", " "))
        assert words[2].startswith("http://127.0.0.1")
        assert json.loads(words[-1])["params"]["arguments"] == {"it's": "quoted"}


@pytest.mark.parametrize(
    ("chosen", "status"),
    [({"numbers": []}, 400), ({"numbers": [999]}, 404), ({"filter": "method:none"}, 400), ({"filter": ">1xy"}, 400)],
)
async def test_nothing_is_exported_if_nothing_is_chosen(chosen, status):
    async with open_page() as page:
        await page.connected()
        assert (await page.refused("export/make", format="python", **chosen)).status == status


async def test_records_of_several_servers_are_not_mixed():
    async with open_page() as page:
        await page.connected()
        await page.connected()
        refused = await page.refused("export/make", format="har")
        assert "several servers" in refused.error["message"]
