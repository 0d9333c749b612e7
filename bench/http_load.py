"""A client that costs as little as it can, so that what is measured is the server; run as a process of its own.

    python http_load.py

It is told what to do by a line of JSON on stdin, and prints what it saw as another; what it opened stays open until
the next line. It keeps connections alive and sends the given requests over them as bytes: with a rate, at that pace, to
tell how long the answers take; without, each connection sends again once it is answered, for some seconds or until
there is a count of answers. If a change is asked for, it opens the streams, prints a line, waits for another, and only
then makes the call, to tell how long it takes until every stream has told of the change.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from typing import Any

DEADLINE = 120.0
HEAD_END = b"\r\n\r\n"


class Connection(asyncio.Protocol):
    """One connection: a request goes out, its whole response comes back."""

    def __init__(self) -> None:
        self.answered: asyncio.Future[bytes] | None = None
        self.then: Any = None
        self._buffer = b""
        self._transport: Any = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        self._transport = transport

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        """Fail what waits."""
        if self.answered is not None and not self.answered.done():
            self.answered.set_exception(ConnectionError(f"The server hung up after {self._buffer[-500:]!r}"))

    def send(self, request: bytes) -> None:
        """Send a request."""
        self._transport.write(request)

    def data_received(self, data: bytes) -> None:
        """Take bytes; a whole response is handed on."""
        self._buffer = data = self._buffer + data if self._buffer else data
        head = data.find(HEAD_END)
        if head < 0:
            return
        begin = data.find(b"content-length: ", 0, head)
        if begin < 0:
            whole = data.endswith(b"0\r\n\r\n")
        else:
            whole = len(data) >= head + 4 + int(data[begin + 16 : data.find(b"\r", begin)])
        if whole:
            self._buffer = b""
            self.then(data)

    def close(self) -> None:
        """Hang up."""
        self._transport.close()


async def connect(port: int, count: int) -> list[Connection]:
    """Open connections."""
    loop = asyncio.get_running_loop()
    return [(await loop.create_connection(Connection, "127.0.0.1", port))[1] for _ in range(count)]


async def ask(connection: Connection, request: bytes) -> bytes:
    """Send one request and return its response."""
    connection.answered = asyncio.get_running_loop().create_future()
    connection.then = connection.answered.set_result
    connection.send(request)
    async with asyncio.timeout(DEADLINE):
        return await connection.answered


async def hurry(
    connections: list[Connection], requests: list[bytes], seconds: float, count: int | None
) -> dict[str, Any]:
    """Send as fast as the server answers; count the answers."""
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[None] = loop.create_future()
    sent, answers, wrong = len(requests), 0, 0
    ends = time.perf_counter() + seconds

    def run(connection: Connection, request: bytes) -> None:
        def then(response: bytes) -> None:
            nonlocal sent, answers, wrong
            answers += 1
            wrong += not response.startswith(b"HTTP/1.1 200")
            if sent < count if count is not None else time.perf_counter() < ends:
                sent += 1
                connection.send(request)
            elif (count is None or answers == count) and not ended.done():
                ended.set_result(None)

        connection.then = then
        connection.send(request)

    started, spent = time.perf_counter(), time.process_time()
    for connection, request in zip(connections, requests, strict=True):
        run(connection, request)
    async with asyncio.timeout(seconds + DEADLINE):
        await ended
    elapsed = time.perf_counter() - started
    busy = (time.process_time() - spent) / elapsed
    return {"answers": answers, "rate": answers / elapsed, "wrong": wrong, "busy": busy}


async def pace(connections: list[Connection], requests: list[bytes], seconds: float, rate: int) -> dict[str, Any]:
    """Send at a steady rate, whatever the server does; tell how long answers took, from when they were due."""
    idle = asyncio.Queue[int]()
    for place in range(len(connections)):
        idle.put_nowait(place)
    durations: list[float] = []
    wrong = 0

    async def call(due: float) -> None:
        nonlocal wrong
        place = await idle.get()
        response = await ask(connections[place], requests[place])
        durations.append(time.perf_counter() - due)
        wrong += not response.startswith(b"HTTP/1.1 200")
        idle.put_nowait(place)

    begins = time.perf_counter()
    calls = []
    for number in range(int(seconds * rate)):
        due = begins + number / rate
        await asyncio.sleep(max(0, due - time.perf_counter()))
        calls.append(asyncio.create_task(call(due)))
    async with asyncio.timeout(DEADLINE):
        await asyncio.gather(*calls)
    return {"durations": sorted(durations), "wrong": wrong}


async def open_streams(port: int, requests: list[bytes]) -> list[Any]:
    """Open event streams that stay; each has begun when this returns."""
    streams = []
    for request in requests:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(request)
        async with asyncio.timeout(DEADLINE):
            head = await reader.readuntil(HEAD_END)
        if not head.startswith(b"HTTP/1.1 200"):
            raise SystemExit(f"A stream was refused: {head!r}")
        streams.append((reader, writer))
    return streams


async def spread(connection: Connection, request: bytes, streams: list[Any]) -> dict[str, Any]:
    """Make a call after which the streams tell of a change; tell how long it took until each of them had told it."""
    print(json.dumps({"wrong": 0}), flush=True)
    await asyncio.to_thread(sys.stdin.readline)
    started = time.perf_counter()
    async with asyncio.timeout(DEADLINE):
        response = await ask(connection, request)
        for reader, _ in streams:
            await reader.readuntil(b"list_changed")
    elapsed = time.perf_counter() - started
    return {"seconds": elapsed, "wrong": not response.startswith(b"HTTP/1.1 200")}


async def go(asked: dict[str, Any]) -> tuple[dict[str, Any], list[Any]]:
    """Do one thing that is asked; return what was seen, and what stays open."""
    port, seconds = asked["port"], asked["seconds"]
    requests = [request.encode() for request in asked["requests"]]
    streams = await open_streams(port, [request.encode() for request in asked.get("streams", [])])
    connections = await connect(port, len(requests))
    rate = asked.get("rate")
    if asked.get("change"):
        seen = await spread(connections[0], requests[0], streams)
    elif not requests:
        seen = {"wrong": 0}
    elif rate:
        seen = await pace(connections, requests, seconds, rate)
    else:
        seen = await hurry(connections, requests, seconds, asked.get("count"))
    return seen, [*connections, *(writer for _, writer in streams)]


async def main() -> None:
    """Do what is asked on stdin, line by line."""
    opened: list[Any] = []
    while line := await asyncio.to_thread(sys.stdin.readline):
        for one in opened:
            one.close()
        seen, opened = await go(json.loads(line))
        print(json.dumps(seen), flush=True)
    for one in opened:
        one.close()


if __name__ == "__main__":
    import uvloop

    uvloop.run(main())
