"""Asking the client while a request is served, the same in both eras.

Handshake: a question is a request over the session, and its answer is awaited. Stateless: a question without a recorded
answer ends the run. The handler's own task is cancelled once, one turn of the loop later, so that questions asked in
parallel join one round; cancellation passes `except Exception`, timeouts, gather and task groups. The request is then
answered `input_required`, and when it comes again with the answers the handler runs from its start. A blocking handler
is ended by an exception that is no `Exception`. Whatever a handler makes of either, what is asked stays asked.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Raw

from dragoman import types
from dragoman.errors import (
    Cancelled,
    DefinitionError,
    DragomanError,
    InternalError,
    MissingCapability,
    UrlElicitationRequired,
    ValidationError,
)
from dragoman.protocol.fields import trim
from dragoman.protocol.jsonrpc import encode
from dragoman.runtime.callables import invoke
from dragoman.schema.python.annotations import Codec
from dragoman.server.request.call import Call
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

if TYPE_CHECKING:
    import asyncio

    from dragoman.protocol.rounds import Rounds

TIMEOUT = 600.0
_JSON = frozenset({dict, list, str, int, float, bool, type(None)})
"""The types that come back from JSON as they were."""
Answers = Mapping[str, Any]


class Asking:
    """The questions and answers of one request."""

    def __init__(self, call: Call) -> None:
        self._call = call
        self._stateless = call.request.caller.version.stateless
        self._parked: list[asyncio.Future[None]] = []
        self._stopping = False
        self._over = False
        self._rounds: Rounds | None = None
        self._runs = 0
        self._fulfilled: dict[str, Raw] = {}
        self._steps: dict[str, Raw] = {}
        self._state: Raw | None = None

    @property
    def rounds(self) -> Rounds:
        """What was asked and answered in earlier rounds (stateless).

        Raises:
            InvalidParams: the client sent a state that is not that of this request.
        """
        if self._rounds is None:
            # Sealing needs hashlib, which most servers never load.
            from dragoman.protocol.rounds import RequestBinding, Rounds

            request, principal = self._call.request, self._call.principal
            subject = RequestBinding.of(
                request.method.name, request.raw_params, principal, server=self._call.server.name
            )
            responses = getattr(request.params, "input_responses", None)
            state = getattr(request.params, "request_state", None)
            self._rounds = Rounds.resume(subject, self._call.server.key_ring, time.time(), responses, state)
        return self._rounds

    @property
    def pending(self) -> bool:
        """Whether something was asked that has no answer yet."""
        return self._rounds is not None and self._rounds.pending

    @property
    def stops(self) -> bool:
        """Whether a question ends the run just now."""
        return self._stopping

    @property
    def inputs(self) -> Answers:
        """The answers so far, by key, as the client sent them."""
        answers = self.rounds.inputs if self._stateless else self._fulfilled
        return {key: msgspec.json.decode(raw) for key, raw in answers.items()}

    @property
    def state(self) -> Any:
        """What the handler gave as its state in an earlier run."""
        raw = self.rounds.state if self._stateless else self._state
        return None if raw is None else msgspec.json.decode(raw)

    def require(self, questions: Iterable[Question]) -> None:
        """Refuse questions that cannot be asked here.

        Raises:
            MissingCapability: the client did not declare what they need; it names all that is missing.
            Cancelled: the client gave the request up, and will not answer.
            DragomanError: the method is none in which a server may ask, or the request is answered already.
        """
        method = self._call.request.method
        if self._call.cancelled:
            raise Cancelled("The client cancelled the request")
        if self._stateless and not method.input_required:
            raise DragomanError(f"A handler of {method.name} cannot ask the client")
        if self._stateless and self._over:
            raise DragomanError(f"The request {method.name} is answered: its client cannot be asked any more")
        require_capabilities(self._call, [path for question in questions for path in question.capabilities])

    def _recorded(self, questions: Mapping[str | None, Question], key: str | None = None) -> list[Any] | None:
        """Return the recorded answers, or None when something must be asked first (stateless)."""
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
        """Ask all at once, and return the answers in order; a handler in a thread does not park, but ends its run."""
        self.require(questions.values())
        if self._stateless:
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
                self._call.session.elicited(question.elicitation_id)
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
            # When one fails, nobody waits for the others: their requests are taken back.
            for task in tasks:
                task.cancel()

    async def _park(self) -> None:
        import asyncio

        if self._stopping:
            # Asked while the handler is being ended, as in `finally`: it is noted, and there is nothing to wait for.
            raise asyncio.CancelledError
        loop = asyncio.get_running_loop()
        parked: asyncio.Future[None] = loop.create_future()
        self._parked.append(parked)
        loop.call_soon(self._stop)
        await parked

    def _stop(self) -> None:
        task = self._call.task
        if task is not None and not self._stopping and not self._call.cancelled and not self._over:
            self._stopping = True
            task.cancel()

    async def step(self, name: str, run: Callable[[], Any], kind: type[Any] | None = None) -> Any:
        """Run something once for the whole request, however often the handler runs."""
        raw = self.recorded_step(name)
        if raw is None:
            raw = self.record_step(name, await invoke(run, in_place=True), kind)
        return self.step_value(raw, kind)

    def recorded_step(self, name: str) -> Raw | None:
        """Return what a step gave in an earlier run."""
        return self.rounds.step(name) if self._stateless else self._steps.get(name)

    def step_value(self, raw: Raw, kind: type[Any] | None) -> Any:
        """Return what a step gave, of its type.

        Raises:
            ValidationError: it does not fit the type.
        """
        value = msgspec.json.decode(raw)
        return value if kind is None else Codec(kind, "The result_type of a step").convert(value)

    def record_step(self, name: str, value: Any, kind: type[Any] | None = None) -> Raw:
        """Keep what a step gave.

        Raises:
            ValidationError: it cannot be JSON.
            TypeError: it would come back as something else, because nobody says of which type it is.
        """
        if kind is None and type(value) not in _JSON:
            raise TypeError(
                f"The step {name!r} gave a {type(value).__name__}, which JSON does not have: say which type it is read"
                f" back as, step({name!r}, ..., result_type={type(value).__name__})"
            )
        raw = Raw(encode(value))
        if self._stateless:
            self.rounds.record(name, raw)
        else:
            self._steps[name] = raw
        return raw

    def pages_to_visit(self, wanted: list[Page]) -> dict[str, ElicitUrl]:
        """Return the questions for pages, by key (stateless), without those that the user was asked to visit before.

        Consent is not the end of a visit: whoever agreed once would only be asked the same again. An author may make up
        the query of a URL anew in each run, so it does not count.
        """
        questions: dict[str, ElicitUrl] = {}
        number = 1
        for page in wanted:
            step = f"visited {page.url.partition('?')[0]}"
            if self.recorded_step(step) is None:
                while f"url-{number}" in self.rounds.inputs or f"url-{number}" in questions:
                    number += 1
                questions[f"url-{number}"] = ElicitUrl(page.message, page.url)
        for page in wanted:
            self.record_step(f"visited {page.url.partition('?')[0]}", value=True)
        return questions

    def ended(self, error: BaseException | None) -> bool:
        """Tidy up after a run; tell whether it was ended by a question rather than by what it raised."""
        import asyncio

        for parked in self._parked:
            parked.cancel()
        self._parked.clear()
        self._over = self._stateless
        stopped, self._stopping = self._stopping, False
        if stopped and self._call.task is not None:
            self._call.task.uncancel()
        return isinstance(error, RunEnded) or (stopped and isinstance(error, asyncio.CancelledError))

    def required(self, value: InputRequired | None = None) -> types.InputRequiredResult:
        """Return the result that asks (stateless): what was asked on the way, or what the handler returned.

        Raises:
            RpcError: too much was asked, or too large a state kept.
        """
        try:
            if value is None:
                return self.rounds.required()
            require_capabilities(self._call, value.capabilities)
            for key, question in value.questions.items():
                self.rounds.ask_again(question.request(), key)
            return self.rounds.required(value.state)
        except ValidationError as error:
            raise InternalError(str(error)) from None

    async def fulfil(self, value: InputRequired) -> None:
        """Ask over the session what a handler returned, so that it can run again (handshake)."""
        from dragoman.protocol.rounds import MAX_ROUNDS

        self._runs += 1
        if self._runs > MAX_ROUNDS:
            raise InternalError(f"A request may ask in at most {MAX_ROUNDS} rounds")
        self.require(value.questions.values())
        raws = await self._request_all(value.questions.values(), TIMEOUT) if value.questions else []
        self._fulfilled.update(zip(value.questions, raws, strict=True))
        self._state = Raw(encode(value.state))


RUN_AGAIN = object()
"""What a run comes to that asked and was answered over the session: the handler is to run again."""


async def settle(call: Call, value: Any, failed: BaseException | None) -> Any:
    """Return what a run of a handler comes to: its value, the result that asks the client, or `RUN_AGAIN`.

    Raises:
        BaseException: the run failed, and not because of a question.
    """
    may_ask = call.request.method.input_required
    if failed is not None and may_ask:
        value, failed = _failed(call, failed)
    if not may_ask or (call.asking is None and not isinstance(value, InputRequired)):
        if failed is not None:
            raise failed
        return value
    asking = asking_of(call)
    by_question = asking.ended(failed)
    if failed is not None and call.is_given_up_by(failed):
        raise failed
    if asking.pending:
        return asking.required()
    if failed is not None and not by_question:
        raise failed
    if not isinstance(value, InputRequired):
        return value
    if call.request.caller.version.stateless:
        return asking.required(value)
    await asking.fulfil(value)
    return RUN_AGAIN


def _failed(call: Call, error: BaseException) -> tuple[InputRequired | None, BaseException | None]:
    """Return what a failure asks for, or the failure: the stateless era has no error for pages to visit, and asks."""
    if not isinstance(error, UrlElicitationRequired):
        return None, error
    try:
        checked = checked_elicitations(error)
    except DefinitionError as misfit:
        return None, misfit
    if call.request.caller.version.stateless:
        questions = asking_of(call).pages_to_visit(pages(checked))
        if questions:
            return InputRequired(questions), None
    for entry in checked.elicitations:
        call.session.elicited(entry["elicitationId"])
    return None, checked


def explanation(call: Call, error: BaseException) -> str | None:
    """Return what to say of an error that is about the client and that its version has no code for, or None."""
    said = call.client_error(error)
    if said is not None:
        return said
    if not isinstance(error, MissingCapability | UrlElicitationRequired):
        return None
    if error.code not in dict(call.request.caller.version.replaced_errors):
        return None
    visited = pages(error) if isinstance(error, UrlElicitationRequired) else []
    return "\n".join([error.message, *(f"{page.message} {page.url}" for page in visited)])


def asking_of(call: Call) -> Asking:
    """Return the questions and answers of a request."""
    if call.asking is None:
        call.asking = Asking(call)
    return call.asking


def require_capabilities(call: Call, paths: Iterable[Capability]) -> None:
    """Refuse what the client cannot do.

    Raises:
        MissingCapability: the client did not declare some of the capabilities; it names them all.
    """
    required: types.Json = {}
    for path in paths:
        if not _declares(call.request.caller.capabilities, path):
            level = required
            for name in path:
                level = level.setdefault(name, {})
    if required:
        raise MissingCapability(required)


def require_capability(call: Call, *path: str) -> None:
    """Refuse the request if the client did not declare a capability.

    Raises:
        MissingCapability: it did not.
    """
    require_capabilities(call, [path])


def _declares(capabilities: types.ClientCapabilities, path: tuple[str, ...]) -> bool:
    if path == ("elicitation", "form"):
        declared = capabilities.elicitation
        # An empty object means form mode, as it did before there was another.
        return declared is not None and (declared.form is not None or declared.url is None)
    from dragoman.protocol.methods import declares

    return declares(capabilities, path)
