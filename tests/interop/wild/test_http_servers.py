"""Dragoman under the HTTP servers that people deploy: an open stream does not delay the end of the server."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest

from interop.wild.environments import HERE, ROOT, python
from ports import free_port

pytestmark = pytest.mark.e2e

DEADLINE = 60.0
END_SECONDS = 20.0
"""How long a server with open streams may take to end; by default, gunicorn and Kubernetes kill it after 30 s."""
ENVIRONMENT = "http-servers"
ACCEPT = {"accept": "application/json, text/event-stream"}
META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}
# One worker each: gunicorn and granian may lose a SIGTERM for a second worker that still starts.
GUNICORN = ["-m", "gunicorn", "-w", "1", "-b", "127.0.0.1:{port}"]
SERVERS = {
    "uvicorn": ["-m", "uvicorn", "--port", "{port}", "http_server:app"],
    "gunicorn with uvicorn workers": [*GUNICORN, "-k", "uvicorn_worker.UvicornWorker", "http_server:app"],
    "gunicorn with ASGI workers": [*GUNICORN, "-k", "asgi", "http_server:app"],
    "granian": ["-m", "granian", "--interface", "asgi", "--port", "{port}", "http_server:app"],
    "granian on asyncio": [
        *("-m", "granian", "--interface", "asgi", "--loop", "asyncio"),
        *("--port", "{port}", "http_server:app"),
    ],
    "hypercorn": ["-m", "hypercorn", "-b", "127.0.0.1:{port}", "http_server:app"],
    "daphne": ["-m", "daphne", "-p", "{port}", "http_server:app"],
}


@asynccontextmanager
async def running(words: list[str], folder: Path) -> AsyncIterator[tuple[subprocess.Popen[bytes], str]]:
    """Run a program until it listens; give its process and the URL of its server, and kill it at the end."""
    port = free_port()
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(HERE), str(ROOT / "src")])}
    command = [str(python(ENVIRONMENT)), *(word.format(port=port) for word in words)]
    with (folder / "output").open("wb") as output:
        options = {"cwd": folder, "env": environment, "stdout": output, "stderr": output, "start_new_session": True}
        child = await asyncio.to_thread(subprocess.Popen, command, **options)
    try:
        async with asyncio.timeout(DEADLINE):
            while True:
                try:
                    socket.create_connection(("127.0.0.1", port), timeout=1).close()
                    break
                except OSError:
                    assert child.poll() is None, (folder / "output").read_text()
                    await asyncio.sleep(0.05)
        yield child, f"http://127.0.0.1:{port}/mcp"
    finally:
        if child.poll() is None:
            os.killpg(child.pid, signal.SIGKILL)
        child.wait(DEADLINE)


async def open_stream(http: aiohttp.ClientSession, url: str, kind: str) -> aiohttp.ClientResponse:
    """Open the standalone stream of a session, or a subscription."""
    if kind == "subscription":
        params = {"notifications": {"toolsListChanged": True}, "_meta": META}
        message = {"jsonrpc": "2.0", "id": 1, "method": "subscriptions/listen", "params": params}
        headers = {**ACCEPT, "mcp-protocol-version": "2026-07-28", "mcp-method": "subscriptions/listen"}
        response = await http.post(url, json=message, headers=headers)
        assert b"acknowledged" in await response.content.readany()
        return response
    params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "peer", "version": "1"}}
    message = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}
    async with http.post(url, json=message, headers=ACCEPT) as response:
        session = response.headers["mcp-session-id"]
    headers = {"accept": "text/event-stream", "mcp-protocol-version": "2025-11-25", "mcp-session-id": session}
    response = await http.get(url, headers=headers)
    await response.content.readany()  # the first event
    return response


@pytest.mark.parametrize("kind", ["session", "subscription"])
@pytest.mark.parametrize("name", SERVERS)
async def test_server_with_an_open_stream_ends_soon_after_sigterm(name, kind, tmp_path):
    async with running(SERVERS[name], tmp_path) as (child, url), aiohttp.ClientSession() as http:
        stream = await asyncio.wait_for(open_stream(http, url, kind), DEADLINE)
        signalled = time.monotonic()
        child.send_signal(signal.SIGTERM)
        await asyncio.wait_for(asyncio.to_thread(child.wait), END_SECONDS)
        assert time.monotonic() - signalled < END_SECONDS
        stream.close()


@pytest.mark.parametrize("options", [[], ["--preload"]], ids=["", "preload"])
async def test_gevent_workers_refuse_with_the_remedy(options, tmp_path):
    words = [*GUNICORN, "-k", "gevent", *options, "http_server:wsgi()"]
    async with running(words, tmp_path) as (child, url), aiohttp.ClientSession() as http:
        try:
            async with http.post(url, json={}, timeout=aiohttp.ClientTimeout(DEADLINE)) as response:
                assert response.status == 500
        except aiohttp.ClientError:
            await asyncio.wait_for(asyncio.to_thread(child.wait), DEADLINE)
    output = (tmp_path / "output").read_text()
    assert "gevent has replaced Python's threads by greenlets" in output
    assert "gunicorn -k gthread" in output


async def test_gthread_workers_serve_wsgi(tmp_path):
    params = {"name": "add", "arguments": {"a": 1, "b": 2}, "_meta": META}
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    headers = {**ACCEPT, "mcp-protocol-version": "2026-07-28", "mcp-method": "tools/call", "mcp-name": "add"}
    words = [*GUNICORN, "-k", "gthread", "--threads", "4", "http_server:wsgi()"]
    async with running(words, tmp_path) as (_, url), aiohttp.ClientSession() as http:
        for _ in range(4):
            async with http.post(url, json=message, headers=headers) as response:
                assert (await response.json())["result"]["structuredContent"] == {"result": 3}
