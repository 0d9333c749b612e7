"""`DetachedCall`: a `tools/call` request as data, so that its tool can run apart from the request, in any process.

An extension that answers a call before its tool is done makes a `DetachedCall` of the context. It may store the call,
or send it to another process, because msgspec encodes and decodes it. `ServerExtension.run_detached` runs the tool of
the call. The call has the identity of the caller but neither the token nor the HTTP headers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from msgspec import Raw, Struct, field

from dragoman import types
from dragoman.protocol.recording import Recording
from dragoman.telemetry import trace_context

if TYPE_CHECKING:
    from dragoman.server.request.asking import OnStep
    from dragoman.server.request.call import Call
    from dragoman.server.request.context import Context
    from dragoman.server.server import Server

OnProgress = Callable[[float, float | None, str | None], object]
"""Called with progress, total and message."""


class DetachedCall(Struct, kw_only=True):
    """A `tools/call` request apart from its connection, with the recording of its runs.

    Example:
        call = DetachedCall.of(ctx)
        stored = msgspec.json.encode(call)
        outcome = await extension.run_detached(server, msgspec.json.decode(stored, type=DetachedCall))
    """

    id: types.RequestId
    params: Raw
    """The parameters of the request, as the client sent them."""
    version: str
    capabilities: types.ClientCapabilities
    info: types.Implementation | None = None
    principal: str | None = None
    scopes: frozenset[str] | None = None
    claims: dict[str, Any] = field(default_factory=dict)
    recording: Recording = field(default_factory=Recording)
    """The answers and steps of the runs so far; each run adds to it."""
    trace: dict[str, str] = field(default_factory=dict)
    """The trace context of the request, in which the tool runs."""

    def __repr__(self) -> str:
        # The parameters and the recording are left out, because they may hold secrets.
        return f"<DetachedCall {self.id!r}>"

    @classmethod
    def of(cls, ctx: Context) -> DetachedCall:
        """Return the call of a context, with the answers and steps that are recorded so far."""
        call, caller = ctx._call, ctx._call.request.caller
        return cls(
            id=call.request.id,
            params=Raw(bytes(call.request.raw_params)),  # a slice would keep the whole message in memory
            version=caller.version.name,
            capabilities=caller.capabilities,
            info=caller.info,
            principal=call.principal,
            scopes=call.scopes,
            claims=dict(call.claims),
            recording=ctx._asking.recording.copy(),
            trace=trace_context() or dict(ctx.trace),
        )

    def open(self, server: Server, on_progress: OnProgress | None = None, on_step: OnStep | None = None) -> Call:
        """Return the call of a server that runs the tool once.

        Raises:
            RpcError: the server does not serve the call any more, because its versions or capabilities changed.
        """
        return server.dispatcher.open_detached(self, on_progress, on_step)
