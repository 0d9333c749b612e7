"""What a handler may know of its request, and do for it.

An `async def` handler asks for a `Context`, a `def` handler for a `BlockingContext`: the same names, with and without
`await`. Either is given to the parameter that is annotated with it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import UNSET

from dragoman import types
from dragoman.errors import Cancelled
from dragoman.protocol import eras
from dragoman.server.call import Call

TRACE_KEYS = ("traceparent", "tracestate", "baggage")


class RequestFacts:
    """What both kinds of context know."""

    def __init__(self, call: Call) -> None:
        self._call = call

    @property
    def request_id(self) -> types.RequestId:
        """The id of the request, as the client chose it."""
        return self._call.request.id

    @property
    def session_id(self) -> str | None:
        """The id of the session, where there is one."""
        return self._call.session.id

    @property
    def principal(self) -> str | None:
        """Who is asking, where the server authenticates."""
        return self._call.principal

    @property
    def server_context(self) -> Any:
        """What the application gave to the server, or to this request."""
        return self._call.server_context

    @property
    def client(self) -> eras.Caller:
        """The client: `info` (its name and version, if it said so), `capabilities` and protocol `version`."""
        return self._call.request.caller

    @property
    def meta(self) -> Mapping[str, Any]:
        """The request's `_meta`, as the client sent it."""
        raw = self._call.request.meta
        return {} if raw is UNSET else msgspec.json.decode(raw)

    @property
    def trace(self) -> Mapping[str, str]:
        """The W3C trace context of the request: `traceparent`, `tracestate` and `baggage`, those that are there."""
        meta = self.meta
        return {key: meta[key] for key in TRACE_KEYS if isinstance(meta.get(key), str)}

    @property
    def cancelled(self) -> bool:
        """Whether the client gave the request up."""
        return self._call.cancelled

    def raise_if_cancelled(self) -> None:
        """End the handler if the client gave the request up.

        Raises:
            Cancelled: it did; nothing is answered.
        """
        if self._call.cancelled:
            raise Cancelled(f"The client cancelled request {self.request_id!r}")


class Context(RequestFacts):
    """The request, for `async def` handlers.

    Example:
        @server.tool
        async def whoami(ctx: Context) -> str:
            return ctx.client.info.name if ctx.client.info else "a stranger"
    """


class BlockingContext(RequestFacts):
    """The request, for `def` handlers.

    Example:
        @server.tool
        def whoami(ctx: BlockingContext) -> str:
            return ctx.client.info.name if ctx.client.info else "a stranger"
    """
