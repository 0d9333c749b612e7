"""`Context` and `BlockingContext`: the objects by which an author's function reads its request and reaches the client.

An `async def` handler takes a `Context`, and a `def` handler takes a `BlockingContext`. Both have the same methods; the
methods of `Context` are awaited. A handler receives the context as the parameter that is annotated with the class.
Notifications are sent at once. Questions to the client go through `asking`, which hides the difference between the
eras.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import TYPE_CHECKING, Any, TypeVar, Unpack, overload

from dragoman import types
from dragoman.protocol.extensions import CORE
from dragoman.runtime.callables import awaited_by_caller, blocking
from dragoman.server.request.call import ELICITATION_COMPLETE
from dragoman.server.request.driving import drive, is_in_place
from dragoman.server.request.facts import RequestFacts
from dragoman.server.request.tool_task import BlockingToolTask, ToolTask

if TYPE_CHECKING:
    from types import UnionType
    from typing import _SpecialForm

    LiteralForm = _SpecialForm | UnionType
    """A Literal of texts, as mypy and as pyright see it; neither tells which texts."""

    from dragoman.server.request.questions import ElicitResult, Messages, Question, SampleOptions
    from dragoman.server.request.state import BlockingHandlerState, HandlerState

T = TypeVar("T")
TIMEOUT = 600.0


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

        `progress` must increase from call to call; a value that does not increase is not sent. Progress of a request
        that has ended is dropped, and the log of the server says so once for each request.
        """
        if self._send_progress(progress, total, message):
            await self._room()

    async def log(self, level: types.LoggingLevel, data: object, logger: str | None = None) -> None:
        """Send a log message to the client of this request, if the client's log level includes it.

        Example:
            await ctx.log("info", {"rows": 12}, "import")

        A message of a request that has ended is dropped, as progress is.

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

    async def notify_resource_updated(self, uri: str) -> bool:
        """Notify the client of this request that a resource was updated; return whether a client here gets it."""
        return self._call.channel.notify_updated(uri)

    async def close_stream(self) -> None:
        """Close the HTTP connection of this request; the client resumes the stream later and misses no message.

        Example:
            await ctx.close_stream()
            return await a_long_computation()

        Only clients of 2025-11-25 over HTTP can resume. For all other clients this method does nothing.
        """
        if not self._call.ended:
            await self._call.channel.close_stream()

    async def notify_elicitation_complete(self, elicitation_id: str) -> bool:
        """Notify the client that a url elicitation is complete (2025-11-25 only), before or after the response.

        Code without a context, such as the view of a page, calls `server.notify_elicitation_complete` instead. Returns
        whether the notification was sent to a client of this process.
        """
        call = self._call
        if not CORE.exists(ELICITATION_COMPLETE, call.request.caller.version):
            return False
        if call.session.elicitations is not None:
            call.session.elicitations.pop(elicitation_id, None)
        params = types.ElicitationCompleteNotificationParams(elicitation_id)
        return call.channel.notify_session(ELICITATION_COMPLETE, params)

    @awaited_by_caller("ctx")
    async def ping(self, timeout: float = TIMEOUT) -> None:
        """Send a ping to the client and wait for its response (until 2025-11-25).

        Raises:
            MethodNotFound: the client's protocol version has no ping from the server.
            DragomanError: the request has ended.
            Timeout: the client did not answer in time.
            InvalidParams: the client's result is not an object.
        """
        await self.request("ping", timeout=timeout)

    @awaited_by_caller("ctx")
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
            DragomanError: the request has ended.
            Timeout: the client did not answer in time.
            InvalidParams: the client's result is not an object.
        """
        from dragoman.server.request.asking import request_row, require_capabilities
        from dragoman.server.request.questions import decode_answer

        row = request_row(self._call, method)
        require_capabilities(self._call, [row.capability])
        return decode_answer(await self._call.ask_client(method, params or {}, timeout), types.Json)

    async def notify(self, method: str, params: Mapping[str, object] | None = None) -> bool:
        """Send a notification of an extension to the client of this request, before or after the response.

        Example:
            await ctx.notify("notifications/quotes/changed", {"quoteId": "q-1"})

        Nothing is sent to a client whose version does not have the notification, or that did not declare the extension.
        In the stateless era nothing is sent after the response. Returns whether the notification was sent to a client
        of this process.

        Raises:
            DefinitionError: no extension of the server has such a notification.
            ValidationError: the parameters cannot be JSON.
        """
        from dragoman.server.request.asking import wants_notification

        is_sent = wants_notification(self._call, method) and self._call.channel.notify_session(method, params or {})
        if is_sent:
            await self._room()
        return is_sent

    @overload
    async def elicit(
        self, message: str, schema: type[T], *, key: str | None = None, timeout: float = TIMEOUT
    ) -> ElicitResult[T]: ...
    @overload
    async def elicit(
        self, message: str, schema: Mapping[str, Any], *, key: str | None = None, timeout: float = TIMEOUT
    ) -> ElicitResult[dict[str, Any]]: ...
    @overload
    async def elicit(
        self, message: str, schema: LiteralForm, *, key: str | None = None, timeout: float = TIMEOUT
    ) -> ElicitResult[str]: ...
    @awaited_by_caller("ctx")
    async def elicit(self, message: str, schema: Any, *, key: str | None = None, timeout: float = TIMEOUT) -> Any:
        """Ask the user to fill in a form, and return the answer.

        Example:
            name = await ctx.elicit("What is your name?", str)

        `schema` is a dataclass, TypedDict, Struct, pydantic model or flat JSON Schema. It may also be the type of a
        single field, such as `str`, `int`, `bool`, a Literal or an Enum.

        In the stateless era the handler runs again from its start when the client has sent the answer. Use `step` for
        code that must run once. `key` names the question if the order of questions may change from run to run.

        Raises:
            MissingCapability: the client did not declare form elicitation.
            DragomanError: the request has ended.
            Timeout: the client did not answer in time.
        """
        from dragoman.server.request.questions import Elicit

        return await self._ask(Elicit(message, schema), key, timeout)

    @awaited_by_caller("ctx")
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
            DragomanError: the request has ended.
            Timeout: the client did not answer in time.
        """
        from dragoman.server.request.questions import ElicitUrl

        answer: ElicitResult[None] = await self._ask(ElicitUrl(message, url, elicitation_id), key, timeout)
        return answer

    @awaited_by_caller("ctx")
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
            DragomanError: the request has ended.
            Timeout: the client did not answer in time.
        """
        from dragoman.server.request.questions import Sample

        answer: types.CreateMessageResult = await self._ask(Sample(messages, **options), key, timeout)
        return answer

    @awaited_by_caller("ctx")
    async def list_roots(self, *, key: str | None = None, timeout: float = TIMEOUT) -> list[types.Root]:
        """Ask the client for its roots.

        Example:
            roots = await ctx.list_roots()

        Raises:
            MissingCapability: the client did not declare roots.
            DragomanError: the request has ended.
            Timeout: the client did not answer in time.
        """
        from dragoman.server.request.questions import ListRoots

        roots: list[types.Root] = await self._ask(ListRoots(), key, timeout)
        return roots

    @awaited_by_caller("ctx")
    async def ask(self, /, *, timeout: float = TIMEOUT, **questions: Question) -> dict[str, Any]:
        """Ask several questions at once, and return the answers by name.

        Example:
            answers = await ctx.ask(city=Elicit("Where?", City), roots=ListRoots())

        Raises:
            MissingCapability: the client lacks a capability that a question needs.
            DragomanError: the request has ended.
            Timeout: the client did not answer in time.
        """
        asked: dict[str | None, Question] = {name: question for name, question in questions.items()}  # noqa: C416
        answers = await self._asking.ask(asked, timeout=timeout, parks=self._parks)
        return dict(zip(questions, answers, strict=True))

    @overload
    async def step(self, name: str, run: Callable[[], Awaitable[T]], *, result_type: type[T] | None = None) -> T: ...
    @overload
    async def step(self, name: str, run: Callable[[], T], *, result_type: type[T] | None = None) -> T: ...
    @awaited_by_caller("ctx")
    async def step(self, name: str, run: Callable[[], Any], *, result_type: type[Any] | None = None) -> Any:
        """Run a function once for the whole request, even if the handler runs several times, and return its value.

        Example:
            booking = await ctx.step("book", lambda: book(city), result_type=Booking)

        The value is recorded as JSON. `result_type` converts it back to a type that JSON does not have, such as a
        dataclass. In the stateless era the client receives the recorded value, signed but not encrypted: record a
        handle instead of a secret.

        Each step of a handler needs a name of its own, such as `f"charge-{item}"` in a loop. A step that failed may be
        tried again with the same name.

        Raises:
            DefinitionError: the handler has used the name already.
            DragomanError: the request has ended.
            ValidationError: the value cannot be JSON, or does not fit `result_type`.
            TypeError: `run` is not a function, or JSON does not have the type of the value, and there is no
                `result_type`.
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
        raw = asking.begin_step(name, run)
        if raw is None:
            notes_steps = asking.on_step is not None
            try:
                if notes_steps:
                    drive(self._call, asking.note_step(name, None))
                raw = asking.record_step(name, _plain_value(name, run()), result_type)
            except BaseException:
                asking.release_step(name)
                raise
            if notes_steps:
                drive(self._call, asking.note_step(name, raw))
        value: T = asking.step_value(raw, result_type)
        return value

    def _drive(self, method: Callable[..., Coroutine[Any, Any, T]], *args: Any, **kwargs: Any) -> T:
        context = Context(self._call)
        context._parks = False
        # A request that has ended waits for nothing, and its loop may be closed.
        context._waits = not (self._call.ended or is_in_place(self._call))
        return drive(self._call, method(context, *args, **kwargs), in_place=self._call.ended)


CredentialExchange = (
    Callable[[str], str | Awaitable[str]]
    | Callable[[str, Context], str | Awaitable[str]]
    | Callable[[str, BlockingContext], str]
)
"""Takes the `Authorization` header of a caller, and maybe the context, and returns the header for a target."""


def _plain_value(name: str, value: T) -> T:
    """Return the value of a step of a `def` handler.

    Raises:
        TypeError: the value is a coroutine, which a `def` handler cannot await.
    """
    if isinstance(value, Coroutine):
        value.close()
        raise TypeError(
            f"The function of the step {name!r} is async, and a `def` handler cannot await it: pass a plain function,"
            " or write the handler as `async def` with a Context"
        )
    return value
