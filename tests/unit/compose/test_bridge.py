"""`dragoman bridge`: a host that starts processes uses a server over HTTP, in both eras."""

import sys

import pytest

from dragoman import AsyncClient, Context, Server
from scenarios.command_line import environment
from scenarios.raw_http import serving


def shop():
    server = Server("shop")

    @server.tool
    async def greet(name: str, ctx: Context) -> str:
        await ctx.report_progress(1, 2)
        return f"Hello {name}"

    @server.tool
    async def ask(ctx: Context) -> str:
        return (await ctx.elicit("Who?", {"type": "object", "properties": {"name": {"type": "string"}}})).content[
            "name"
        ]

    return server


def bridge(url, *options):
    return [sys.executable, "-m", "dragoman", "bridge", url, *options]


@pytest.mark.parametrize("mode", ["handshake", "stateless", "auto"])
async def test_a_client_on_stdio_uses_a_server_over_http(mode, tmp_path):
    progress = []
    async with serving(shop().asgi()) as url:
        client = AsyncClient(
            bridge(url), mode=mode, env=environment(tmp_path), on_elicitation=lambda request: {"name": "Ada"}
        )
        async with client:
            result = await client.call_tool("greet", {"name": "Bo"}, on_progress=lambda *given: progress.append(given))
            assert result.text == "Hello Bo"
            assert (await client.call_tool("ask")).text == "Ada"
    assert len(progress) == 1


async def test_a_token_is_sent_to_a_server_that_requires_one(tmp_path):
    server = Server("locked")
    seen = []

    async def app(scope, receive, send):
        if scope["type"] == "http":
            seen.append(dict(scope["headers"]).get(b"authorization"))
        await inner(scope, receive, send)

    inner = server.asgi()
    async with (
        serving(app) as url,
        AsyncClient(bridge(url, "--token", "t0ken"), env=environment(tmp_path)) as client,
    ):
        await client.ping()
    assert set(seen) == {b"Bearer t0ken"}


async def test_a_server_that_is_away_is_an_error_and_no_silence(tmp_path):
    async with serving(shop().asgi()) as url:
        pass
    with pytest.raises(Exception, match="is the server running"):
        async with AsyncClient(bridge(url), env=environment(tmp_path), mode="handshake"):
            pass
