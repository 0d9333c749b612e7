"""`Asking`: the questions that a handler asks the client during one request, with one interface for both eras.

Handshake era: a question is a request to the client, and the handler awaits the response.

Stateless era: a question without a recorded answer ends the run of the handler, and the server answers the request with
`input_required`. The client sends the request again with the answers, and the handler runs again from its start. An
async handler is ended by the cancellation of its task, one turn of the loop after the question, so that questions asked
in parallel belong to one round. A blocking handler is ended by `RunEnded`, a `BaseException`. The server sends the
question even if the handler catches the cancellation.

A detached call, which runs apart from its request, asks in both eras as in the stateless era. The code that runs the
call keeps the recording and sends the questions.

A run of a handler that asks in this way has these states:

    running    every question so far has a recorded answer
    parked     a question without an answer waits, and `_stop` is scheduled in the loop
    stopping   `_stop` has cancelled the task; a further question is recorded and raises CancelledError
    over       `end_run` was called: the server answers the request, and further questions are refused

Each name of a step, and each key of a question, is used once in a run. A middleware may run the rest of the chain
again: it takes a `Checkpoint` first, and names and keys that were used since then may be used again.

Rejected: an exception instead of the cancellation. `except Exception`, timeouts, `gather` and task groups in the
handler would catch or change it.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
from msgspec import Raw

from dragoman import types
from dragoman.errors import (
    Cancelled,
    DefinitionError,
    DragomanError,
    InternalError,
    MethodNotFound,
    MissingCapability,
    UrlElicitationRequired,
    ValidationError,
)
from dragoman.protocol.fields import trim
from dragoman.protocol.jsonrpc import encode
from dragoman.protocol.methods import Method, declares
from dragoman.protocol.recording import RecordedAnswer, Recording
from dragoman.runtime.callables import invoke
from dragoman.schema.python.annotations import Codec
from dragoman.server.request.call import Call, server_notifications
from dragoman.server.request.questions import (
    Capability,
    ElicitUrl,
    InputRequired,
    Page,
    Question,
    RunEnded,
    checked_elicitations,
    pages,
)
from dragoman.telemetry import trace_context

if TYPE_CHECKING:
    import asyncio

    from dragoman.protocol.rounds import Rounds

OnStep = Callable[[str, Raw | None], Awaitable[object]]
"""Called with the name of a step before the step runs, and with its name and its encoded value afterwards."""
TIMEOUT = 600.0
RUN_AGAIN = object()
"""The outcome of `settle` after the client answered the questions of `InputRequired` (handshake era): run again."""
_JSON_TYPES = frozenset({dict, list, str, int, float, bool, type(None)})
"""The types whose values are equal after encoding to JSON and decoding."""


class Checkpoint(NamedTuple):
    """The keys of questions and the names of steps that were used before a part of the chain ran."""

    keys: frozenset[str]
    steps: frozenset[str]


NO_CHECKPOINT = Checkpoint(frozenset(), frozenset())


class Asking:
    """The questions and answers of one request.

    `replays` is true if an unanswered question ends the run: in the stateless era, and for a detached call, which has a
    `recording`. `on_step` is called before and after each step of a detached call. `_parked` holds a future for each
    question of this run that waits. `_stopping` is the task while a question cancels it. `_over` is true when the run
    has ended (`replays`). `answer` is the result with which the handler ended the run, if any. `_steps` are the names
    of the steps of this run, and `_checkpoint` is the state before the handler ran.
    """

    def __init__(self, call: Call, recording: Recording | None = None, on_step: OnStep | None = None) -> None:
        self._call = call
        self.replays = recording is not None or call.request.caller.version.asks_in_results
        self.on_step = on_step
        self.answer: Any = None
        self._given = recording
        self._parked: list[asyncio.Future[None]] = []
        self._stopping: asyncio.Task[Any] | None = None
        self._over = False
        self._rounds: Rounds | None = None
        self._runs = 0
        self._steps: set[str] = set()
        self._checkpoint = NO_CHECKPOINT

    @property
    def rounds(self) -> Rounds:
        """The questions of this run and the recording of earlier runs (`replays`).

        Raises:
            InvalidParams: the state that the client sent belongs to another request.
        """
        if self._rounds is None:
            # Sealing needs hashlib, which most servers never load.
            from dragoman.protocol.rounds import RequestBinding, Rounds

            if self._given is not None:
                self._rounds = Rounds(self._given)
                return self._rounds
            request, principal = self._call.request, self._call.principal
            subject = RequestBinding.of(
                request.method.name, request.raw_params, principal, server=self._call.server.name
            )
            responses = getattr(request.params, "input_responses", None)
            state = getattr(request.params, "request_state", None)
            self._rounds = Rounds.resume(subject, self._call.server.storage.key_ring, time.time(), responses, state)
        return self._rounds

    @property
    def recording(self) -> Recording:
        """What the runs so far recorded."""
        if self.replays:
            return self.rounds.recording
        if self._given is None:
            self._given = Recording()
        return self._given

    @property
    def pending(self) -> bool:
        """Whether a question of this run has no answer (stateless era)."""
        return self._rounds is not None and self._rounds.pending

    @property
    def is_recording(self) -> bool:
        """Whether this run asked a question or ran a step, so that its recording must travel (stateless era)."""
        return self._rounds is not None

    @property
    def is_stopping(self) -> bool:
        """Whether a question has cancelled the task, and the run has not ended yet."""
        return self._stopping is not None

    @property
    def inputs(self) -> Mapping[str, Any]:
        """The answers so far, by key, as the client sent them."""
        return {key: msgspec.json.decode(raw) for key, raw in self.recording.inputs.items()}

    @property
    def state(self) -> Any:
        """The state that the handler returned in an earlier run."""
        return msgspec.json.decode(self.recording.state)

    def require(self, questions: Iterable[Question]) -> None:
        """Refuse questions that the server cannot ask during this request.

        Raises:
            MissingCapability: the client lacks capabilities that the questions need; the error names all of them.
            Cancelled: the request was cancelled.
            DragomanError: the protocol allows no questions in this method, or the request or the run has ended.
        """
        method = self._call.request.method
        self._require_running()
        if self.replays and not method.input_required:
            raise DragomanError(f"A handler of {method.name} cannot ask the client")
        require_capabilities(self._call, [path for question in questions for path in question.capabilities])

    def _require_running(self) -> None:
        """Refuse what needs a run of the handler.

        Raises:
            Cancelled: the request was cancelled.
            DragomanError: the request or the run has ended.
        """
        if self._call.is_handler_cancelled:
            raise Cancelled("The client cancelled the request")
        self._call.require_open()
        if self.replays and self._over:
            raise DragomanError(f"The handler of {self._call.request.method.name} has ended: ask before it returns")

    def _recorded(self, questions: Mapping[str | None, Question], key: str | None = None) -> list[Any] | None:
        """Return the recorded answers, or None if a question has no answer (stateless era)."""
        raws = [self.rounds.ask(question.request(), name or key) for name, question in questions.items()]
        found = [raw for raw in raws if raw is not None]
        if len(found) < len(raws):
            return None
        return [question.read(raw) for question, raw in zip(questions.values(), found, strict=True)]

    async def ask(
        self,
        questions: Mapping[str | None, Question],
        *,
        timeout: float = TIMEOUT,
        key: str | None = None,
        parks: bool = True,
    ) -> list[Any]:
        """Ask all questions at once, and return the answers in order.

        `parks` is false for a blocking handler: an exception in its thread ends the run.

        Raises:
            RunEnded: a question has no answer, and the handler is blocking (stateless era).
            MissingCapability: the client lacks a capability that a question needs.
        """
        self.require(questions.values())
        if self.replays:
            answers = self._recorded(questions, key)
            if answers is None and parks:
                await self._park()
            if answers is None:
                raise RunEnded
            return answers
        raws = await self._request_all(questions.values(), timeout)
        return [question.read(raw) for question, raw in zip(questions.values(), raws, strict=True)]

    async def _request_all(self, questions: Collection[Question], timeout: float) -> list[Raw]:
        import asyncio

        version = self._call.request.caller.version
        for question in questions:
            if isinstance(question, ElicitUrl):
                self._call.session.add_elicitation(question.elicitation_id)
        asked = [
            self._call.ask_client(question.method, trim(question.request().params, version) or {}, timeout)
            for question in questions
        ]
        if len(asked) == 1:
            return [await asked[0]]
        tasks = [asyncio.ensure_future(one) for one in asked]
        try:
            return list(await asyncio.gather(*tasks))
        finally:
            # If one question fails, the others are cancelled, because `gather` no longer waits for them.
            for task in tasks:
                task.cancel()

    async def _park(self) -> None:
        import asyncio

        if self.is_stopping:
            # The handler asks in a `finally` during the cancellation: the question is recorded, and the run ends.
            raise asyncio.CancelledError
        loop = asyncio.get_running_loop()
        parked: asyncio.Future[None] = loop.create_future()
        self._parked.append(parked)
        loop.call_soon(self._stop)
        await parked

    def _stop(self) -> None:
        task = self._call.handler_task or self._call.task
        if task is not None and not self.is_stopping and not self._call.is_handler_cancelled and not self._over:
            self._stopping = task
            task.cancel()

    async def step(self, name: str, run: Callable[[], Any], kind: type[Any] | None = None) -> Any:
        """Run a step once for the whole request, even if the handler runs several times.

        Raises:
            DefinitionError: this run has used the name already.
            TypeError: `run` is not a function.
        """
        raw = self.begin_step(name, run)
        if raw is None:
            try:
                await self.note_step(name, None)
                raw = self.record_step(name, await invoke(run, in_place=True), kind)
            except BaseException:
                self.release_step(name)
                raise
            await self.note_step(name, raw)
        return self.step_value(raw, kind)

    def begin_step(self, name: str, run: object) -> Raw | None:
        """Claim the name of a step for this run, and return the recorded value; None if the step has to run.

        Raises:
            DefinitionError: this run has used the name already.
            TypeError: `run` is not a function.
            Cancelled: the request was cancelled.
            DragomanError: the request or the run has ended.
        """
        if not callable(run):
            kind = "a coroutine" if isinstance(run, Coroutine) else repr(run)
            if isinstance(run, Coroutine):
                run.close()
            raise TypeError(f"step({name!r}, ...) needs a function, not {kind}: write step({name!r}, lambda: ...)")
        self._require_running()
        if name in self._steps:
            raise DefinitionError(
                f"This run has a step {name!r} already, and a name stands for one value: give each step its own name,"
                f' such as f"{name}-{{item}}"'
            )
        self._steps.add(name)
        return self.recorded_step(name)

    def release_step(self, name: str) -> None:
        """Let this run use a name again, because its step failed and recorded nothing."""
        self._steps.discard(name)

    async def note_step(self, name: str, raw: Raw | None) -> None:
        """Tell `on_step`, if there is one, that a step begins, or that it has ended with an encoded value."""
        if self.on_step is not None:
            await self.on_step(name, raw)

    def recorded_step(self, name: str) -> Raw | None:
        """Return the encoded value that a step recorded; None if the step did not run yet."""
        return self.recording.steps.get(name)

    def step_value(self, raw: Raw, kind: type[Any] | None) -> Any:
        """Decode the value of a step.

        Raises:
            ValidationError: the value does not fit `kind`.
        """
        value = msgspec.json.decode(raw)
        return value if kind is None else Codec(kind, "The result_type of a step").convert(value)

    def record_step(self, name: str, value: Any, kind: type[Any] | None = None) -> Raw:
        """Record the value of a step.

        Raises:
            ValidationError: the value cannot be JSON.
            TypeError: JSON does not have the type of the value, and `kind` is None.
        """
        if kind is None and type(value) not in _JSON_TYPES:
            raise TypeError(
                f"The step {name!r} returned a {type(value).__name__}, which JSON cannot express: name the type to"
                f" read it back, step({name!r}, ..., result_type={type(value).__name__})"
            )
        raw = self.recording.steps[name] = Raw(encode(value))
        return raw

    async def begin_task(self, *, parks: bool) -> None:
        """Let an extension make a task of this call; the run ends, unless the extension goes on with it.

        Raises:
            RunEnded: the extension ends the run, and the handler is blocking.
            Cancelled: the request was cancelled.
            DragomanError: the request or the run has ended.
        """
        self._require_running()
        offered = self._call.offered_task
        if self.answer is None and offered is not None and offered.begin is not None:
            self.answer = await offered.begin()
        if self.answer is not None:
            if parks:
                await self._park()
            raise RunEnded

    def pages_to_visit(self, required: list[Page]) -> dict[str, ElicitUrl]:
        """Return a question for each page that the user was not yet asked to visit, by key (`replays`).

        Each page is asked for once, because an accepted question does not mean that the visit is complete. The query of
        a URL is ignored, because an author may generate a new query in each run.
        """
        questions: dict[str, ElicitUrl] = {}
        steps = [f"visited {page.url.partition('?')[0]}" for page in required]
        number = 1
        for page, step in zip(required, steps, strict=True):
            if self.recorded_step(step) is None:
                while f"url-{number}" in self.recording.answers or f"url-{number}" in questions:
                    number += 1
                questions[f"url-{number}"] = ElicitUrl(page.message, page.url)
        for step in steps:
            self.record_step(step, value=True)
        return questions

    def end_run(self, error: BaseException | None) -> bool:
        """Clean up after a run, and tell whether a question ended the run; `error` is the exception of the run."""
        import asyncio

        for parked in self._parked:
            parked.cancel()
        self._parked.clear()
        self._over = self.replays
        stopped, self._stopping = self._stopping, None
        if stopped is not None:
            stopped.uncancel()
        return isinstance(error, RunEnded) or (stopped is not None and isinstance(error, asyncio.CancelledError))

    def checkpoint(self) -> Checkpoint:
        """Return the keys and names that this run has used so far, before a middleware runs the rest of the chain."""
        self._checkpoint = Checkpoint(
            frozenset() if self._rounds is None else self._rounds.keys, frozenset(self._steps)
        )
        return self._checkpoint

    def run_again(self, checkpoint: Checkpoint) -> None:
        """Let the handler of this request run again for a middleware."""
        self._over = False
        self._steps = set(checkpoint.steps)
        if self._rounds is not None:
            self._rounds.rewind(checkpoint.keys)

    def input_required(self, value: InputRequired | None = None) -> types.InputRequiredResult:
        """Return the `input_required` result, with the questions of this run or of `value` (stateless era).

        Raises:
            RpcError: there are too many questions or rounds, or the state is too large.
        """
        try:
            self.recording.trace = self.recording.trace or trace_context().get("traceparent", "")
            if value is None:
                return self.rounds.required()
            require_capabilities(self._call, value.capabilities)
            for key, question in value.questions.items():
                self.rounds.ask_again(question.request(), key)
            return self.rounds.required(value.state)
        except ValidationError as error:
            raise InternalError(str(error)) from None

    async def fulfil(self, value: InputRequired) -> None:
        """Send the questions of `InputRequired` to the client, and record the answers (handshake era).

        Raises:
            InternalError: the request has too many rounds.
        """
        from dragoman.protocol.rounds import MAX_ROUNDS

        self._runs += 1
        if self._runs > MAX_ROUNDS:
            raise InternalError(f"A request may ask in at most {MAX_ROUNDS} rounds")
        self.require(value.questions.values())
        raws = await self._request_all(value.questions.values(), TIMEOUT) if value.questions else []
        answers = (RecordedAnswer(None, raw) for raw in raws)
        self.recording.answers.update(zip(value.questions, answers, strict=True))
        self.recording.state = Raw(encode(value.state))
        self._steps = set(self._checkpoint.steps)  # the handler runs again


async def settle(call: Call, value: Any, failed: BaseException | None) -> Any:
    """Return the outcome of a run of a handler: its value, an `input_required` result, or `RUN_AGAIN`.

    `value` is the value of the run, and `failed` the exception that it raised.

    Raises:
        BaseException: the exception of the run, unless a question ended the run.
    """
    may_ask = call.request.method.input_required
    if isinstance(failed, UrlElicitationRequired):
        value, failed = _ask_for_pages(call, failed)
    if not may_ask or (call.asking is None and not isinstance(value, InputRequired)):
        if failed is not None:
            raise failed
        return value
    asking = asking_of(call)
    is_ended_by_question = asking.end_run(failed)
    if failed is not None and call.is_cancelled_by(failed):
        raise failed
    if asking.answer is not None:
        return asking.answer
    if asking.pending:
        return asking.input_required()
    if failed is not None and not is_ended_by_question:
        raise failed
    if not isinstance(value, InputRequired):
        return value
    if asking.replays:
        return asking.input_required(value)
    await asking.fulfil(value)
    return RUN_AGAIN


def _ask_for_pages(
    call: Call, error: UrlElicitationRequired
) -> tuple[InputRequired | None, UrlElicitationRequired | DefinitionError | None]:
    """Return the questions for the pages of the error, or the error to raise.

    The stateless era has no error code for `UrlElicitationRequired`.
    """
    try:
        checked = checked_elicitations(error)
    except DefinitionError as misfit:
        return None, misfit.with_traceback(error.__traceback__)  # it leads to the author's `raise`
    if call.request.method.input_required and asking_of(call).replays:
        questions = asking_of(call).pages_to_visit(pages(checked))
        if questions:
            return InputRequired(questions), None
    for entry in checked.elicitations:
        call.session.add_elicitation(entry["elicitationId"])
    return None, checked


def explanation(call: Call, error: BaseException) -> str | None:
    """Return the text to send in place of an error; None if the error itself can be sent or is not the client's.

    Errors of requests to the client have a text. A missing capability and a required url elicitation have one if the
    client's version has no error code for them.
    """
    text = call.client_error(error)
    if text is not None or not isinstance(error, MissingCapability | UrlElicitationRequired):
        return text
    if error.code not in dict(call.request.caller.version.replaced_errors):
        return None
    required = pages(error) if isinstance(error, UrlElicitationRequired) else []
    return "\n".join([error.message, *(f"{page.message} {page.url}" for page in required)])


def asking_of(call: Call) -> Asking:
    """Return the `Asking` of a request; the first call creates it."""
    if call.asking is None:
        call.asking = Asking(call)
    return call.asking


def require_capabilities(call: Call, paths: Iterable[Capability]) -> None:
    """Refuse the request if the client did not declare some capabilities.

    Raises:
        MissingCapability: the client lacks some of them; the error names all that it lacks.
    """
    missing: types.Json = {}
    for path in paths:
        if not _declares(call.request.caller.capabilities, path):
            level = missing
            for name in path:
                level = level.setdefault(name, {})
    if missing:
        raise MissingCapability(missing)


def _declares(capabilities: types.ClientCapabilities, path: tuple[str, ...]) -> bool:
    if path == ("elicitation", "form"):
        declared = capabilities.elicitation
        # An empty object means form mode, the only mode before 2025-11-25.
        return declared is not None and (declared.form is not None or declared.url is None)
    return declares(capabilities, path)


def request_row(call: Call, method: str) -> Method:
    """Return the row of a request that the server may send to this client.

    Raises:
        MethodNotFound: the client's protocol version has no such request.
    """
    version = call.request.caller.version
    for row in () if version.stateless else call.server.offer.table.methods:
        if row.name == method and not row.is_notification and "server" in row.sender and row.exists_in(version):
            return row
    raise MethodNotFound(f"A server cannot send {method} to its client in the protocol version {version.name}")


def wants_notification(call: Call, method: str) -> bool:
    """Tell whether the client of a request takes a notification of an extension.

    Raises:
        DefinitionError: no extension of the server has such a notification.
    """
    rows = server_notifications(call.server.offer, method)
    if not rows:
        raise DefinitionError(f"No extension of the server {call.server.name!r} has the notification {method!r}")
    caller = call.request.caller
    here = [row for row in rows if row.exists_in(caller.version)]
    # Where both sides declare the extension, a notification is only for clients that did.
    return any(row.capability != row.declared or declares(caller.capabilities, row.capability) for row in here)
