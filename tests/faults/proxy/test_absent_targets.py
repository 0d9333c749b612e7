"""A proxy whose target went away answers lists at once from what it knows, and notices when the target comes back."""

import asyncio
import contextlib
import os
import signal
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from dragoman import AsyncClient, Context, RpcError, Server, ToolError
from dragoman.client.connect import reconnect
from dragoman.server.request.context import BlockingContext
from scenarios.plain_target import COMMAND
from scenarios.proxied_http import serving_itself
from scenarios.raw_http import answering, modern, reply, serving
from scenarios.restarted_target import target

DEADLINE = 60
PROMPTLY = 2.5
"""Seconds for several answers without a connection; one attempt to reconnect with pauses takes about four."""
UNREACHABLE = r"cannot be reached|was lost"


@contextlib.asynccontextmanager
async def front(to: Any, **options: Any) -> AsyncIterator[str]:
    app = Server.proxy(to, **options).asgi(auth=lambda request: request.headers.get("X-User", "ann"))
    async with serving_itself(app) as port:
        yield f"http://127.0.0.1:{port}/mcp"


@pytest.fixture
def brisk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let attempts to reconnect follow each other at once, where no time is measured."""
    monkeypatch.setattr(reconnect, "FIRST_PAUSE", 0.01)


async def names(client: AsyncClient) -> list[str]:
    return [tool.name for tool in (await client.list_tools()).tools]


@pytest.mark.parametrize("mode", ["handshake", "stateless"])
async def test_lists_of_a_target_that_went_away_are_answered_at_once_for_every_client(mode, monkeypatch):
    async with target("forecast") as process, front(process.url) as url, AsyncClient(url, mode=mode) as client:
        assert await names(client) == ["forecast"]
        await client.list_prompts()
        await process.kill()
        await client.list_tools()
        began = time.monotonic()
        for _ in range(5):
            page = await client.list_tools()
            assert [tool.name for tool in page.tools] == ["forecast"]
            assert page.meta["dragoman/age"] >= 0
            assert [prompt.name for prompt in (await client.list_prompts()).prompts] == ["greet"]
        for other in ("handshake", "stateless"):
            async with AsyncClient(url, mode=other, roots=["file:///project"], on_sampling=lambda _: "x") as another:
                assert another.instructions == "Ask for one city."
                assert await names(another) == ["forecast"]
        async with AsyncClient(url, mode="handshake", protocol_version="2025-03-26") as old:
            assert await names(old) == ["forecast"]
        assert time.monotonic() - began < PROMPTLY
        monkeypatch.setattr(reconnect, "FIRST_PAUSE", 0.01)
        with pytest.raises(RpcError, match=UNREACHABLE):
            await client.call_tool("forecast")


async def test_clients_hear_of_new_lists_when_the_target_is_back(brisk):
    async with target("forecast") as process, front(process.url) as url:
        changes: asyncio.Queue[str] = asyncio.Queue()
        async with AsyncClient(url, mode="handshake", on_list_changed=changes.put_nowait) as client:
            assert await names(client) == ["forecast"]
            await process.kill()
            assert await names(client) == ["forecast"]
            await process.start("forecast", "warnings")
            await changes.get()
            while await names(client) != ["forecast", "warnings"]:  # noqa: ASYNC110
                await asyncio.sleep(0.05)
            assert "dragoman/age" not in ((await client.list_tools()).meta or {})


async def test_lists_of_a_process_that_cannot_start_again_are_answered_at_once(tmp_path):
    program = tmp_path / "target"
    program.write_text(f"#!{sys.executable}\n{Path(COMMAND[-1]).read_text()}")  # noqa: ASYNC240
    program.chmod(0o755)
    async with (
        asyncio.timeout(DEADLINE),
        front([str(program)]) as url,
        AsyncClient(url, mode="handshake") as client,
    ):
        process = int((await client.call_tool("pid")).text)
        assert await names(client) == ["pid", "hang"]
        program.unlink()
        os.kill(process, signal.SIGKILL)
        assert await names(client) == ["pid", "hang"]
        began = time.monotonic()
        for _ in range(5):
            assert await names(client) == ["pid", "hang"]
        async with AsyncClient(url, mode="stateless") as other:
            assert await names(other) == ["pid", "hang"]
        assert time.monotonic() - began < PROMPTLY


@pytest.mark.parametrize("options", [{"isolate": "principal"}, {"isolate": "session"}, {"forward_credentials": True}])
async def test_known_lists_are_shown_to_the_same_principal_only(options, brisk):
    async with target("forecast") as process, front(process.url, **options) as url:

        def client(user: str, token: str) -> AsyncClient:
            return AsyncClient(url, headers={"X-User": user}, auth=token, mode="handshake")

        async with client("ann", "first") as ann, client("bob", "second") as bob:
            assert await names(ann) == ["forecast"]
            await process.kill()
            assert await names(ann) == ["forecast"]
            async with client("ann", "renewed") as again:
                assert await names(again) == ["forecast"]
            with pytest.raises(RpcError, match=UNREACHABLE):
                await names(bob)
            with pytest.raises(RpcError, match=UNREACHABLE):
                await names(client("eve", "first"))


async def test_callers_without_a_principal_share_known_lists_only_with_the_same_credentials(brisk):
    async with (
        target("forecast") as process,
        serving(Server.proxy(process.url, forward_credentials=True).asgi()) as url,
    ):
        async with AsyncClient(url, auth="first", mode="stateless") as client:
            assert await names(client) == ["forecast"]
            await process.kill()
            assert await names(client) == ["forecast"]
        async with AsyncClient(url, auth="first", mode="handshake") as again:
            assert await names(again) == ["forecast"]
        for other in ({"auth": "second"}, {}):
            with pytest.raises(RpcError, match=UNREACHABLE):
                await names(AsyncClient(url, mode="handshake", **other))


async def test_a_target_that_refuses_credentials_is_not_away():
    is_revoked = []

    async def script(request, writer):
        if is_revoked:
            return reply(401, b"", www_authenticate="Bearer")
        if request.method == "tools/list":
            page = {"tools": [{"name": "secret", "inputSchema": {"type": "object"}}], "resultType": "complete"}
            body = {"jsonrpc": "2.0", "id": request.id, "result": {**page, "ttlMs": 0, "cacheScope": "private"}}
            return reply(200, body)
        return await others(request, writer)

    others = modern(script)
    async with (
        asyncio.timeout(DEADLINE),
        answering(script) as inner,
        front(inner.url, forward_credentials=True) as url,
        AsyncClient(url, auth="a", mode="stateless") as client,
    ):
        assert await names(client) == ["secret"]
        is_revoked.append(True)
        for _ in range(2):
            with pytest.raises(RpcError, match="refuses the credentials"):
                await names(client)


async def test_the_command_line_lists_a_target_that_went_away_at_once():
    async with target("forecast") as process, front(process.url) as url:
        command = [sys.executable, "-m", "dragoman", "list", url]

        async def listed() -> tuple[float, str]:
            began = time.monotonic()
            run = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
            output, _ = await run.communicate()
            return time.monotonic() - began, output.decode()

        usual, before = await listed()
        await process.kill()
        await listed()
        seconds, after = await listed()
        assert "forecast" in before
        assert after == before
        assert seconds < usual + PROMPTLY


# Functions that exchange credentials.


def inner() -> Server:
    server = Server("inner")

    @server.tool
    async def authorization(ctx: Context) -> str:
        return ctx.headers.get("Authorization", "none")

    return server


async def async_exchange(authorization: str, ctx: Context) -> str:
    return f"Bearer {ctx.principal} by {authorization or 'nothing'}"


def blocking_exchange(authorization: str, ctx: BlockingContext) -> str:
    return f"Bearer {ctx.principal} by {authorization or 'nothing'}"


@pytest.mark.parametrize("exchange", [async_exchange, blocking_exchange])
@pytest.mark.parametrize("mode", ["handshake", "stateless"])
async def test_a_function_that_exchanges_credentials_gets_the_context(exchange, mode):
    async with serving(inner().asgi()) as to, front(to, forward_credentials=exchange) as url:
        for user in ("ann", "bob"):
            async with AsyncClient(url, headers={"X-User": user}, auth="t", mode=mode) as client:
                assert (await client.call_tool("authorization")).text == f"Bearer {user} by Bearer t"
            async with AsyncClient(url, headers={"X-User": user}, mode=mode) as client:
                assert (await client.call_tool("authorization")).text == f"Bearer {user} by nothing"


@pytest.mark.parametrize("mode", ["handshake", "stateless"])
@pytest.mark.parametrize(
    ("error", "message"),
    [
        (ToolError("Connect your account first: https://example.com"), "Connect your account first: https://example"),
        (KeyError("account"), "The proxy 'proxy' has no credentials for the server behind it; its log says more"),
        (None, "The proxy 'proxy' has no credentials for the server behind it; its log says more"),
    ],
)
async def test_the_client_gets_the_error_of_a_function_that_exchanges_credentials(mode, error, message, caplog):
    is_connected = [True]

    async def exchange(authorization: str, ctx: Context) -> Any:
        if is_connected:
            return authorization
        if error is not None:
            raise error
        return None

    async with asyncio.timeout(DEADLINE), serving(inner().asgi()) as to, front(to, forward_credentials=exchange) as url:
        async with AsyncClient(url, auth="t", mode=mode) as client:
            await client.call_tool("authorization")
            is_connected.clear()
            caplog.clear()
            with pytest.raises(ToolError, match=message):
                await client.call_tool("authorization")
            lines = caplog.text.splitlines()
            assert len(lines) == (0 if isinstance(error, ToolError) else 1), lines
            with pytest.raises(RpcError, match=message):
                await client.list_tools()
        with pytest.raises(RpcError, match=message):
            await AsyncClient(url, auth="another").start()
        assert "may have been served" not in caplog.text
        assert "Traceback" not in caplog.text
