"""Servers for the tests of clients: processes and HTTP servers that answer exactly what a test scripts."""

import asyncio
import contextlib
import functools
import json
import os
import sys
from collections.abc import AsyncIterator, Callable, Coroutine
from pathlib import Path
from typing import Any

from aiohttp import web

from dragoman.client.connect import handshake
from dragoman.runtime.portal import portal

DEADLINE = 60
STATELESS, NEWEST, OLDER, BATCHING, OLDEST = "2026-07-28", "2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"

_STDIO = """
import json, os, sys, time
RECORD = open(sys.argv[1], "a", buffering=1)
RECORD.write(json.dumps({"spawned": os.getpid()}) + "\\n")
SPAWNS = sum("spawned" in line for line in open(sys.argv[1]))
def tell(message):
    sys.stdout.write(json.dumps(message) + "\\n")
    sys.stdout.flush()
def result(m, value):
    tell({"jsonrpc": "2.0", "id": m["id"], "result": value})
def error(m, code, message="no", data=None):
    tell({"jsonrpc": "2.0", "id": m["id"], "error": {"code": code, "message": message, "data": data}})
def initialized(m, version=None, **capabilities):
    version = version or m["params"]["protocolVersion"]
    info = {"name": "script", "version": "1"}
    result(m, {"protocolVersion": version, "capabilities": capabilities, "serverInfo": info})
def discovered(m, *versions, **capabilities):
    result(m, {"resultType": "complete", "supportedVersions": list(versions), "capabilities": capabilities})
def text(m, said):
    result(m, {"resultType": "complete", "content": [{"type": "text", "text": said}]})
%s
for line in sys.stdin:
    m = json.loads(line)
    RECORD.write(line)
    if isinstance(m, dict): m.setdefault("method", None)
    answer(m)
"""


_UNCOUNTED = (".sqlite", "[eventfd]")


def scenario(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Run a test with a deadline, and see that it leaves no task, descriptor or child behind."""

    async def watched(*args: Any, **kwargs: Any) -> None:
        handshake._handshake_servers.clear()
        portal()  # it stays until the process ends, so a test that is the first to use it leaves its descriptors
        before, others = open_files(), set(children().split())  # a server that tests share may be among them
        await asyncio.wait_for(test(*args, **kwargs), 3 * DEADLINE)
        await until(
            lambda: asyncio.all_tasks() == {asyncio.current_task()},
            lambda: f"tasks are left behind: {asyncio.all_tasks()}",
        )
        await until(
            lambda: len(open_files()) <= len(before),
            lambda: f"descriptors are left behind: {set(open_files().items()) - set(before.items())}",
        )
        assert set(children().split()) <= others

    @functools.wraps(test)
    def run(*args: Any, **kwargs: Any) -> None:
        asyncio.run(watched(*args, **kwargs))

    return run


def tasks() -> set[asyncio.Task[Any]]:
    return asyncio.all_tasks() - {asyncio.current_task()}


def descriptors() -> int:
    return len(open_files())


def open_files() -> dict[str, str]:
    """Return what each descriptor of this process stands for, without the files of stores and without eventfds.

    The thread of a store that another test has left opens and closes its files when it likes. A loop has an eventfd
    from its first use of threads to its end, also that of a server that tests share.
    """
    found = {}
    for entry in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # that of the listing itself
            found[entry.name] = str(entry.readlink())
    return {number: target for number, target in found.items() if not any(map(target.__contains__, _UNCOUNTED))}


def children() -> str:
    return Path(f"/proc/self/task/{os.getpid()}/children").read_text()


async def until(condition: Callable[[], Any], otherwise: str | Callable[[], str] = "it did not come true") -> Any:
    """Wait until something is true, and return it."""
    ends = asyncio.get_running_loop().time() + DEADLINE
    while not (found := condition()):
        assert asyncio.get_running_loop().time() < ends, otherwise() if callable(otherwise) else otherwise
        await asyncio.sleep(0.005)
    return found


class Script:
    """A server as a process, whose `answer(m)` is given as Python; `command` starts it."""

    def __init__(self, folder: Path, code: str, name: str = "script") -> None:
        self._record = folder / f"{name}.jsonl"
        path = folder / f"{name}.py"
        path.write_text(_STDIO % code)
        self.command = [sys.executable, "-S", "-E", str(path), str(self._record)]

    @property
    def received(self) -> list[Any]:
        """What it received, of all its lives."""
        lines = self._record.read_text().splitlines() if self._record.exists() else []
        return [m for m in map(json.loads, lines) if isinstance(m, list) or "spawned" not in m]

    @property
    def methods(self) -> list[str]:
        return [m["method"] for m in self.received if "method" in m]

    @property
    def pids(self) -> list[int]:
        """The processes that it was, the last one last."""
        lines = self._record.read_text().splitlines() if self._record.exists() else []
        return [m["spawned"] for m in map(json.loads, lines) if isinstance(m, dict) and "spawned" in m]

    async def until_received(self, method: str, times: int = 1) -> Any:
        await until(lambda: self.methods.count(method) >= times, f"{method} did not come")
        return [m for m in self.received if m.get("method") == method][times - 1]


class Web:
    """An HTTP server whose `answer(message, request)` returns a response, or a dict that becomes one."""

    def __init__(self, answer: Callable[[Any, web.Request], Any]) -> None:
        self._answer = answer
        self.received: list[tuple[str, Any]] = []
        self.headers: list[Any] = []
        self.port = 0

    @property
    def methods(self) -> list[str]:
        return [m.get("method") if isinstance(m, dict) else verb for verb, m in self.received]

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/mcp"

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        message = await request.json() if request.method == "POST" else None
        self.received.append((request.method, message))
        self.headers.append(request.headers)
        if request.method != "POST":
            return web.Response(status=405)
        answer = self._answer(message, request)
        answer = await answer if asyncio.iscoroutine(answer) else answer
        return web.json_response(answer) if isinstance(answer, dict) else answer

    @contextlib.asynccontextmanager
    async def running(self, port: int = 0) -> AsyncIterator["Web"]:
        app = web.Application()
        app.router.add_route("*", "/mcp", self._handle)
        runner = web.AppRunner(app, shutdown_timeout=0.1, handler_cancellation=True)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", port, reuse_address=True)
        await site.start()
        self.port = runner.addresses[0][1]
        try:
            yield self
        finally:
            await runner.cleanup()


def result(message: Any, value: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": message["id"], "result": value}


def error(message: Any, code: int, data: Any = None, text: str = "no") -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": message["id"], "error": {"code": code, "message": text, "data": data}}


def initialized(message: Any, version: str | None = None, **capabilities: Any) -> dict[str, Any]:
    return result(
        message,
        {
            "protocolVersion": version or message["params"]["protocolVersion"],
            "capabilities": capabilities,
            "serverInfo": {"name": "script", "version": "1"},
        },
    )


def discovered(message: Any, *versions: str, **capabilities: Any) -> dict[str, Any]:
    return result(
        message, {"resultType": "complete", "supportedVersions": list(versions), "capabilities": capabilities}
    )


def said(message: Any, text: str) -> dict[str, Any]:
    return result(message, {"resultType": "complete", "content": [{"type": "text", "text": text}]})
