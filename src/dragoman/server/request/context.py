"""`Context` and `BlockingContext`: the objects by which an author's function reads its request and reaches the client.

An `async def` handler takes a `Context`, and a `def` handler takes a `BlockingContext`. Both have the same methods; the
methods of `Context` are awaited. A handler receives the context as the parameter that is annotated with the class.
Notifications are sent at once. Questions to the client go through `asking`, which hides the difference between the
eras.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Mapping
from math import isfinite
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar, Unpack, overload

import msgspec
from msgspec import UNSET, Raw, UnsetType

from dragoman import types
from dragoman.errors import Cancelled
from dragoman.protocol import eras
from dragoman.protocol.extensions import CORE
from dragoman.protocol.fields import trim
from dragoman.runtime.callables import blocking
from dragoman.server.request.call import ELICITATION_COMPLETE, NOTHING, Call, wants_log
from dragoman.server.request.driving import drive, is_in_place
from dragoman.server.request.tool_task import BlockingToolTask, ToolTask

if TYPE_CHECKING:
    from dragoman.server.request.asking import Asking
    from dragoman.server.request.questions import ElicitResult, Messages, Question, SampleOptions
    from dragoman.server.request.state import BlockingHandlerState, HandlerState

T = TypeVar("T")
TIMEOUT = 600.0


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
        """The headers of the HTTP request, with case-insensitive names; empty for other transports."""
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
        """The scopes of the caller; None if the server does not authenticate, as over stdio."""
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
        """Whether the request was cancelled: by the client, or because the server or the session ends."""
        return self._call.cancelled

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
        if self._call.cancelled:
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
        if token is None or call.ended or call.cancelled:
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
        if call.ended or call.cancelled or not wants_log(call.server, level, threshold):
            return False
        params = types.LoggingMessageNotificationParams(level, data, logger)
        call.channel.notify("notifications/message", params)
        return True


class Context(RequestFacts):
    """The context of a request, for `async def` handlers.

    Example:
        @server.tool
        async def book(city: str, ctx: Context) -> str:
            await ctx.report_progress(1, total=2, message="asking")
            answer = await ctx.elicit(f"Really {city}?", Confirmation)
            return "booked" if answer.accepted else "not booked"
    """

    @property
    def user_state(self) -> HandlerState:
        """The values that the server keeps for the user of this request, in every process and session.

        Example:
            await ctx.user_state.set("cart", cart, ttl=3600)

        The user is the principal, or what `Server(state_key=...)` returns.

        Raises:
            DragomanError: the request has no principal, and the server no `state_key`.
        """
        from dragoman.server.request.state import user_state

        return user_state(self._call, self)

    @property
    def session_state(self) -> HandlerState:
        """The values that the server keeps in the session of this request (until 2025-11-25).

        Example:
            await ctx.session_state.set("city", "Oslo")

        Raises:
            DragomanError: there is no session, as in every request of 2026-07-28.
        """
        from dragoman.server.request.state import session_state

        return session_state(self._call)

    @property
    def task(self) -> ToolTask:
        """The task that runs the tool; an extension that runs tools as tasks provides it."""
        return ToolTask(self)

    async def report_progress(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        """Send a progress notification, if the client asked for progress.

        Example:
            await ctx.report_progress(3, total=10, message="reading")

        `progress` must increase from call to call; a value that does not increase is not sent.
        """
        if self._send_progress(progress, total, message):
            await self._room()

    async def log(self, level: types.LoggingLevel, data: object, logger: str | None = None) -> None:
        """Send a log message to the client of this request, if the client's log level includes it.

        Example:
            await ctx.log("info", {"rows": 12}, "import")

        Raises:
            ValueError: there is no such level.
            ValidationError: the data cannot be JSON.
        """
        if self._send_log(level, data, logger):
            await self._room()

    async def debug(self, data: object, logger: str | None = None) -> None:
        """Log at level debug."""
        await self.log("debug", data, logger)

    async def info(self, data: object, logger: str | None = None) -> None:
        """Log at level info."""
        await self.log("info", data, logger)

    async def notice(self, data: object, logger: str | None = None) -> None:
        """Log at level notice."""
        await self.log("notice", data, logger)

    async def warning(self, data: object, logger: str | None = None) -> None:
        """Log at level warning."""
        await self.log("warning", data, logger)

    async def error(self, data: object, logger: str | None = None) -> None:
        """Log at level error."""
        await self.log("error", data, logger)

    async def critical(self, data: object, logger: str | None = None) -> None:
        """Log at level critical."""
        await self.log("critical", data, logger)

    async def alert(self, data: object, logger: str | None = None) -> None:
        """Log at level alert."""
        await self.log("alert", data, logger)

    async def emergency(self, data: object, logger: str | None = None) -> None:
        """Log at level emergency."""
        await self.log("emergency", data, logger)

    async def notify_resource_updated(self, uri: str) -> None:
        """Notify the client of this request that a resource was updated."""
        self._call.channel.notify_updated(uri)

    async def close_stream(self) -> None:
        """Close the HTTP connection of this request; the client resumes the stream later and misses no message.

        Example:
            await ctx.close_stream()
            return await a_long_computation()

        Only clients of 2025-11-25 over HTTP can resume. For all other clients this method does nothing.
        """
        await self._call.channel.close_stream()

    async def notify_elicitation_complete(self, elicitation_id: str) -> None:
        """Notify the client that a url elicitation is complete (2025-11-25 only), before or after the response.

        Code without a context, such as the view of a page, calls `server.notify_elicitation_complete` instead.
        """
        call = self._call
        if CORE.exists(ELICITATION_COMPLETE, call.request.caller.version):
            if call.session.elicitations is not None:
                call.session.elicitations.pop(elicitation_id, None)
            params = types.ElicitationCompleteNotificationParams(elicitation_id)
            call.channel.notify_session(ELICITATION_COMPLETE, params)

    async def ping(self, timeout: float = TIMEOUT) -> None:
        """Send a ping to the client and wait for its response (until 2025-11-25).

        Raises:
            MethodNotFound: the client's protocol version has no ping from the server.
            Timeout: the client did not answer in time.
            InvalidParams: the client's result is not an object.
        """
        await self.request("ping", timeout=timeout)

    async def request(
        self, method: str, params: Mapping[str, object] | None = None, *, timeout: float = TIMEOUT
    ) -> types.Json:
        """Send a request to the client, such as one of an extension, and return its result (until 2025-11-25).

        Example:
            answer = await ctx.request("quotes/confirm", {"quoteId": "q-1"}, timeout=60)

        Raises:
            MethodNotFound: the client's protocol version has no such request from a server.
            MissingCapability: the client did not declare the extension, or the capability of the method.
            RpcError: the client refused.
            Timeout: the client did not answer in time.
            InvalidParams: the client's result is not an object.
        """
        from dragoman.server.request.asking import request_row, require_capabilities
        from dragoman.server.request.questions import decode_answer

        row = request_row(self._call, method)
        require_capabilities(self._call, [row.capability])
        return decode_answer(await self._call.ask_client(method, params or {}, timeout), types.Json)

    async def notify(self, method: str, params: Mapping[str, object] | None = None) -> None:
        """Send a notification of an extension to the client of this request, before or after the response.

        Example:
            await ctx.notify("notifications/quotes/changed", {"quoteId": "q-1"})

        Nothing is sent to a client whose version does not have the notification, or that did not declare the extension.
        In the stateless era nothing is sent after the response.

        Raises:
            DefinitionError: no extension of the server has such a notification.
            ValidationError: the parameters cannot be JSON.
        """
        from dragoman.server.request.asking import wants_notification

        if wants_notification(self._call, method):
            self._call.channel.notify_session(method, params or {})
            await self._room()

    @overload
    async def elicit(
        self, message: str, schema: type[T], *, key: str | None = None, timeout: float = TIMEOUT
    ) -> ElicitResult[T]: ...
    @overload
    async def elicit(
        self, message: str, schema: Mapping[str, Any], *, key: str | None = None, timeout: float = TIMEOUT
    ) -> ElicitResult[dict[str, Any]]: ...
    async def elicit(self, message: str, schema: Any, *, key: str | None = None, timeout: float = TIMEOUT) -> Any:
        """Ask the user to fill in a form, and return the answer.

        Example:
            name = await ctx.elicit("What is your name?", str)

        `schema` is a dataclass, TypedDict, Struct, pydantic model or flat JSON Schema. It may also be the type of a
        single field, such as `str`, `int`, `bool` or an Enum.

        In the stateless era the handler runs again from its start when the client has sent the answer. Use `step` for
        code that must run once. `key` names the question if the order of questions may change from run to run.

        Raises:
            MissingCapability: the client did not declare form elicitation.
            Timeout: the client did not answer in time.
        """
        from dragoman.server.request.questions import Elicit

        return await self._ask(Elicit(message, schema), key, timeout)

    async def elicit_url(
        self,
        message: str,
        url: str,
        elicitation_id: str | None = None,
        *,
        key: str | None = None,
        timeout: float = TIMEOUT,
    ) -> ElicitResult[None]:
        """Ask the user to visit a page, for data that must not pass through the client, such as a password.

        Example:
            answer = await ctx.elicit_url("Please sign in", "https://example.com/sign-in", "sign-in-42")

        If the user accepts, the user agreed to visit the page; the visit itself may not be complete.

        Raises:
            MissingCapability: the client did not declare url elicitation.
            Timeout: the client did not answer in time.
        """
        from dragoman.server.request.questions import ElicitUrl

        answer: ElicitResult[None] = await self._ask(ElicitUrl(message, url, elicitation_id), key, timeout)
        return answer

    async def sample(
        self, messages: Messages, *, key: str | None = None, timeout: float = TIMEOUT, **options: Unpack[SampleOptions]
    ) -> types.CreateMessageResult:
        """Ask the client's model, and return its message.

        Example:
            summary = (await ctx.sample(f"Summarise: {text}", max_tokens=200)).text

        `messages` is a text, one message or several; a message may be a plain dict. The options are those of `Sample`:
        `max_tokens` (1024), `system_prompt`, `temperature`, `tools` and others.

        Raises:
            MissingCapability: the client did not declare sampling, or sampling with tools if tools are given.
            Timeout: the client did not answer in time.
        """
        from dragoman.server.request.questions import Sample

        answer: types.CreateMessageResult = await self._ask(Sample(messages, **options), key, timeout)
        return answer

    async def list_roots(self, *, key: str | None = None, timeout: float = TIMEOUT) -> list[types.Root]:
        """Ask the client for its roots.

        Example:
            roots = await ctx.list_roots()

        Raises:
            MissingCapability: the client did not declare roots.
            Timeout: the client did not answer in time.
        """
        from dragoman.server.request.questions import ListRoots

        roots: list[types.Root] = await self._ask(ListRoots(), key, timeout)
        return roots

    async def ask(self, /, *, timeout: float = TIMEOUT, **questions: Question) -> dict[str, Any]:
        """Ask several questions at once, and return the answers by name.

        Example:
            answers = await ctx.ask(city=Elicit("Where?", City), roots=ListRoots())

        Raises:
            MissingCapability: the client lacks a capability that a question needs.
            Timeout: the client did not answer in time.
        """
        asked: dict[str | None, Question] = {name: question for name, question in questions.items()}  # noqa: C416
        answers = await self._asking.ask(asked, timeout=timeout, parks=self._parks)
        return dict(zip(questions, answers, strict=True))

    @overload
    async def step(self, name: str, run: Callable[[], Awaitable[T]], *, result_type: type[T] | None = None) -> T: ...
    @overload
    async def step(self, name: str, run: Callable[[], T], *, result_type: type[T] | None = None) -> T: ...
    async def step(self, name: str, run: Callable[[], Any], *, result_type: type[Any] | None = None) -> Any:
        """Run a function once for the whole request, even if the handler runs several times, and return its value.

        Example:
            booking = await ctx.step("book", lambda: book(city), result_type=Booking)

        The value is recorded as JSON. `result_type` converts it back to a type that JSON does not have, such as a
        dataclass. In the stateless era the client receives the recorded value, signed but not encrypted: record a
        handle instead of a secret.

        Raises:
            ValidationError: the value cannot be JSON, or does not fit `result_type`.
            TypeError: JSON does not have the type of the value, and there is no `result_type`.
        """
        return await self._asking.step(name, run, result_type)

    async def _room(self) -> None:
        if self._waits:
            await self._call.channel.wait_for_room()

    async def _ask(self, question: Question, key: str | None, timeout: float) -> Any:
        (answer,) = await self._asking.ask({None: question}, timeout=timeout, key=key, parks=self._parks)
        return answer


class BlockingContext(RequestFacts):
    """The context of a request, for `def` handlers: the methods of `Context`, blocking.

    Example:
        @server.tool
        def book(city: str, ctx: BlockingContext) -> str:
            ctx.report_progress(1, total=2, message="asking")
            answer = ctx.elicit(f"Really {city}?", Confirmation)
            return "booked" if answer.accepted else "not booked"
    """

    @property
    def task(self) -> BlockingToolTask:
        """The task that runs the tool; an extension that runs tools as tasks provides it."""
        return BlockingToolTask(self)

    report_progress = blocking(Context.report_progress)
    log = blocking(Context.log)
    debug = blocking(Context.debug)
    info = blocking(Context.info)
    notice = blocking(Context.notice)
    warning = blocking(Context.warning)
    error = blocking(Context.error)
    critical = blocking(Context.critical)
    alert = blocking(Context.alert)
    emergency = blocking(Context.emergency)
    notify_resource_updated = blocking(Context.notify_resource_updated)
    close_stream = blocking(Context.close_stream)
    notify_elicitation_complete = blocking(Context.notify_elicitation_complete)
    ping = blocking(Context.ping)
    request = blocking(Context.request)
    notify = blocking(Context.notify)
    elicit = blocking(Context.elicit)
    elicit_url = blocking(Context.elicit_url)
    sample = blocking(Context.sample)
    list_roots = blocking(Context.list_roots)
    ask = blocking(Context.ask)

    @property
    def user_state(self) -> BlockingHandlerState:
        """The values that the server keeps for the user of this request, as in `Context`."""
        from dragoman.server.request.state import BlockingHandlerState

        return BlockingHandlerState(self._call, Context(self._call).user_state)

    @property
    def session_state(self) -> BlockingHandlerState:
        """The values that the server keeps in the session of this request, as in `Context`."""
        from dragoman.server.request.state import BlockingHandlerState

        return BlockingHandlerState(self._call, Context(self._call).session_state)

    def step(self, name: str, run: Callable[[], T], *, result_type: type[T] | None = None) -> T:
        """Run a function once for the whole request, as `Context.step` does; the function runs in this thread."""
        asking = self._asking
        raw = asking.recorded_step(name)
        if raw is None:
            notes_steps = asking.on_step is not None
            if notes_steps:
                drive(self._call, asking.note_step(name, None))
            raw = asking.record_step(name, run(), result_type)
            if notes_steps:
                drive(self._call, asking.note_step(name, raw))
        value: T = asking.step_value(raw, result_type)
        return value

    def _drive(self, method: Callable[..., Coroutine[Any, Any, T]], *args: Any, **kwargs: Any) -> T:
        context = Context(self._call)
        context._parks = False
        context._waits = not is_in_place(self._call)
        return drive(self._call, method(context, *args, **kwargs))
