"""A proxy passes everything between its clients and its target, in every pair of eras and of carriers."""

import contextlib
import json
import subprocess
import sys

import pytest

from dragoman import AsyncClient, Context, Server
from dragoman.protocol.versions import VERSIONS, version_names
from scenarios import proxied_server
from scenarios.proxied_server import ERAS, STATELESS, converse, everything
from scenarios.raw_http import serving

PROGRAM = [sys.executable, proxied_server.__file__]


@contextlib.asynccontextmanager
async def target(carrier, version):
    if carrier == "memory":
        yield everything(version)
    elif carrier == "stdio":
        yield [*PROGRAM, "server", version]
    else:
        async with serving(everything(version).asgi()) as url:
            yield url


@contextlib.asynccontextmanager
async def in_front(carrier, of, version):
    """Put a proxy in front of a target."""
    if carrier == "stdio":
        named = f"memory:{version}" if isinstance(of, Server) else of if isinstance(of, str) else json.dumps(of)
        yield [*PROGRAM, "proxy", named]
    elif carrier == "memory":
        yield Server.proxy(of)
    else:
        async with serving(Server.proxy(of).asgi()) as url:
            yield url


@pytest.mark.parametrize(
    ("front", "behind"),
    [("memory", "memory"), ("stdio", "stdio"), ("http", "http"), ("stdio", "http"), ("http", "stdio")],
)
@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("target_era", ERAS)
async def test_a_conversation_through_a_proxy_is_the_direct_one(front, behind, era, target_era):
    version = ERAS[target_era]
    direct = await converse(everything(version), mode=target_era)
    async with target(behind, version) as where, in_front(front, where, version) as proxy:
        passed = await converse(proxy, mode=era)
    assert passed == direct


@pytest.mark.parametrize("era", ERAS)
async def test_tasks_and_apps_pass(era):
    server, seen = Server("extended"), {}

    @server.tool(task=True, ui="ui://clock.html")
    async def slow(ctx: Context) -> str:
        await ctx.report_progress(1, total=2)
        return f"done, {(await ctx.elicit('Who?', str)).content}"

    server.add_app("ui://clock.html", "<p>Tick</p>")
    for name, where in (("direct", server), ("passed", Server.proxy(server))):
        progress = []
        options = {"tasks": True, "apps": True, "on_elicitation": lambda _: {"value": "Ada"}}
        async with AsyncClient(where, mode=era, **options) as client:
            result = await client.call_tool("slow", on_progress=lambda *given, one=progress: one.append(given))
            [tool] = await client.tools()
            task = await client.start_tool("slow")
            page = (await client.read_resource("ui://clock.html")).contents[0].text
            seen[name] = result.text, progress, tool.ui, page, (await task.result()).text, client.capabilities
    assert seen["passed"] == seen["direct"]


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("target_era", ERAS)
async def test_middleware_of_a_proxy_sees_what_passes_and_changes_nothing(era, target_era):
    version, methods = ERAS[target_era], set()
    proxy = Server.proxy(everything(version))

    @proxy.middleware
    async def noting(ctx: Context, call_next):
        methods.add(ctx.method)
        return await call_next()

    assert await converse(proxy, mode=era) == await converse(everything(version), mode=target_era)
    assert {"tools/call", "tools/list", "acme/add", "acme/absent"} <= methods


def test_a_proxy_shows_nothing_of_its_target():
    assert repr(Server.proxy("https://user:secret@example.com/mcp", name="front")) == "<Server 'front': a proxy>"


def test_a_program_with_a_proxy_ends_without_a_word():
    program = "from dragoman import Server\nproxy = Server.proxy(Server('notes'))"
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert ended.stderr == ""


async def test_a_proxy_names_its_own_versions_in_front_of_a_target_with_one_version():
    async with AsyncClient(Server.proxy(everything(STATELESS)), mode="stateless") as client:
        assert (await client.request("server/discover"))["supportedVersions"] == version_names(VERSIONS)
