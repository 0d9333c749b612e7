"""`check_server`: plays the client's part of a tape to a server, and compares the server's results with the tape."""

from __future__ import annotations

import asyncio
import difflib
import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from dragoman.testing.cassettes.tape import Message, Tape, TapeEntry
from dragoman.transports.memory import MemoryTransport

if TYPE_CHECKING:
    from dragoman.server.server import Server

ANSWER_SECONDS = 30.0


async def check_server(tape: Tape, server: Server, ignore: Sequence[str]) -> None:
    """Check a server; see `Cassette.check`."""
    transport = MemoryTransport(server.connect, server.serving)
    received: asyncio.Queue[Message] = asyncio.Queue()
    await transport.open(lambda data: received.put_nowait(json.loads(data)), lambda _: None)
    try:
        async with asyncio.timeout(ANSWER_SECONDS):
            await _check_entries(tape, transport, received, frozenset(ignore))
    except TimeoutError:
        raise AssertionError(f"The server did not answer within {ANSWER_SECONDS:g} seconds") from None
    finally:
        await transport.close()


async def _check_entries(
    tape: Tape, transport: MemoryTransport, received: asyncio.Queue[Message], ignore: frozenset[str]
) -> None:
    """Send each message of the client when the messages of the server that precede it have been received."""
    seen: list[Message] = []
    asked: dict[Any, Any] = {}
    for entry in tape.entries:
        if entry.sender == "client":
            message = entry.message
            if "method" not in message:
                message = {**message, "id": asked.get(message.get("id"), message.get("id"))}
            await transport.send(json.dumps(message).encode())
            continue
        await _receive_like(entry, seen, received)
        actual = next(message for message in seen if _is_like(entry.message, message))
        seen.remove(actual)
        if "method" in actual and "id" in actual:
            asked[entry.message["id"]] = actual["id"]
        _compare(entry, actual, ignore)


async def _receive_like(entry: TapeEntry, seen: list[Message], received: asyncio.Queue[Message]) -> None:
    while not any(_is_like(entry.message, message) for message in seen):
        seen.append(await received.get())


def _is_like(recorded: Message, actual: Message) -> bool:
    is_request = "method" in recorded and "id" in recorded
    same_id = is_request or recorded.get("id") == actual.get("id")
    return recorded.get("method") == actual.get("method") and same_id


def _compare(entry: TapeEntry, actual: Message, ignore: frozenset[str]) -> None:
    if "method" in entry.message:
        return
    recorded, now = (_without(message, ignore) for message in (entry.message, actual))
    if recorded != now:
        before, after = (
            json.dumps(value, indent=1, sort_keys=True, ensure_ascii=False).splitlines() for value in (recorded, now)
        )
        difference = "\n".join(difflib.unified_diff(before, after, "recorded", "now", lineterm=""))
        request = entry.request.message.get("method") if entry.request is not None else "a request"
        raise AssertionError(f"The answer to {request} differs:\n{difference}")


def _without(value: Any, names: frozenset[str]) -> Any:
    if isinstance(value, dict):
        return {name: _without(item, names) for name, item in value.items() if name not in names}
    return [_without(item, names) for item in value] if isinstance(value, list) else value
