"""How exchanges are answered over HTTP: JSON or a stream, refusals, and what follows a cancellation."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import NoReturn

from msgspec.structs import astuple

from dragoman import types
from dragoman.auth.server.identity import Denial
from dragoman.errors import DragomanError, InvalidRequest
from dragoman.protocol import eras, jsonrpc, sse
from dragoman.protocol.inbound import BAD_REQUEST, AcceptedTypes, Rejection
from dragoman.server.request.call import Session
from dragoman.transports.http.exchange import JSON_HEADERS, Exchange, Header


class HttpRefusal(DragomanError):
    """What is not served: an HTTP status, the reason, further headers, and the request, if it is one."""

    def __init__(
        self,
        status: int,
        error: Exception,
        request: eras.McpRequest | jsonrpc.Request | None = None,
        *,
        id: types.RequestId | None = None,
        session: Session | None = None,
        null_id: bool = False,
        headers: tuple[Header, ...] = (),
        place: str | None = None,
    ) -> None:
        super().__init__(str(error))
        self.status = status
        self.error = error
        self.id = id if request is None else request.id
        self.request = request
        """What was asked for, where middleware is to know of it."""
        self.session = session
        """Whose request it is, where that is known."""
        self.null_id = null_id
        self.headers = headers
        self.place = place
        """Where the server itself failed, if it did: the reason is reported and not said."""

    @classmethod
    def of(cls, rejection: Rejection) -> HttpRefusal:
        """Return what the protocol rejects."""
        status, error, id, null_id, request = astuple(rejection)
        return cls(status, error, request, id=id, null_id=null_id)


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
        HttpRefusal: always.
    """
    raise HttpRefusal(BAD_REQUEST, InvalidRequest(f"The header {header} is repeated; send it once"))


def challenge(denial: Denial) -> Header:
    """Return the header that says how to authorize."""
    return b"www-authenticate", denial.challenge.encode("latin-1", "replace")


async def answer(exchange: Exchange, taken: AcceptedTypes, status: int, data: bytes) -> None:
    """Answer with JSON, unless a stream has begun or the client takes nothing else."""
    if exchange.streaming or not taken.json:
        await exchange.stream(sse.encode(data), last=True)
    else:
        await exchange.reply(status, data, JSON_HEADERS)
