"""The clients that `client.py` measures, each in a process of its own.

python client_sides.py SIDE (stateless|handshake) (http URL | stdio COMMAND ... | memory)

SIDE is dragoman, blocking (dragoman's blocking client), mcp, fastmcp, bare, or bare-blocking (bare on a loop in a
thread, to which other threads pass their calls by what asyncio has for that). A line of JSON on stdin asks for a round,
as {"seconds": 1.0, "at_once": 64} or {"seconds": 1.0} one at a time, and a line on stdout tells how it went. In memory
each client has a server of its own library, which the others could not use.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import sys
import threading
import time
import warnings
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from importlib import import_module
from typing import Any

ARGUMENTS = {"a": 2, "b": 40}
ANSWER = "42"
VERSIONS = {"stateless": "2026-07-28", "handshake": "2025-11-25"}
PREFIX = "io.modelcontextprotocol/"
Call = Callable[[], Awaitable[str]]


async def add(a: int, b: int) -> int:
    """Adds two numbers."""
    return a + b


@asynccontextmanager
async def dragoman(era: str, kind: str, *where: str) -> AsyncIterator[Call]:
    """Connect dragoman's asynchronous client."""
    from dragoman import AsyncClient

    async with AsyncClient(dragoman_target(kind, where), mode=dragoman_mode(era)) as client:
        if client.protocol_version != VERSIONS[era]:
            raise SystemExit(f"dragoman speaks {client.protocol_version}")

        async def call() -> str:
            return (await client.call_tool("add", ARGUMENTS)).text

        yield call


@contextmanager
def blocking(era: str, kind: str, *where: str) -> Iterator[Callable[[], str]]:
    """Connect dragoman's blocking client."""
    from dragoman import Client

    with Client(dragoman_target(kind, where), mode=dragoman_mode(era)) as client:
        yield lambda: client.call_tool("add", ARGUMENTS).text


@contextmanager
def bare_blocking(era: str, kind: str, *where: str) -> Iterator[Callable[[], str]]:
    """Run the bare client on a loop in a thread, and pass calls to that loop."""
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, daemon=True).start()
    opened = bare(era, kind, *where)
    call: Any = asyncio.run_coroutine_threadsafe(opened.__aenter__(), loop).result()
    try:
        yield lambda: asyncio.run_coroutine_threadsafe(call(), loop).result()
    finally:
        asyncio.run_coroutine_threadsafe(opened.__aexit__(None, None, None), loop).result()


def dragoman_mode(era: str) -> Any:
    """Return how dragoman is told the era."""
    return "auto" if era == "stateless" else "handshake"


def dragoman_target(kind: str, where: tuple[str, ...]) -> Any:
    """Return what dragoman's clients are pointed at."""
    if kind != "memory":
        return where[0] if kind == "http" else list(where)
    from dragoman import Server

    server = Server("bench", version="1")
    server.tool(add)
    return server


@asynccontextmanager
async def mcp(era: str, kind: str, *where: str) -> AsyncIterator[Call]:
    """Connect the client of the official SDK."""
    target: Any = where[0] if kind == "http" else None
    if kind == "stdio":
        target = import_module("mcp.client.stdio").StdioServerParameters(command=where[0], args=list(where[1:]))
    elif kind == "memory":
        target = import_module("mcp.server.mcpserver").MCPServer("bench", log_level="ERROR")
        target.add_tool(add)
    mode = VERSIONS[era] if era == "stateless" else "legacy"
    async with import_module("mcp.client").Client(target, mode=mode) as client:

        async def call() -> str:
            return str((await client.call_tool("add", ARGUMENTS)).content[0].text)

        yield call


@asynccontextmanager
async def fastmcp(era: str, kind: str, *where: str) -> AsyncIterator[Call]:
    """Connect fastmcp's client."""
    library = import_module("fastmcp")
    target: Any = where[0] if kind == "http" else None
    if kind == "stdio":
        target = import_module("fastmcp.client.transports").StdioTransport(where[0], list(where[1:]))
    elif kind == "memory":
        target = library.FastMCP("bench")
        target.tool(add)
    mode = VERSIONS[era] if era == "stateless" else "legacy"
    async with library.Client(target, mode=mode) as client:

        async def call() -> str:
            return str((await client.call_tool("add", ARGUMENTS)).content[0].text)

        yield call


def request(era: str, number: int) -> dict[str, Any]:
    """Return a call as a client of an era writes it."""
    params: dict[str, Any] = {"name": "add", "arguments": ARGUMENTS}
    if era == "stateless":
        info = {"name": "bench", "version": "1"}
        meta = {"protocolVersion": VERSIONS[era], "clientCapabilities": {}, "clientInfo": info}
        params["_meta"] = {f"{PREFIX}{key}": value for key, value in meta.items()}
    return {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}


INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 0,
    "method": "initialize",
    "params": {
        "protocolVersion": VERSIONS["handshake"],
        "capabilities": {},
        "clientInfo": {"name": "bench", "version": "1"},
    },
}
INITIALIZED = {"jsonrpc": "2.0", "method": "notifications/initialized"}


@asynccontextmanager
async def bare(era: str, kind: str, *where: str) -> AsyncIterator[Call]:
    """Connect the smallest loop that sends the same and decodes the answer."""
    async with bare_http(era, where[0]) if kind == "http" else bare_stdio(era, where) as call:
        yield call


@asynccontextmanager
async def bare_http(era: str, url: str) -> AsyncIterator[Call]:
    """Post with aiohttp."""
    import aiohttp
    import msgspec

    headers = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
    encode, decode = msgspec.json.Encoder().encode, msgspec.json.Decoder().decode
    async with aiohttp.ClientSession() as session:

        async def post(message: Any) -> tuple[Any, bytes]:
            async with session.post(url, data=encode(message), headers=headers) as response:
                return response.headers, await response.read()

        if era == "handshake":
            said, _ = await post(INITIALIZE)
            headers["Mcp-Session-Id"] = said["Mcp-Session-Id"]
            await post(INITIALIZED)
        else:
            headers |= {"Mcp-Method": "tools/call", "Mcp-Name": "add"}
        headers["MCP-Protocol-Version"] = VERSIONS[era]
        count = 0

        async def call() -> str:
            nonlocal count
            count += 1
            _, body = await post(request(era, count))
            return str(decode(body)["result"]["content"][0]["text"])

        yield call


@asynccontextmanager
async def bare_stdio(era: str, command: tuple[str, ...]) -> AsyncIterator[Call]:
    """Write lines to a child, and match the lines that it writes by their ids."""
    import msgspec

    encode, decode = msgspec.json.Encoder().encode, msgspec.json.Decoder().decode
    child = await asyncio.create_subprocess_exec(
        *command, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    assert child.stdin is not None
    assert child.stdout is not None
    writer, reader = child.stdin, child.stdout
    waiting: dict[int, asyncio.Future[Any]] = {}

    async def read() -> None:
        while line := await reader.readline():
            answer = decode(line)
            waiting.pop(answer["id"]).set_result(answer)

    reading = asyncio.create_task(read())
    count = 0

    async def send(message: dict[str, Any]) -> Any:
        future = waiting[message["id"]] = asyncio.get_running_loop().create_future()
        writer.write(encode(message) + b"\n")
        await writer.drain()
        return await future

    async def call() -> str:
        nonlocal count
        count += 1
        return str((await send(request(era, count)))["result"]["content"][0]["text"])

    if era == "handshake":
        await send(INITIALIZE)
        writer.write(encode(INITIALIZED) + b"\n")
    try:
        yield call
    finally:
        writer.close()
        await asyncio.wait_for(child.wait(), 15)
        await reading


async def round_of_tasks(call: Call, seconds: float, at_once: int) -> float:
    """Return calls per second of that many tasks that call one after the other."""
    ends = time.perf_counter() + seconds

    async def work() -> int:
        calls = 0
        while time.perf_counter() < ends:
            if await call() != ANSWER:
                raise SystemExit("The answer is wrong")
            calls += 1
        return calls

    started = time.perf_counter()
    calls = await work() if at_once == 1 else sum(await asyncio.gather(*(work() for _ in range(at_once))))
    return calls / (time.perf_counter() - started)


async def middle_of_calls(call: Call, seconds: float) -> float:
    """Return how many microseconds the middle one of calls takes, of which each waits for the one before."""
    taken = []
    ends = time.perf_counter() + seconds
    while (began := time.perf_counter()) < ends:
        answer = await call()
        taken.append(time.perf_counter() - began)
        if answer != ANSWER:
            raise SystemExit("The answer is wrong")
    return statistics.median(taken) * 1e6


def round_of_threads(call: Callable[[], str], seconds: float, at_once: int) -> float:
    """Return calls per second of that many threads that call one after the other."""
    ends = time.perf_counter() + seconds
    counts: list[int] = []

    def work() -> None:
        calls = 0
        while time.perf_counter() < ends:
            if call() != ANSWER:
                raise SystemExit("The answer is wrong")
            calls += 1
        counts.append(calls)

    started = time.perf_counter()
    threads = [threading.Thread(target=work) for _ in range(at_once - 1)]
    for thread in threads:
        thread.start()
    work()
    for thread in threads:
        thread.join()
    return sum(counts) / (time.perf_counter() - started)


def spoken(rate: float = 0.0, microseconds: float = 0.0) -> None:
    """Tell how a round went."""
    sys.stdout.write(json.dumps({"rate": rate, "microseconds": microseconds}) + "\n")
    sys.stdout.flush()


async def serve(side: str, era: str, *where: str) -> None:
    """Connect, and go rounds as long as they are asked for."""
    sides: dict[str, Any] = {"dragoman": dragoman, "mcp": mcp, "fastmcp": fastmcp, "bare": bare}
    async with sides[side](era, *where) as call:
        while line := await asyncio.to_thread(sys.stdin.readline):
            asked = json.loads(line)
            if "at_once" not in asked:
                spoken(microseconds=await middle_of_calls(call, **asked))
            else:
                spoken(rate=await round_of_tasks(call, **asked))


BLOCKING = {"blocking": blocking, "bare-blocking": bare_blocking}


def main(side: str, era: str, *where: str) -> None:
    """Be one side."""
    warnings.simplefilter("ignore")
    if side not in BLOCKING:
        asyncio.run(serve(side, era, *where))
        return
    with BLOCKING[side](era, *where) as call:
        while line := sys.stdin.readline():
            spoken(rate=round_of_threads(call, **json.loads(line)))


if __name__ == "__main__":
    main(*sys.argv[1:])
