"""Apps, seen from the wire: what a server declares, lists and reads, in every version."""

import subprocess
import sys
from pathlib import Path

import pytest

from dragoman import Context, Server, apps, types
from dragoman.testing import WirePeer

URI = "ui://clock/app.html"
PAGE = "<!doctype html><title>Clock</title>"
VERSIONS = ["stateless", "2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"]
SHOWS: types.Json = {"extensions": {apps.ID: apps.capability()}}


def clock() -> Server:
    server = Server("clock")
    server.add_app(URI, PAGE, csp=apps.Csp(connect=["https://time.example.com"]))

    @server.tool(ui=URI)
    async def now(ctx: Context) -> dict[str, str]:
        """Tells the time."""
        return {"time": "12:00", "shown": "app" if apps.supported(ctx) else "text"}

    @server.tool
    async def declared(ctx: Context) -> dict[str, object]:
        """Tells what the client declared."""
        return dict(ctx.client.extension("io.modelcontextprotocol/apps") or {})

    return server


@pytest.mark.covers("APP-01", "APP-06")
@pytest.mark.parametrize("version", VERSIONS)
async def test_apps_are_declared_listed_and_read_in_the_versions_that_have_meta(version):
    async with WirePeer(clock(), version, capabilities=SHOWS) as peer:
        told = await peer.request("server/discover") if version == "stateless" else peer.initialized
        tool = (await peer.request("tools/list"))["result"]["tools"][0]
        resource = (await peer.request("resources/list"))["result"]["resources"][0]
        contents = (await peer.request("resources/read", {"uri": URI}))["result"]["contents"][0]
    has_meta = version in ("stateless", "2025-11-25", "2025-06-18")
    ui = {"ui": {"csp": {"connectDomains": ["https://time.example.com"]}}}
    assert told["result"]["capabilities"].get("extensions") == ({apps.ID: apps.capability()} if has_meta else None)
    assert tool.get("_meta") == ({"ui": {"resourceUri": URI}, "ui/resourceUri": URI} if has_meta else None)
    assert (resource.get("_meta"), contents.get("_meta")) == ((ui, ui) if has_meta else (None, None))
    assert (contents["text"], contents["mimeType"]) == (PAGE, "text/html;profile=mcp-app")


@pytest.mark.covers("APP-05", "EXT-02")
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("declared", [{}, SHOWS], ids=["shows no apps", "shows apps"])
async def test_a_tool_with_an_app_has_its_text_for_every_client_and_may_ask_what_the_client_shows(version, declared):
    async with WirePeer(clock(), version, capabilities=declared) as peer:
        result = (await peer.request("tools/call", {"name": "now", "arguments": {}}))["result"]
    may_show = declared is SHOWS and version in ("stateless", "2025-11-25", "2025-06-18")
    assert f'"shown":"{"app" if may_show else "text"}"' in result["content"][0]["text"]
    assert ("structuredContent" in result) is (version in ("stateless", "2025-11-25", "2025-06-18"))


@pytest.mark.covers("EXT-01", "EXT-02")
@pytest.mark.parametrize("version", ["stateless", "2025-11-25", "2025-06-18"])
@pytest.mark.parametrize("settings", [{}, {"mimeTypes": ["text/html"]}], ids=str)
async def test_a_handler_reads_the_settings_that_the_client_declared_by_id_or_alias(version, settings):
    async with WirePeer(clock(), version, capabilities={"extensions": {apps.ID: settings}}) as peer:
        result = (await peer.request("tools/call", {"name": "declared", "arguments": {}}))["result"]
    assert result["structuredContent"] == settings


@pytest.mark.covers("APP-07")
@pytest.mark.parametrize("words", [[], ["--http", "--port", "0"]], ids=["stdio", "http"])
def test_a_program_whose_app_is_missing_ends_and_names_it(words, tmp_path: Path):
    file = tmp_path / "clock.py"
    file.write_text(
        "from dragoman import Server\n"
        "server = Server('clock')\n"
        "@server.tool(ui='ui://clock/app.html')\n"
        "def now() -> str: return '12:00'\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "dragoman", "run", *words, str(file)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert done.returncode != 0
    assert "The tool 'now' names the app 'ui://clock/app.html', which the server does not have" in done.stderr
    assert "Traceback" not in done.stderr
