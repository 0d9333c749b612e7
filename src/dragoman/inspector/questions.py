"""`Questions`: what servers ask a person: sampling, elicitations, and approvals of the inspector's own calls.

A question waits until the page answers it, a scripted rule answers it, or the server withdraws it. A rule answers
without asking. The page's answer is checked before the question ends, so a wrong one can be corrected.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable, Sequence
from itertools import count
from typing import Any, Literal

import msgspec
from msgspec import Struct

from dragoman import types
from dragoman.client.answer.approval import Approval
from dragoman.client.answer.elicitation import Accept, Cancel, Decline, ElicitationRequest
from dragoman.client.answer.sampling import SamplingRequest
from dragoman.errors import DragomanError, InspectorError, Rejected, ValidationError
from dragoman.inspector.events import Events

QuestionKind = Literal["sampling", "elicitation", "url", "approval"]
MAX_WAITING = 200
PERSON = "inspector"
"""The name of the model if a person answers."""


class Answer(Struct):
    """The answer of a person or a rule."""

    action: Literal["accept", "decline", "cancel", "model"] = "accept"
    content: dict[str, Any] | None = None
    text: str | None = None
    result: dict[str, Any] | None = None
    model: str | None = None
    reason: str | None = None


class AnswerRule(Struct):
    """Answers the questions of a kind whose text matches a regular expression."""

    kind: QuestionKind
    answer: Answer
    match: str = ""

    def fits(self, question: Question) -> bool:
        """Tell whether the rule answers a question."""
        return self.kind == question.kind and re.search(self.match, question.words) is not None


class Question(Struct):
    """A question that waits."""

    id: str
    server: str
    kind: QuestionKind
    params: dict[str, Any]
    asked: float

    @property
    def words(self) -> str:
        """The text that rules look at."""
        found = self.params.get("message") or self.params.get("name")
        return str(found or msgspec.json.encode(self.params.get("messages"), enc_hook=str).decode())


class _Waiting(Struct):
    question: Question
    check: Callable[[Answer], Any]
    answered: asyncio.Future[Any]


class Questions:
    """The questions of all servers."""

    def __init__(self, events: Events) -> None:
        self._events = events
        self._ids = count(1)
        self._waiting: dict[str, _Waiting] = {}

    def all(self) -> list[Question]:
        """Return the questions that wait, the oldest first."""
        return [waiting.question for waiting in self._waiting.values()]

    async def answer(self, id: str, answer: Answer) -> None:
        """Answer a question.

        Raises:
            InspectorError: the question does not wait, or the answer does not fit it.
        """
        waiting = self._waiting.get(id)
        if waiting is None:
            raise InspectorError(f"The question {id} does not wait for an answer", 404)
        try:
            value = await _checked(waiting.check, answer)
        except (ValidationError, msgspec.ValidationError) as error:
            raise InspectorError(f"The answer does not fit: {error}") from None
        if not waiting.answered.done():
            self._events.push("answered", question=id, by="page", action=answer.action)
            waiting.answered.set_result(value)

    async def ask(
        self,
        server: str,
        kind: QuestionKind,
        params: dict[str, Any],
        check: Callable[[Answer], Any],
        rules: Sequence[AnswerRule] = (),
    ) -> Any:
        """Return what `check` makes of the answer to a question."""
        question = Question(f"q{next(self._ids)}", server, kind, params, time.time())
        rule = next((rule for rule in rules if rule.fits(question)), None)
        if rule is not None:
            self._events.push("answered", question=question.id, by="script", action=rule.answer.action)
            return await _checked(check, rule.answer)
        if len(self._waiting) >= MAX_WAITING:
            raise InspectorError(f"{MAX_WAITING} questions wait already; answer them first", 409)
        waiting = _Waiting(question, check, asyncio.get_running_loop().create_future())
        self._waiting[question.id] = waiting
        self._events.push("question", question=question)
        try:
            return await waiting.answered
        except asyncio.CancelledError:
            self._events.push("answered", question=question.id, by="server", action="cancel")
            raise
        finally:
            del self._waiting[question.id]


async def _checked(check: Callable[[Answer], Any], answer: Answer) -> Any:
    value = check(answer)
    return await value if asyncio.iscoroutine(value) else value


def elicitation_params(request: ElicitationRequest) -> dict[str, Any]:
    """Return the parameters of an elicitation as on the wire."""
    if request.mode == "url":
        return {"mode": "url", "message": request.message, "url": request.url, "elicitationId": request.elicitation_id}
    return {"mode": "form", "message": request.message, "requestedSchema": request.schema}


def elicitation_answer(request: ElicitationRequest, answer: Answer) -> Any:
    """Return what an answer to an elicitation means; raises a `ValidationError` if it does not fit."""
    if answer.action != "accept":
        return Decline() if answer.action == "decline" else Cancel()
    if request.mode == "url":
        return Accept()
    content = request.apply_defaults(answer.content or {})
    request.validate(content)
    return Accept(content)


def sampling_params(request: SamplingRequest) -> dict[str, Any]:
    """Return the parameters of a sampling request as on the wire."""
    built = {name: getattr(request, name) for name in request.__struct_fields__ if name not in ("server", "model")}
    return {_camel(name): msgspec.to_builtins(value) for name, value in built.items() if value is not None}


async def sampling_answer(request: SamplingRequest, answer: Answer) -> types.CreateMessageResult | Rejected:
    """Return what an answer to a sampling request means; a model may give the result."""
    if answer.action == "model":
        return await _sampled(request, answer.model or "")
    if answer.action != "accept":
        return Rejected(answer.reason or "The person at the inspector declined")
    if answer.result is not None:
        given = {"role": "assistant", "model": PERSON, **answer.result}
        return types.decode(msgspec.json.encode(given), types.CreateMessageResult)
    content = types.TextContent(text=answer.text or "")
    return types.CreateMessageResult(role="assistant", content=content, model=PERSON, stop_reason="endTurn")


async def _sampled(request: SamplingRequest, name: str) -> types.CreateMessageResult:
    from dragoman.chat.messages import ModelOptions
    from dragoman.chat.models.selection import ChatModels
    from dragoman.chat.sampler import sample

    try:
        models = ChatModels(name)
        try:
            return await sample(request, models.own, ModelOptions(), lambda _: None)
        finally:
            await models.close()
    except (DragomanError, ImportError, ValueError) as error:
        raise InspectorError(f"The model {name!r} gave no answer: {error}", 502) from None


def approval_answer(approval: Approval, answer: Answer) -> bool:
    """Return whether an answer approves of a call."""
    if answer.action == "accept":
        return approval.approve()
    approval.deny(answer.reason or "the person at the inspector declined")
    return False


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(map(str.capitalize, rest))
