"""Every example of HTTP is started as a reader would start it, asked in both eras, and ended by a signal."""

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import AsyncIterator
from itertools import cycle
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from ports import free_port

EXAMPLES = Path(__file__).resolve().parents[2] / "examples/http"
DEADLINE = 60
STATELESS, NEWEST = "2026-07-28", "2025-11-25"
PREFIX = "io.modelcontextprotocol/"
ACCEPT = {"accept": "application/json, text/event-stream"}
SUM = ("add", {"a": 2, "b": 3}, "5")
CASES = {
    "plain.py": SUM,
    "starlette_mount.py": SUM,
    "fastapi_mount.py": ("price", {"fruit": "pear"}, "0.75"),
    "django_asgi.py": SUM,
    "django_wsgi.py": SUM,
    "flask_mount.py": SUM,
    "flask_controller.py": ("my_notes", {}, '["Find the moth"]'),
    "server_per_user.py": ("who_am_i", {}, "grace"),
}
WITHOUT_A_SLASH = {"django_wsgi.py", "flask_controller.py", "starlette_mount.py", "fastapi_mount.py"}
"""Their routes are the framework's own, which tells a slash at the end from none."""
PAGES = {
    "starlette_mount.py": "Sums are served at ",
    "fastapi_mount.py": '{"apple":0.5,"pear":0.75}',
    "django_asgi.py": "Sums are served at ",
    "flask_mount.py": "Sums are served at /mcp",
}


async def is_open(port: int) -> bool:
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        return False
    writer.close()
    with contextlib.suppress(OSError):
        await writer.wait_closed()
    return True


@contextlib.asynccontextmanager
async def running(example: str, ending: signal.Signals) -> AsyncIterator[str]:
    """Run an example and end it by a signal."""
    port = free_port()
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-W",
        "error",
        "-W",
        "default::ResourceWarning",
        EXAMPLES / example,
        env=os.environ | {"PORT": str(port)},
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stderr is not None
    try:
        async with asyncio.timeout(DEADLINE):
            while not await is_open(port):
                assert process.returncode is None, (await process.stderr.read()).decode()
                # Nothing tells from outside when a process begins to listen.
                await asyncio.sleep(0.05)
        yield f"http://127.0.0.1:{port}"
        process.send_signal(ending)
        said = await asyncio.wait_for(process.stderr.read(), DEADLINE)
        assert await asyncio.wait_for(process.wait(), DEADLINE) in (0, -ending, 128 + ending), said.decode()
        assert b"Traceback" not in said, said.decode()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


class Client:
    """A plain HTTP client of one server."""

    def __init__(self, http: aiohttp.ClientSession, url: str) -> None:
        self._http = http
        self._url = url
        self._headers = ACCEPT | {"authorization": "Bearer grace"}

    async def ask(self, method: str, params: dict[str, Any], path: str = "/mcp", **headers: str) -> Any:
        message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        async with self._http.post(
            self._url + path, json=message, headers=self._headers | named, allow_redirects=False
        ) as response:
            assert response.status == 200, await response.text()
            if "mcp-session-id" in response.headers:
                self._headers["mcp-session-id"] = response.headers["mcp-session-id"]
            return (await response.json())["result"]

    async def call_statelessly(self, tool: str, arguments: dict[str, Any], path: str = "/mcp") -> Any:
        meta = {f"{PREFIX}protocolVersion": STATELESS, f"{PREFIX}clientCapabilities": {}}
        params = {"name": tool, "arguments": arguments, "_meta": meta}
        mirrored = {"mcp_protocol_version": STATELESS, "mcp_method": "tools/call", "mcp_name": tool}
        return await self.ask("tools/call", params, path, **mirrored)

    async def call_after_a_handshake(self, tool: str, arguments: dict[str, Any]) -> Any:
        introduction = {
            "protocolVersion": NEWEST,
            "capabilities": {},
            "clientInfo": {"name": "plain client", "version": "1"},
        }
        agreed = await self.ask("initialize", introduction)
        assert agreed["protocolVersion"] == NEWEST
        self._headers["mcp-protocol-version"] = NEWEST
        async with self._http.post(
            self._url + "/mcp",
            json={"jsonrpc": "2.0", "method": "notifications/initialized"},
            headers=self._headers,
        ) as response:
            assert (response.status, await response.read()) == (202, b"")
        return await self.ask("tools/call", {"name": tool, "arguments": arguments})

    async def page(self) -> str:
        async with self._http.get(self._url) as response:
            return await response.text()


def test_every_example_is_asked():
    assert {path.name for path in EXAMPLES.glob("*.py")} == set(CASES)


@pytest.mark.covers("SHT-01", "SHV-06")
@pytest.mark.parametrize(("example", "ending"), list(zip(CASES, cycle([signal.SIGINT, signal.SIGTERM]), strict=False)))
def test_an_example_serves_both_eras_and_ends_by_a_signal(example, ending):
    tool, arguments, answer = CASES[example]

    async def ask() -> None:
        async with running(example, ending) as url, aiohttp.ClientSession() as http:
            stateless = await Client(http, url).call_statelessly(tool, arguments)
            assert stateless["content"] == [{"type": "text", "text": answer}]
            assert stateless["resultType"] == "complete"
            if example not in WITHOUT_A_SLASH:
                assert await Client(http, url).call_statelessly(tool, arguments, "/mcp/") == stateless
            handshake = await Client(http, url).call_after_a_handshake(tool, arguments)
            assert handshake["content"] == [{"type": "text", "text": answer}]
            assert (await Client(http, url).page()).startswith(PAGES.get(example, ""))

    asyncio.run(asyncio.wait_for(ask(), 4 * DEADLINE))


@pytest.mark.covers("SHT-03")
def test_a_user_of_the_example_sees_the_tools_that_are_meant_for_that_user():
    async def tools(http: aiohttp.ClientSession, url: str, user: str) -> list[str]:
        client = Client(http, url)
        client._headers["authorization"] = f"Bearer {user}"
        return [tool["name"] for tool in (await client.ask("tools/list", {}))["tools"]]

    async def ask() -> None:
        async with running("server_per_user.py", signal.SIGTERM) as url, aiohttp.ClientSession() as http:
            assert await tools(http, url, "grace") == ["who_am_i"]
            assert await tools(http, url, "admin") == ["who_am_i", "restart"]

    asyncio.run(asyncio.wait_for(ask(), 2 * DEADLINE))
