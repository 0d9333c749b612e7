"""`DetachedCall`: a `tools/call` request as data, so that its tool can run apart from the request, in any process.

An extension that answers a call before its tool is done makes a `DetachedCall` of the context. It may store the call,
or send it to another process, because msgspec encodes and decodes it. `ServerExtension.run_detached` runs the tool of
the call. The call has the identity of the caller but neither the token nor the HTTP headers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Raw, Struct, field

from dragoman import types
from dragoman.errors import UnsupportedVersion
from dragoman.protocol import eras, jsonrpc
from dragoman.protocol.recording import Recording
from dragoman.protocol.versions import find_version, version_names
from dragoman.server.request.asking import Asking, OnStep
from dragoman.server.request.call import Call, NoChannel, Session
from dragoman.telemetry import trace_context

if TYPE_CHECKING:
    from dragoman.server.request.context import Context
    from dragoman.server.server import Server

OnProgress = Callable[[float, float | None, str | None], object]
"""Called with progress, total and message."""
_PROGRESS = "notifications/progress"


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
        import asyncio

        version = find_version(self.version)
        if version is None:
            raise UnsupportedVersion(self.version, version_names(server.offer.versions))
        caller = eras.Caller(version, self.capabilities, self.info)
        request = eras.open(jsonrpc.Request(self.id, "tools/call", self.params), server.offer, caller)
        if on_progress is not None:  # a handler sends progress only for a request with a token
            request = msgspec.structs.replace(request, progress_token=0)
        channel = _DetachedChannel(server, on_progress)
        session = Session(request.caller, principal=self.principal)
        loop = asyncio.get_running_loop()
        call = Call(request, session, channel, server, server.server_context, loop)
        call.scopes, call.claims, call.trace = self.scopes, self.claims, self.trace
        call.asking = Asking(call, self.recording, on_step)
        return call


class _DetachedChannel(NoChannel):
    """The channel of a detached call: it passes progress to a function, and drops log messages."""

    def __init__(self, server: Server, on_progress: OnProgress | None) -> None:
        self._server = server
        self._on_progress = on_progress

    def notify(self, method: str, params: Any) -> None:
        """Pass progress to the function of the extension."""
        if method == _PROGRESS and self._on_progress is not None:
            self._on_progress(params.progress, params.total, params.message)

    def notify_updated(self, uri: str) -> bool:
        """Notify all subscribers of a resource, because the call has no connection of its own."""
        return self._server.notify_resource_updated(uri)
