"""How the TypeScript client resumes a stream, shown with a server that is not ours.

Our server works around both flaws that these tests show (`server/http/resumption.py`, `server/http/streams.py`). If one
of these tests fails with a later release of the client, the flaw is gone.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from interop.processes import HERE, client_command

DEADLINE = 60.0
PRIMING = b"id: stream-0\nretry: 20\ndata: \n\n"
CURSOR = b"id: stream-0\ndata: \n\n"


class BareServer:
    """Answers a client as a test says; the stream of a tool call breaks after its priming event.

    `resumptions` are the answers to GETs with a cursor, of which the last is repeated; None stands for the status 503.
    `cursors` has the cursor of each GET.
    """

    def __init__(self, *resumptions: bytes | None) -> None:
        self.resumptions = list(resumptions)
        self.cursors: list[str | None] = []
        self.url = ""
        self.id: object = None

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[BareServer]:
        listening = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}/mcp"
        try:
            yield self
        finally:
            listening.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        length = re.search(r"(?i)\r\ncontent-length: *(\d+)", head)
        body = await reader.readexactly(int(length[1]) if length else 0)
        if head.startswith("POST"):
            status, kind, answer = self._posted(json.loads(body))
        else:
            status, kind, answer = self._resumed(head)
        writer.write(
            f"HTTP/1.1 {status} X\r\nContent-Type: {kind}\r\nMcp-Session-Id: s\r\nConnection: close\r\n\r\n".encode()
        )
        writer.write(answer)
        await writer.drain()
        writer.close()

    def _posted(self, message: dict[str, object]) -> tuple[int, str, bytes]:
        match message.get("method"):
            case "initialize":
                result = {
                    "protocolVersion": "2025-11-25",
                    "capabilities": {},
                    "serverInfo": {"name": "b", "version": "1"},
                }
                return 200, "application/json", self._answer(message["id"], result)
            case "tools/call":
                self.id = message["id"]
                return 200, "text/event-stream", PRIMING
        return 202, "application/json", b""

    def _resumed(self, head: str) -> tuple[int, str, bytes]:
        found = re.search(r"(?i)\r\nlast-event-id: *(\S+)", head)
        if self.id is None:
            return 405, "application/json", b""
        self.cursors.append(found[1] if found else None)
        if found is None:
            return 405, "application/json", b""
        answer = self.resumptions.pop(0) if len(self.resumptions) > 1 else self.resumptions[0]
        if answer is None:
            return 503, "application/json", b""
        if answer == b"answer":
            answer = b"data: " + self._answer(self.id, {"content": [{"type": "text", "text": "done"}]}) + b"\n\n"
        return 200, "text/event-stream", answer

    @staticmethod
    def _answer(id: object, result: object) -> bytes:
        return json.dumps({"jsonrpc": "2.0", "id": id, "result": result}).encode()


async def called(server: BareServer, milliseconds: int) -> tuple[str, list[str]]:
    """Let the client call a tool; return the outcome, and the complaints of the client."""
    node, script = client_command("typescript")[0], HERE / "resuming_client.mjs"
    child = await asyncio.create_subprocess_exec(
        str(node), str(script), server.url, str(milliseconds), stdout=asyncio.subprocess.PIPE
    )
    try:
        said, _ = await asyncio.wait_for(child.communicate(), DEADLINE)
    finally:
        if child.returncode is None:
            child.kill()
            await child.wait()
    saw = json.loads(said)
    return saw["outcome"], saw["complaints"]


async def test_the_typescript_client_gives_up_a_stream_after_two_refusals_and_lets_the_call_wait() -> None:
    async with BareServer(None).serving() as server:
        outcome, complaints = await called(server, 3000)
    assert server.cursors == ["stream-0", "stream-0"]
    assert complaints[-1] == "Maximum reconnection attempts (2) exceeded."
    assert outcome == "Request timed out"


async def test_the_typescript_client_forgets_its_cursor_if_a_resumed_stream_breaks_without_an_event() -> None:
    async with BareServer(b"", b"answer").serving() as server:
        outcome, _ = await called(server, 3000)
    assert server.cursors[:2] == ["stream-0", None]
    assert outcome == "Request timed out"


async def test_the_typescript_client_keeps_a_cursor_that_the_resumed_stream_begins_with() -> None:
    async with BareServer(CURSOR, CURSOR, CURSOR, CURSOR, b"answer").serving() as server:
        outcome, _ = await called(server, 20_000)
    assert server.cursors == ["stream-0"] * 5
    assert outcome == "done"
