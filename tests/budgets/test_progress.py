"""How often the events of one call are written, and that each of them is written in time."""

import asyncio
import json
import threading
from itertools import chain

import pytest

from dragoman import Context, Server
from dragoman.server.http import channels
from dragoman.stores import Memory

DEADLINE = 60
META = {
    "progressToken": "p",
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}
HEADERS = [
    (b"host", b"127.0.0.1:8000"),
    (b"content-type", b"application/json"),
    (b"accept", b"application/json, text/event-stream"),
    (b"mcp-protocol-version", b"2026-07-28"),
    (b"mcp-method", b"tools/call"),
    (b"mcp-name", b"work"),
]


class Client:
    """Calls a tool over ASGI, and keeps each part of the response."""

    def __init__(self, work):
        server = Server(secret="a secret of sixteen", store=Memory())
        server.tool(work, name="work")
        self._app = server.asgi()
        self.parts = []
        self.has_part = asyncio.Event()

    @property
    def progress(self):
        """What each part tells of progress; None stands for the result."""
        events = [part.split(b"\r\n\r\n")[:-1] for part in self.parts]
        told = [[json.loads(event.partition(b"data: ")[2]) for event in part] for part in events]
        return [[one["params"]["progress"] if "params" in one else None for one in part] for part in told]

    async def call(self):
        params = {"name": "work", "arguments": {}, "_meta": META}
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).encode()
        scope = {"type": "http", "method": "POST", "path": "/mcp", "headers": HEADERS, "server": ("127.0.0.1", 8000)}

        async def receive():
            return {"type": "http.request", "body": body}

        async def send(message):
            if message.get("body"):
                self.parts.append(message["body"])
                self.has_part.set()

        async with asyncio.timeout(DEADLINE):
            await self._app(scope, receive, send)


@pytest.fixture(autouse=True)
def slow_clock(monkeypatch):
    """Let no time pass, however busy the machine is."""
    monkeypatch.setattr(channels, "TOGETHER_SECONDS", 3600)


async def test_ten_events_and_the_result_are_two_writes():
    async def work(ctx: Context):
        for step in range(10):
            await ctx.report_progress(step)

    client = Client(work)
    await client.call()
    assert client.progress == [[0], [1, 2, 3, 4, 5, 6, 7, 8, 9, None]]


async def test_what_waits_is_written_at_the_end_of_the_turn():
    written = []

    async def work(ctx: Context):
        await ctx.report_progress(0)
        await ctx.report_progress(1)
        await ctx.report_progress(2)
        client.has_part.clear()
        await client.has_part.wait()
        written.extend(client.progress)

    client = Client(work)
    await client.call()
    assert written == [[0], [1, 2]]
    assert client.progress == [[0], [1, 2], [None]]


async def test_an_event_that_comes_later_is_written_at_once(monkeypatch):
    monkeypatch.setattr(channels, "TOGETHER_SECONDS", 0)

    async def work(ctx: Context):
        for step in range(3):
            await ctx.report_progress(step)
            assert len(client.parts) == step + 1

    client = Client(work)
    await client.call()
    assert client.progress == [[0], [1], [2], [None]]


async def test_a_handler_that_never_lets_the_loop_turn_still_waits_for_its_client():
    count = 3 * channels.MAX_TOGETHER

    async def work(ctx: Context):
        for step in range(count):
            await ctx.report_progress(step)

    client = Client(work)
    await client.call()
    assert [len(part) for part in client.progress] == [1, *[channels.MAX_TOGETHER] * 2, channels.MAX_TOGETHER]
    assert [*chain(*client.progress)] == [*range(count), None]


async def test_a_thread_wakes_the_loop_once_for_the_events_of_a_turn(monkeypatch):
    wake_ups = []
    loop = asyncio.get_running_loop()
    wake = loop.call_soon_threadsafe

    def note(callback, *args, **kwargs):
        wake_ups.append(getattr(callback, "__name__", ""))
        return wake(callback, *args, **kwargs)

    async def work(ctx: Context):
        def report():
            for step in range(10):
                ctx._call.channel.notify("notifications/progress", {"progressToken": "p", "progress": step})

        thread = threading.Thread(target=report)
        thread.start()
        thread.join(DEADLINE)

    monkeypatch.setattr(loop, "call_soon_threadsafe", note)
    client = Client(work)
    await client.call()
    assert [*chain(*client.progress)] == [*range(10), None]
    assert wake_ups == ["_flush_soon"]
