"""Our client logs in at the authorization server of mcp, which grants a client only the scopes of its registration."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest

from auth.visiting import person
from dragoman import AsyncClient, Context, Server
from dragoman.auth import Bearer, Identity
from dragoman.errors import InsufficientScope
from interop.processes import HERE, client_command
from ports import free_port
from scenarios.command_line import BROWSER, dragoman
from scenarios.http.test_uvicorn import running

DEADLINE = 60.0


async def fetched(url: str) -> Any:
    async with aiohttp.ClientSession() as http, http.get(url) as response:
        return await response.json()


@asynccontextmanager
async def issuing(*scopes: str) -> AsyncIterator[str]:
    """Run the authorization server of mcp; yield its issuer."""
    issuer, command = f"http://127.0.0.1:{free_port()}", [str(client_command("python")[0])]
    words = [*command, str(HERE / "mcp_authorization_server.py"), issuer.rpartition(":")[2], *scopes]
    process = await asyncio.create_subprocess_exec(*words, stderr=asyncio.subprocess.PIPE)
    try:
        async with asyncio.timeout(DEADLINE):
            while True:
                try:
                    await fetched(f"{issuer}/registrations")
                except aiohttp.ClientConnectionError:
                    assert process.returncode is None, (await process.stderr.read()).decode()
                    await asyncio.sleep(0.02)
                else:
                    break
        yield issuer
    finally:
        if process.returncode is None:
            process.terminate()
        await process.communicate()


@asynccontextmanager
async def files(issuer: str) -> AsyncIterator[str]:
    """Serve a tool that everybody may call who is logged in, and one that takes another scope; yield the URL."""
    server = Server("files")

    @server.tool
    def read() -> str:
        return "read"

    @server.tool
    async def write(ctx: Context) -> str:  # everybody sees it in the list, unlike a tool with `scopes=`
        if "write" not in (ctx.scopes or ()):
            raise InsufficientScope(["write"])
        return "written"

    async def verify(token: str) -> Identity | None:
        scopes = await fetched(f"{issuer}/introspect?token={token}")
        return None if scopes is None else Identity("ann", frozenset(scopes))

    port = free_port()
    url = f"http://127.0.0.1:{port}/mcp"
    auth = Bearer(verify, resource=url, authorization_servers=[issuer], required_scopes=["read"])
    async with running(server.asgi(auth=auth), port=port):
        yield url


@pytest.mark.covers("OAU-30")
@pytest.mark.parametrize(
    ("scopes", "registered"),
    [(("read", "write"), ["read write"]), ((), ["read", "read write"])],
    ids=["scopes are published", "scopes are not published"],
)
async def test_client_that_registered_itself_gets_more_scopes_when_a_tool_takes_them(scopes, registered) -> None:
    async with issuing(*scopes) as issuer, files(issuer) as url:
        browser, auth = person()
        async with asyncio.timeout(DEADLINE), AsyncClient(url, auth=auth) as client:
            assert (await client.call_tool("read")).text == "read"
            assert (await client.call_tool("write")).text == "written"
        assert [asked["scope"] for asked in browser.asked] == ["read", "read write"]
        assert await fetched(f"{issuer}/registrations") == registered


@pytest.mark.covers("OAU-30", "CMD-12")
async def test_command_line_gets_more_scopes_with_another_login(tmp_path) -> None:
    async def command(*words: str) -> Any:
        return await asyncio.to_thread(dragoman, *words, home=tmp_path, BROWSER=BROWSER)

    async with issuing() as issuer, files(issuer) as url:
        assert (await command("auth", "login", url)).code == 0
        assert (await command("call", url, "read")).out == "read\n"
        refused = await command("call", url, "write")
        assert f"dragoman auth login {url} --scope write" in refused.err
        assert "expired" not in refused.err
        assert (await command("auth", "login", url, "--scope", "write")).code == 0
        assert (await command("call", url, "write")).out == "written\n"
