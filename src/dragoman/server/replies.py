"""How exchanges are answered over HTTP: JSON or a stream, refusals, and what follows a cancellation."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import NoReturn

from dragoman.auth.identity import Denial
from dragoman.errors import InvalidRequest
from dragoman.protocol import sse
from dragoman.protocol.exchange import BAD_REQUEST, Acceptable
from dragoman.server.http_session import SessionRefused
from dragoman.transports.exchange import JSON_HEADERS, Exchange, Header


async def settle() -> None:
    """Take in a cancellation that was on its way when the handler ended."""
    task = asyncio.current_task()
    if task is not None:
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(0)
        task.uncancel()


def refuse_repeated(header: str) -> NoReturn:
    """Refuse a header that must come once.

    Raises:
        SessionRefused: always.
    """
    raise SessionRefused(BAD_REQUEST, InvalidRequest(f"The header {header} is repeated; send it once"))


def challenge(denial: Denial) -> Header:
    """Return the header that says how to authorize."""
    return b"www-authenticate", denial.challenge.encode("latin-1", "replace")


async def answer(exchange: Exchange, taken: Acceptable, status: int, data: bytes) -> None:
    """Answer with JSON, unless a stream has begun or the client takes nothing else."""
    if exchange.streaming or not taken.json:
        await exchange.stream(sse.encode(data), last=True)
    else:
        await exchange.reply(status, data, JSON_HEADERS)
