"""Clients that call a tool again and again while processes of its server are ended, and an account of every call.

Each call has an id of its own. The tool notes the id when it runs, and the client notes what came of the call, so that
a call that ran twice, and one that ran and failed nevertheless, are both seen.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import os
import re
import select
import signal
import socket
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

from dragoman import AsyncClient
from dragoman.errors import ConnectError
from faults.http.termination_server import RUNS
from scenarios.http_crew import unannounced, until

DEADLINE = 60.0
NEWEST, STATELESS = "2025-11-25", "2026-07-28"
PREFIX = "io.modelcontextprotocol/"
META = {f"{PREFIX}protocolVersion": STATELESS, f"{PREFIX}clientCapabilities": {}}
BOTH = "application/json, text/event-stream"
_ids = itertools.count(1)


class Failed(Exception):
    """A call got no result."""


class Account:
    """What came of every call."""

    def __init__(self, runs: Path) -> None:
        self.answered: set[str] = set()
        self.failed: dict[str, str] = {}
        self._runs = runs

    def runs(self) -> Counter[str]:
        """How often each call ran."""
        return Counter(self._runs.read_text(encoding="utf-8").split()) if self._runs.exists() else Counter()

    def assert_right(self, least: int, *, may_be_cut: bool = False) -> None:
        """Every call ran once and was answered, and there were enough of them.

        `may_be_cut` accepts calls that did not run and whose connection was closed.
        """
        runs = self.runs()
        assert not [id for id, count in runs.items() if count > 1]
        failed = {id: why for id, why in self.failed.items() if runs[id] or not may_be_cut or not _was_cut(why)}
        reasons = Counter((id.split("-")[0], why, runs[id]) for id, why in failed.items())
        assert not failed, (len(failed), len(self.answered), reasons.most_common(10))
        assert set(runs) == self.answered
        assert len(runs) >= least, len(runs)

    async def keep(self, kind: str, call: Callable[[str], Any], until: Callable[[], bool]) -> None:
        """Call again and again."""
        while not until():
            id = f"{kind}-{next(_ids)}"
            try:
                async with asyncio.timeout(DEADLINE):
                    assert await call(id) == id
            except (Refused, ConnectError):
                await asyncio.sleep(0.02)
            except Exception as error:
                self.failed[id] = f"{type(error).__name__}: {error}"
                await asyncio.sleep(0.02)
            else:
                self.answered.add(id)


class Refused(Exception):
    """There was no connection, so nothing was sent."""


class RawClient:
    """A client that keeps its connection alive and never sends anything twice.

    Before it uses a connection again it looks whether the server closed it, as every HTTP client does.
    """

    def __init__(self, port: int, session: str | None = None) -> None:
        self._port = port
        self._session = session
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None

    async def begin(self) -> RawClient:
        """Open a session."""
        introduction = {"protocolVersion": NEWEST, "capabilities": {}, "clientInfo": {"name": "raw", "version": "1"}}
        body = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": introduction}
        status, headers, _ = await self.post(body)
        assert status == 200
        self._session = headers["mcp-session-id"]
        return self

    async def call(self, id: str, tool: str = "work") -> str:
        """Call the tool once."""
        status, _, said = await self._post(self.request(id, tool))
        message = json.loads(said) if said else {}
        if status != 200 or "result" not in message:
            raise Failed(f"{status} {message.get('error')}")
        return str(message["result"]["content"][0]["text"])

    def request(self, id: str, tool: str = "work") -> bytes:
        """Return the bytes of a call."""
        params: dict[str, Any] = {"name": tool, "arguments": {"id": id}}
        if self._session is None:
            return self._stateless(id, "tools/call", params, {"mcp-name": tool})
        headers = {"mcp-protocol-version": NEWEST, "mcp-session-id": self._session}
        return self._bytes({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}, headers)

    def listening(self) -> bytes:
        """Return the bytes of a request that opens a subscription."""
        return self._stateless("listening", "subscriptions/listen", {"notifications": {"toolsListChanged": True}})

    def reading(self) -> bytes:
        """Return the bytes of a request that opens the GET stream of the session."""
        assert self._session is not None
        head = f"host: 127.0.0.1:{self._port}\r\naccept: text/event-stream\r\nmcp-session-id: {self._session}\r\n"
        return f"GET /mcp HTTP/1.1\r\n{head}\r\n".encode()

    def _stateless(self, id: str, method: str, params: dict[str, Any], headers: dict[str, str] | None = None) -> bytes:
        headers = {"mcp-protocol-version": STATELESS, "mcp-method": method} | (headers or {})
        return self._bytes({"jsonrpc": "2.0", "id": id, "method": method, "params": params | {"_meta": META}}, headers)

    def _bytes(self, message: Any, headers: dict[str, str]) -> bytes:
        body = json.dumps(message).encode()
        lines = {"host": f"127.0.0.1:{self._port}", "content-length": str(len(body)), "accept": BOTH}
        lines |= {"content-type": "application/json"} | headers
        head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
        return f"POST /mcp HTTP/1.1\r\n{head}\r\n".encode() + body

    async def post(self, message: Any) -> tuple[int, dict[str, str], bytes]:
        """Send a message that belongs to no session, and return the status, the headers and the body of the answer."""
        return await self._post(self._bytes(message, {}))

    async def _post(self, data: bytes) -> tuple[int, dict[str, str], bytes]:
        reader, writer = await self.connection()
        try:
            writer.write(data)
            status, answered, said = await read_response(reader)
        except BaseException:
            self.close()
            raise
        if answered.get("connection") == "close":
            self.close()
        return status, answered, said

    async def connection(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Return the connection, or a new one if there is none that can be used."""
        if self._writer is not None and _is_readable(self._writer):
            self.close()
        if self._reader is None or self._writer is None:
            try:
                self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self._port)
            except (ConnectionRefusedError, ConnectionResetError):  # a listener that closes resets who is in its queue
                raise Refused from None
        return self._reader, self._writer

    def close(self) -> None:
        """Let go of the connection."""
        if self._writer is not None:
            self._writer.transport.abort()
        self._reader = self._writer = None


def _is_readable(writer: asyncio.StreamWriter) -> bool:
    return bool(select.select([writer.get_extra_info("socket")], [], [], 0)[0])


async def read_response(reader: asyncio.StreamReader) -> tuple[int, dict[str, str], bytes]:
    """Read one response, which says how long it is."""
    try:
        first, *lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").strip().split("\r\n")
    except asyncio.IncompleteReadError as error:
        raise Failed(f"the connection ended after {len(error.partial)} bytes") from None
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    return int(first.split()[1]), headers, await reader.readexactly(int(headers.get("content-length", "0")))


class Terminated:
    """A server in processes of its own, which are ended and started again."""

    def __init__(
        self, folder: Path, how: str, workers: int, *, keeps_socket: bool, environment: dict[str, str]
    ) -> None:
        self.folder = folder
        self.account = Account(folder / RUNS)
        self._how = how
        self._workers = workers
        secrets = {"XDG_STATE_HOME": str(folder), "DRAGOMAN_SECRET": "s" * 32}
        self._environment = os.environ | secrets | environment
        self._listening: socket.socket | None = socket.create_server(("127.0.0.1", 0), backlog=2048)
        self.port = int(self._listening.getsockname()[1])
        self.url = f"http://127.0.0.1:{self.port}/mcp"
        if not keeps_socket:
            self._listening.close()
            self._listening = None
        else:
            self._listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.child = self.start()

    def start(self) -> subprocess.Popen[bytes]:
        """Start the server."""
        descriptors = [] if self._listening is None else [self._listening.fileno()]
        program = Path(__file__).with_name("termination_server.py")
        with (self.folder / "stderr").open("ab") as stderr:
            self.child = subprocess.Popen(
                [sys.executable, program, self._how, str(self.port), str(self._workers), *map(str, descriptors)],
                stdin=subprocess.DEVNULL,
                stderr=stderr,
                env=self._environment,
                cwd=self.folder,
                pass_fds=descriptors,
                start_new_session=True,
            )
        return self.child

    @property
    def stderr(self) -> str:
        """What the processes wrote, without the notes that a worker was replaced after it ended as it was told to."""
        lines = unannounced((self.folder / "stderr").read_text(encoding="utf-8")).splitlines()
        return "\n".join(line for line in lines if not line.endswith("ended with code 0; another takes its place"))

    def workers(self) -> list[int]:
        """The processes that the first one started and that live, the oldest first."""
        children = Path(f"/proc/{self.child.pid}/task/{self.child.pid}/children")
        return sorted(map(int, children.read_text(encoding="ascii").split()))

    def has_pending_signals(self) -> bool:
        """Tell whether the first process was sent a signal that it has not received."""
        status = Path(f"/proc/{self.child.pid}/status").read_text(encoding="ascii")
        return any(int(pending, 16) for pending in re.findall(r"^(?:SigPnd|ShdPnd):\s*(\w+)", status, re.MULTILINE))

    async def ready(self) -> None:
        """Wait until the tool can be called."""
        client = RawClient(self.port)
        async with asyncio.timeout(DEADLINE):
            while True:
                try:
                    status, _, _ = await client.post({"jsonrpc": "2.0", "method": "notifications/initialized"})
                except (Refused, OSError, Failed):
                    assert self.child.poll() is None, self.stderr
                    await asyncio.sleep(0.02)
                else:
                    assert status < 500
                    client.close()
                    return

    async def ended(self) -> int:
        """Wait until the first process has ended, and return its exit code."""
        return int(await asyncio.to_thread(self.child.wait, DEADLINE))

    async def end(self) -> None:
        """End the server by a signal, and expect it to end well: uvicorn itself passes the signal on at its end."""
        self.child.send_signal(signal.SIGTERM)
        assert await self.ended() == (0 if self._how == "run" else -signal.SIGTERM), self.stderr
        assert self.stderr == "", self.stderr

    async def replace(self, *workers: int) -> None:
        """End workers, and wait until others have taken their places."""
        before = self.workers()
        for worker in workers:
            os.kill(worker, signal.SIGTERM)
        await until(lambda: not set(workers) & set(now := self.workers()) and len(now) == len(before))

    async def refuses(self) -> None:
        """Wait until nobody listens at the port any more."""

        async def is_refused() -> bool:
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", self.port)
            except ConnectionRefusedError:
                return True
            except ConnectionResetError:  # the listener closed with this connection in its queue
                return False
            writer.close()
            return False

        await until(is_refused)

    async def ran(self, *ids: str) -> None:
        """Wait until calls are being served."""
        await until(lambda: set(ids) <= set(self.account.runs()))

    def kill(self) -> None:
        """End what is left."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.child.pid, signal.SIGKILL)
        self.child.wait(DEADLINE)
        if self._listening is not None:
            self._listening.close()


@contextlib.asynccontextmanager
async def terminated(
    how: str = "run", workers: int = 1, *, keeps_socket: bool = False, **environment: str
) -> AsyncIterator[Terminated]:
    """Start a server; whatever of it is left at the end is killed."""
    # Short, for the path of a socket has at most a hundred bytes.
    with tempfile.TemporaryDirectory(prefix="ended", dir="/tmp") as folder:
        server = Terminated(Path(folder), how, workers, keeps_socket=keeps_socket, environment=environment)
        try:
            await server.ready()
            yield server
        finally:
            server.kill()


@contextlib.asynccontextmanager
async def load(server: Terminated, clients: int = 60) -> AsyncIterator[Callable[[int], Any]]:
    """Let clients of four kinds call the tool until the block is left; each call that was begun is waited for.

    Gives a function that waits until so many further calls were answered.
    """
    is_over = False
    account = server.account

    async def more(count: int) -> None:
        target = len(account.answered) + count
        await until(lambda: len(account.answered) >= target)

    async with contextlib.AsyncExitStack() as stack:
        calls: list[tuple[str, Callable[[str], Any]]] = []
        for number in range(clients):
            match number % 4:
                case 0:
                    raw = RawClient(server.port)
                    calls.append(("rawstateless", raw.call))
                case 1:
                    raw = await RawClient(server.port).begin()
                    calls.append(("rawsession", raw.call))
                case rest:
                    mode = "stateless" if rest == 2 else "handshake"
                    client = await stack.enter_async_context(AsyncClient(server.url, mode=mode))
                    calls.append((mode, _caller(client)))
                    continue
            stack.callback(raw.close)
        keeping = [asyncio.create_task(account.keep(kind, call, lambda: is_over)) for kind, call in calls]
        try:
            yield more
        finally:
            is_over = True
            await asyncio.gather(*keeping)


def _caller(client: AsyncClient) -> Callable[[str], Any]:
    async def call(id: str) -> str:
        return (await client.call_tool("work", {"id": id})).text

    return call


def _was_cut(why: str) -> bool:
    """Tell whether a call failed because its connection was closed before anything was answered."""
    return any(sign in why for sign in ("ended after 0 bytes", "closed the connection", "broke", "ConnectionReset"))
