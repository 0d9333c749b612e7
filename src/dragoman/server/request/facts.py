"""`RequestFacts`: what a handler can read about its request, and the notifications that go with the request.

`Context` and `BlockingContext` add what must be awaited, or waited for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import isfinite
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import UNSET, Raw, UnsetType

from dragoman import types
from dragoman.errors import Cancelled
from dragoman.protocol import eras
from dragoman.protocol.fields import trim
from dragoman.server.request.call import NOTHING, Call, wants_log

if TYPE_CHECKING:
    from dragoman.server.request.asking import Asking


def readable(raw: Raw) -> Any:
    """Decode JSON that a client sent; return it as text if Python cannot represent it, such as 1e999."""
    try:
        return msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return bytes(raw).decode(errors="replace")


def _read_only(raw: Raw | UnsetType) -> Mapping[str, Any]:
    """Return an object that a client sent as a read-only mapping; the mapping is empty for any other value."""
    value = None if raw is UNSET else readable(raw)
    return MappingProxyType(value) if isinstance(value, dict) else NOTHING


class RequestFacts:
    """The base class of both contexts: the properties of the request."""

    _parks = True
    """Whether a question ends the run by cancelling the task (stateless era); false for a blocking handler."""
    _waits = True
    """Whether a notification waits until the client has read enough; false in the thread of the loop."""

    def __init__(self, call: Call) -> None:
        self._call = call

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self._call.request.method.name}, request {self.request_id!r}>"

    @property
    def request_id(self) -> types.RequestId:
        """The id of the request that the client chose; an empty string for a notification."""
        return self._call.request.id

    @property
    def method(self) -> str:
        """The method of the request, such as `tools/call`; the method of a refused request may not exist."""
        return self._call.request.method.name

    @property
    def params(self) -> types.Params | Mapping[str, Any]:
        """A copy of the params, in the type of the method, such as `types.CallToolRequestParams`.

        The params of a method of `server.method`, and params that were refused as malformed, are a mapping instead.
        """
        request = self._call.request
        is_typed = type(request.params) is not types.Params or not self._call.server.has_method(request.method.name)
        if request.params is not None and is_typed:
            return request.params.__copy__()  # type: ignore[no-any-return]
        return _read_only(request.raw_params)

    @property
    def arguments(self) -> Mapping[str, Any]:
        """The arguments of a tool or prompt as the client sent them; empty for other methods."""
        return _read_only(getattr(self._call.request.params, "arguments", UNSET))

    @property
    def headers(self) -> Mapping[str, str]:
        """The headers of the HTTP request, read-only, with case-insensitive names; empty for other transports.

        Example:
            tenant = ctx.headers.get("X-Tenant", "default")

        `repr` masks the values that may be credentials. A task has no headers, because it may run in another process
        after the request; read them before the task begins, and keep what the tool needs.
        """
        if not self._call.headers:
            return NOTHING
        from dragoman.server.request.http_request import HeaderMapping

        return HeaderMapping(self._call.headers)

    @property
    def values(self) -> dict[str, Any]:
        """A dict of this request in which middleware sets values for later middleware and for the handler."""
        if self._call.values is None:
            self._call.values = {}
        return self._call.values

    @property
    def session_id(self) -> str | None:
        """The id of the HTTP session; None if there is no HTTP session."""
        return self._call.session.id

    @property
    def principal(self) -> str | None:
        """The authenticated caller; None if the server does not authenticate."""
        return self._call.principal

    @property
    def scopes(self) -> frozenset[str] | None:
        """The scopes of the caller, empty over HTTP without `auth`; None over stdio and in memory."""
        return self._call.scopes

    @property
    def claims(self) -> Mapping[str, Any]:
        """The claims of the caller's token; empty if there is no token."""
        return self._call.claims

    @property
    def server_context(self) -> Any:
        """The `server_context` of this request, or of the server if the request has none."""
        return self._call.server_context

    @property
    def lifespan(self) -> Any:
        """The value of the server's lifespan; None if there is none, a tuple if several lifespans have a value.

        A parameter `Annotated[Database, Lifespan()]` has the same value with its type.
        """
        values = self._call.server.lifespan_values(self._call.loop).values()
        given = tuple(value for value in values if value is not None)
        return given[0] if len(given) == 1 else given or None

    @property
    def client(self) -> eras.Caller:
        """The client: `info` (name and version, or None), `capabilities` and protocol `version`."""
        return self._call.request.caller

    @property
    def meta(self) -> Mapping[str, Any]:
        """The `_meta` of the request as the client sent it."""
        raw = self._call.request.meta
        return {} if raw is UNSET else msgspec.json.decode(raw)

    @property
    def trace(self) -> Mapping[str, str]:
        """The W3C trace context of the request: those of `traceparent`, `tracestate` and `baggage` that it has."""
        meta = self.meta
        return {key: meta[key] for key in types.TRACE_KEYS if isinstance(meta.get(key), str)}

    @property
    def cancelled(self) -> bool:
        """Whether the request was cancelled: by the client, or because the server or the session ends.

        This is also so if the `timeout` of the tool is over.
        """
        return self._call.is_handler_cancelled

    @property
    def cancel_reason(self) -> str | None:
        """The reason that the client gave for the cancellation; None if it gave none."""
        return self._call.cancel_reason

    def on_cancel(self, callback: Callable[[], object]) -> Callable[[], None]:
        """Call a function when the request is cancelled, or now if it is cancelled already.

        Example:
            def query(sql: str, ctx: BlockingContext) -> list[str]:
                ctx.on_cancel(connection.interrupt)
                return connection.execute(sql)

        The callback runs in the event loop, so it must not block. The server reports an error of the callback. The
        returned function removes the callback.
        """
        return self._call.on_cancel(callback)

    def raise_if_cancelled(self) -> None:
        """Raise `Cancelled` if the request was cancelled.

        Example:
            for row in rows:
                ctx.raise_if_cancelled()
                load(row)

        Raises:
            Cancelled: the request was cancelled.
        """
        if self._call.is_handler_cancelled:
            raise Cancelled(f"The client cancelled request {self.request_id!r}")

    @property
    def inputs(self) -> Mapping[str, Any]:
        """The client's answers to the questions of earlier runs, by key, as the client sent them.

        The questions are those that the handler returned as `InputRequired`.
        """
        return self._asking.inputs

    @property
    def state(self) -> Any:
        """The state that the handler returned with `InputRequired` in an earlier run; None in the first run."""
        return self._asking.state

    def require_capability(self, *path: str) -> None:
        """Refuse the request if the client did not declare a capability.

        Example:
            ctx.require_capability("sampling", "tools")

        Raises:
            MissingCapability: the client did not declare the capability.
        """
        from dragoman.server.request.asking import require_capabilities

        require_capabilities(self._call, [path])

    @property
    def _asking(self) -> Asking:
        from dragoman.server.request.asking import asking_of

        return asking_of(self._call)

    def _send_progress(self, progress: float, total: float | None, message: str | None) -> bool:
        call, token = self._call, self._call.request.progress_token
        if token is None or call.is_handler_cancelled or call.drops("Progress"):
            return False
        # MUST: progress strictly increases. JSON has only finite numbers.
        if not isfinite(progress) or (call.progress is not None and progress <= call.progress):
            return False
        call.progress = progress
        total = total if total is not None and isfinite(total) else None
        params = types.ProgressNotificationParams(token, progress, total, message)
        call.channel.notify("notifications/progress", trim(params, call.request.caller.version))
        return True

    def _send_log(self, level: types.LoggingLevel, data: object, logger: str | None) -> bool:
        call, caller = self._call, self._call.request.caller
        threshold = caller.log_level if caller.version.stateless else call.session.log_level
        is_wanted = wants_log(call.server.capabilities, level, threshold) and not call.is_handler_cancelled
        if not is_wanted or call.drops("A log message"):
            return False
        params = types.LoggingMessageNotificationParams(level, data, logger)
        call.channel.notify("notifications/message", params)
        return True
