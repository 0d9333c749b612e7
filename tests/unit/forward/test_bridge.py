"""`dragoman bridge`: a host that starts processes uses a server over HTTP, in both eras."""

import asyncio
import json
import sys

import pytest

from dragoman import AsyncClient, Context, Server
from scenarios.command_line import environment
from scenarios.raw_http import serving
from scenarios.shop_server import shop


def bridge(url, *options):
    return [sys.executable, "-m", "dragoman", "bridge", url, *options]


@pytest.mark.parametrize("mode", ["handshake", "stateless", "auto"])
async def test_a_client_on_stdio_uses_a_server_over_http(mode, tmp_path):
    progress = []
    async with serving(shop().asgi()) as url:
        client = AsyncClient(
            bridge(url), mode=mode, env=environment(tmp_path), on_elicitation=lambda request: {"value": "Ada"}
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


class RawHost:
    """A host that starts the bridge and speaks in lines."""

    def __init__(self, url, folder):
        self.command, self.env = bridge(url), environment(folder)

    async def __aenter__(self):
        pipe = asyncio.subprocess.PIPE
        self.process = await asyncio.create_subprocess_exec(*self.command, stdin=pipe, stdout=pipe, env=self.env)
        return self

    async def __aexit__(self, *_):
        self.process.stdin.close()
        async with asyncio.timeout(60):
            await self.process.wait()

    async def ask(self, line):
        self.process.stdin.write(line + b"\n")
        async with asyncio.timeout(60):
            return json.loads(await self.process.stdout.readline())


@pytest.mark.parametrize("mode", ["handshake", "stateless"])
async def test_a_task_and_its_question_pass(mode, tmp_path):
    server = Server("kitchen")

    @server.tool(task=True)
    async def bake(ctx: Context) -> str:
        return f"bread with {(await ctx.elicit('What?', str)).content}"

    def answer(_):
        return {"value": "salt"}

    async with serving(server.asgi()) as url:
        client = AsyncClient(bridge(url), mode=mode, env=environment(tmp_path), tasks=True, on_elicitation=answer)
        async with client:
            assert (await client.call_tool("bake")).text == "bread with salt"


async def test_twenty_megabytes_pass_in_both_directions(tmp_path):
    server = Server("copier", max_message_bytes=40_000_000)

    @server.tool
    async def copy(text: str) -> str:
        return text

    async with serving(server.asgi()) as url:
        client = AsyncClient(bridge(url), env=environment(tmp_path), max_message_bytes=40_000_000)
        async with client:
            assert len((await client.call_tool("copy", {"text": "x" * 20_000_000})).text) == 20_000_000


async def test_a_line_that_is_no_message_is_answered_and_the_next_one_is_served(tmp_path):
    ping = b'{"jsonrpc":"2.0","id":7,"method":"initialize","params":{"protocolVersion":"2025-06-18",'
    ping += b'"capabilities":{},"clientInfo":{"name":"raw","version":"1"}}}'
    async with serving(shop().asgi()) as url, RawHost(url, tmp_path) as host:
        assert (await host.ask(b"{no message"))["error"]["code"] == -32700
        assert (await host.ask(b'{"jsonrpc":"2.0","id":5,"method":6}'))["id"] == 5
        assert (await host.ask(ping))["result"]["serverInfo"]["name"] == "shop"


async def test_an_answer_on_several_lines_becomes_one_line(tmp_path):
    async def app(scope, receive, send):
        if scope["type"] != "http":
            return
        message = json.loads((await receive())["body"])
        body = json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": {"text": "a\nb"}}, indent=2).encode()
        head = [(b"content-type", b"application/json")]
        await send({"type": "http.response.start", "status": 200, "headers": head})
        await send({"type": "http.response.body", "body": body})

    async with serving(app) as url, RawHost(url, tmp_path) as host:
        assert (await host.ask(b'{"jsonrpc":"2.0","id":1,"method":"x"}'))["result"] == {"text": "a\nb"}
