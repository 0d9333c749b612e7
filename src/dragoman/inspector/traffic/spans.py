"""`Spans`: which messages belong together: the rounds of one call, the polls of one task, a stream.

A request begins a span, unless it goes on with one. It goes on with the span of

    the request that got `input_required`, if it has the same method and name, and answers or state
    the task that it names

A response has the span of its request, progress that of its token, and a notification of a subscription that of
`subscriptions/listen`. Any other message that came in the response to an HTTP request has the span of that request.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType, field

from dragoman import types

if TYPE_CHECKING:
    from dragoman.inspector.traffic.rows import Row

MAX_SPANS = 20_000
MAX_MARKS = 500
LISTEN = "subscriptions/listen"


class _Params(Struct, rename="camel"):
    name: Any = None
    uri: Any = None
    task_id: Any = None
    progress_token: Any = None
    request_state: Any = None
    input_responses: Raw | UnsetType = UNSET
    meta: Any = field(default=None, name="_meta")


class _Task(Struct, rename="camel"):
    task_id: Any = None


class _Result(Struct, rename="camel"):
    result_type: Any = None
    is_error: Any = None
    task_id: Any = None
    task: _Task | None = None


class _Error(Struct):
    message: Any = None
    code: Any = None


class MessageFacts(Struct):
    """What a message says that joins it with others."""

    label: str | None = None
    task: str | None = None
    token: Any = None
    """The token of progress: requested, or reported."""
    subscription: Any = None
    goes_on: bool = False
    """Whether a request answers an `input_required` result."""
    asks: bool = False
    """Whether a result is `input_required`."""
    error: str | None = None

    @classmethod
    def of(cls, params: Raw | UnsetType, result: Raw | UnsetType, error: Raw | UnsetType) -> MessageFacts:
        """Return the facts of a message; parts of an unexpected form have none."""
        facts = cls()
        if params is not UNSET and (sent := _read(params, _Params)) is not None:
            meta = sent.meta if isinstance(sent.meta, dict) else {}
            facts.label, facts.task = _text(sent.name) or _text(sent.uri), _text(sent.task_id)
            facts.token = sent.progress_token if sent.progress_token is not None else meta.get("progressToken")
            facts.subscription = _id(meta.get(types.SUBSCRIPTION_ID))
            facts.goes_on = sent.request_state is not None or sent.input_responses is not UNSET
        if result is not UNSET and (given := _read(result, _Result)) is not None:
            facts.task = _text(given.task_id) or (_text(given.task.task_id) if given.task else None)
            facts.asks = given.result_type == "input_required"
            facts.error = "the tool failed" if given.is_error is True else None
        if error is not UNSET and (failed := _read(error, _Error)) is not None:
            facts.error = f"{failed.message} ({failed.code})"
        return facts


def _read(raw: Raw, kind: Any) -> Any:
    try:
        return msgspec.json.decode(raw, type=kind)
    except (msgspec.DecodeError, RecursionError):
        return None


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _id(value: Any) -> Any:
    return value if isinstance(value, int | str) else None


class SpanMark(Struct):
    """One message of a span, for the time line."""

    number: int
    time: float
    what: str | None


class Span(Struct):
    """Messages that belong together."""

    span: str
    kind: Literal["call", "task", "stream"]
    method: str | None
    label: str | None
    server: str
    begin: float
    end: float | None = None
    rounds: int = 0
    messages: int = 0
    error: str | None = None
    marks: list[SpanMark] = field(default_factory=list)


class Spans:
    """The spans of all servers."""

    def __init__(self) -> None:
        self._spans: dict[str, Span] = {}
        self._keys: dict[tuple[Any, ...], str] = {}
        """The spans by what messages name: a task, a token, an exchange, or a call that was asked for input."""

    def all(self) -> list[Span]:
        """Return the spans, the oldest first."""
        return list(self._spans.values())

    def is_task(self, id: str | None) -> bool:
        """Tell whether a span is that of a task."""
        return id in self._spans and self._spans[id].kind == "task"

    def tasks(self, server: str) -> list[str]:
        """Return the ids of the tasks of a server, the oldest first."""
        return [key[2] for key in self._keys if key[:2] == (server, "task")]

    def clear(self, server: str | None) -> None:
        """Forget all spans, or those of one server."""
        self._spans = {id: span for id, span in self._spans.items() if server not in (None, span.server)}
        self._keys = {key: id for key, id in self._keys.items() if id in self._spans}

    def join(self, row: Row, facts: MessageFacts, of_request: str | None) -> str | None:
        """Return the span of a message; `of_request` is that of the request or subscription that it belongs to."""
        known = of_request or self._known(row, facts)
        if known not in self._spans:
            if row.what != "request":
                return None
            known = self._begin(row, facts)
        self._note(self._spans[known], row, facts)
        return known

    def _known(self, row: Row, facts: MessageFacts) -> str | None:
        found, known, server = None, self._keys.get, row.server
        if facts.task is not None:
            found = known((server, "task", facts.task))
        if found is None and facts.goes_on and row.what == "request":
            found = known((server, "asked", row.method, facts.label))
        if found is None and facts.token is not None and row.what == "notification":
            found = known((server, "token", str(facts.token)))
        if found is None and row.exchange is not None and row.sender == "server":
            found = known((server, "exchange", row.exchange))
        return found

    def _begin(self, row: Row, facts: MessageFacts) -> str:
        is_task = facts.task is not None
        id = f"{'t' if is_task else 'c'}{row.number}"
        kind: Literal["call", "task", "stream"] = "task" if is_task else "stream" if row.method == LISTEN else "call"
        self._spans[id] = Span(id, kind, row.method, facts.label or facts.task, row.server, row.time)
        if len(self._spans) > MAX_SPANS:
            kept = list(self._spans)[MAX_SPANS // 10 :]
            self._spans = {one: self._spans[one] for one in kept}
            self._keys = {key: one for key, one in self._keys.items() if one in self._spans}
        return id

    def _note(self, span: Span, row: Row, facts: MessageFacts) -> None:
        """Add a message to a span, and remember what later messages may name."""
        span.messages += 1
        span.error = facts.error or span.error
        if len(span.marks) < MAX_MARKS:
            span.marks.append(SpanMark(row.number, row.time, row.what))
        if row.what == "request":
            span.rounds += 1
            span.end = None
            if facts.token is not None:
                self._keys[row.server, "token", str(facts.token)] = span.span
            if row.exchange is not None:
                self._keys[row.server, "exchange", row.exchange] = span.span
        elif row.what == "response":
            span.end = row.time
        if facts.task is not None:
            span.kind = "task"
            self._keys[row.server, "task", facts.task] = span.span
        if facts.asks:
            self._keys[row.server, "asked", span.method, span.label] = span.span
