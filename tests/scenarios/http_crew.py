"""A server with several workers as real processes, and a client whose every request comes by a new connection."""

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import aiohttp

from dragoman.protocol.sse import Event, EventDecoder
from ports import free_port

DEADLINE = 60
NEWEST = "2025-11-25"
SERVER = """
    import asyncio, dataclasses, os, sys
    from dragoman import Context, Server

    declared = {"tools": {"listChanged": True}, "resources": {"subscribe": True}, "logging": {}}
    server = Server("crew", capabilities=declared)


    @dataclasses.dataclass
    class City:
        city: str


    @server.tool
    async def pid() -> int:
        return os.getpid()


    @server.tool
    async def where(ctx: Context) -> str:
        answer = await ctx.elicit("Where?", City)
        return f"{answer.content.city} {os.getpid()}"


    @server.tool
    async def wait(ctx: Context) -> str:
        await ctx.report_progress(1)
        try:
            await asyncio.Event().wait()
        finally:
            server.log("error", f"cancelled {os.getpid()}")


    @server.tool
    async def change() -> int:
        server.notify_tools_list_changed()
        server.notify_resource_updated("file:///a")
        server.log("error", "changed")
        return os.getpid()
"""
RUN = """
    server.run("http", port=int(sys.argv[1]), workers=int(sys.argv[2]))
"""


def unannounced(errors: str) -> str:
    """Return what a server wrote to stderr, without the line that says where it serves."""
    lines = errors.splitlines(keepends=True)
    return "".join(line for line in lines if not line.startswith("dragoman: serving "))


class Crew:
    """The processes of one server."""

    def __init__(self, folder: Path, port: int, workers: int, source: str, environment: dict[str, str]) -> None:
        self.folder = folder
        self.port = port
        program = folder / "crew.py"
        program.write_text(textwrap.dedent(source))
        with (folder / "stderr").open("wb") as stderr:
            self.child = subprocess.Popen(
                [sys.executable, "-W", "error", program, str(port), str(workers)],
                stdin=subprocess.DEVNULL,
                stderr=stderr,
                env=os.environ | {"XDG_STATE_HOME": str(folder)} | environment,
                cwd=folder,
                start_new_session=True,
            )

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/mcp"

    @property
    def stderr(self) -> str:
        """What was written, without the line that says where the server serves."""
        return unannounced((self.folder / "stderr").read_text())

    @property
    def announced(self) -> list[str]:
        """The lines that say where the server serves."""
        lines = (self.folder / "stderr").read_text().splitlines()
        return [line for line in lines if line.startswith("dragoman: serving ")]

    @property
    def sockets(self) -> list[Path]:
        return [path for path in self.folder.rglob("*") if path.is_socket()]

    def workers(self) -> set[int]:
        """The processes that the first one started and that live."""
        children = Path(f"/proc/{self.child.pid}/task/{self.child.pid}/children")
        return set(map(int, children.read_text().split()))

    def lives(self) -> bool:
        """Whether any process of the crew is left."""
        try:
            os.killpg(self.child.pid, 0)
        except ProcessLookupError:
            return False
        return True

    async def ready(self) -> None:
        """Wait until somebody answers."""

        async def answers() -> bool:
            with contextlib.suppress(OSError):
                _, writer = await asyncio.open_connection("127.0.0.1", self.port)
                writer.close()
                await writer.wait_closed()
                return True
            assert self.child.poll() is None, self.stderr
            return False

        await until(answers)

    async def ended(self) -> int:
        """Wait until the first process has ended, and return its exit code."""
        code = await asyncio.to_thread(self.child.wait, DEADLINE)
        return int(code)

    def kill(self) -> None:
        """End what is left."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.child.pid, signal.SIGKILL)
        self.child.wait(DEADLINE)


async def until(condition: Callable[[], Any]) -> Any:
    """Wait until something is so, and return what tells that."""
    async with asyncio.timeout(DEADLINE):
        while True:
            found = condition()
            found = await found if asyncio.iscoroutine(found) else found
            if found:
                return found
            await asyncio.sleep(0.01)


@contextlib.asynccontextmanager
async def crew(workers: int = 3, source: str = SERVER + RUN, **environment: str) -> AsyncIterator[Crew]:
    """Start a crew; whatever of it is left at the end is killed."""
    # Short, for the path of a socket has at most a hundred bytes.
    with tempfile.TemporaryDirectory(prefix="crew", dir="/tmp") as folder:
        processes = Crew(Path(folder), free_port(), workers, source, environment)
        try:
            yield processes
        finally:
            processes.kill()


class Stream:
    """An event stream that is read."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self.response = response
        self.events: list[Event] = []
        self._decoder = EventDecoder(2**20)

    async def until(self, condition: Callable[[list[Any]], Any]) -> Any:
        """Read until the messages fulfil a condition, and return what that gives."""
        async with asyncio.timeout(DEADLINE):
            while not (found := condition(self.messages)):
                chunk = await self.response.content.readany()
                assert chunk, self.messages
                self.events += [event for event in self._decoder.receive(chunk) if isinstance(event, Event)]
        return found

    @property
    def messages(self) -> list[Any]:
        return [json.loads(event.data) for event in self.events if event.data]


class Client:
    """A client of one session, which opens a new connection for everything."""

    def __init__(self, http: aiohttp.ClientSession, url: str) -> None:
        self.http = http
        self.url = url
        self.headers = {"accept": "application/json, text/event-stream"}
        self._last_id = 0

    @classmethod
    @contextlib.asynccontextmanager
    async def of(cls, processes: Crew) -> AsyncIterator["Client"]:
        """Begin a session."""
        connector = aiohttp.TCPConnector(force_close=True, limit=0)
        async with aiohttp.ClientSession(connector=connector, timeout=aiohttp.ClientTimeout(DEADLINE)) as http:
            client = cls(http, processes.url)
            await client.initialize()
            yield client

    async def initialize(self) -> None:
        client = {"name": "c", "version": "1"}
        params = {"protocolVersion": NEWEST, "capabilities": {"elicitation": {}}, "clientInfo": client}
        async with self.post(self.message("initialize", params)) as response:
            self.headers |= {
                "mcp-session-id": response.headers["mcp-session-id"],
                "mcp-protocol-version": NEWEST,
            }

    def message(self, method: str, params: Any = None) -> dict[str, Any]:
        self._last_id += 1
        return {"jsonrpc": "2.0", "id": self._last_id, "method": method, "params": params or {}}

    def post(self, message: Any) -> Any:
        return self.http.post(self.url, json=message, headers=self.headers)

    def call(self, tool: str, **meta: Any) -> Any:
        params: dict[str, Any] = {"name": tool, "arguments": {}}
        return self.post(self.message("tools/call", params | ({"_meta": meta} if meta else {})))

    async def text(self, tool: str) -> str:
        """Call a tool and return the text of its result."""
        async with self.call(tool) as response:
            assert response.status == 200, await response.text()
            return str((await response.json())["result"]["content"][0]["text"])

    async def request(self, method: str, params: Any = None) -> int:
        async with self.post(self.message(method, params)) as response:
            await response.read()
            return int(response.status)

    def listen(self, **headers: str) -> Any:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return self.http.get(self.url, headers=self.headers | {"accept": "text/event-stream"} | named)
