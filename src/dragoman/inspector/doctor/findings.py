"""`Findings`: what an examination of a server found, one for each step."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field

from dragoman.compose.masking import Masks

if TYPE_CHECKING:
    from dragoman.auth.fetcher import FetchedExchange

MAX_BODY = 4_000


class ShownRequest(Struct):
    """A request of an exchange, with its secrets masked."""

    method: str
    url: str
    headers: list[tuple[str, str]]
    body: str


class ShownResponse(Struct):
    """A response of an exchange, with its secrets masked."""

    status: int
    headers: list[tuple[str, str]]
    body: str


class ShownExchange(Struct):
    """A request and its response, as a person may see them."""

    request: ShownRequest
    response: ShownResponse | None
    ms: float
    failure: str | None = None

    @classmethod
    def of(cls, exchange: FetchedExchange) -> ShownExchange:
        """Return an exchange with its secrets masked."""
        masks = Masks(("code", "client_id", "dpop", "registration_access_token"))
        headers, received = masks.headers(exchange.headers), masks.headers(exchange.received_headers or {})
        request = ShownRequest(exchange.method, masks.url(exchange.url), headers, _body(masks, exchange.sent))
        response = None
        if exchange.status is not None:
            response = ShownResponse(exchange.status, received, _body(masks, exchange.received))
        failure = "there was no answer" if response is None else None
        return cls(request, response, round(exchange.seconds * 1000, 1), failure)


def _body(masks: Masks, data: bytes) -> str:
    return masks.message(data)[:MAX_BODY].decode("utf-8", "replace")


class Finding(Struct, frozen=True, omit_defaults=True):
    """The result of one step: whether it passed, and the remedy if not."""

    step: str
    ok: bool
    detail: str
    remedy: str | None = None
    remark: bool = False
    """Whether the step passed with a shortcoming."""
    server: str | None = None
    rule: str | None = None
    """What says how the step must be."""
    exchanges: list[ShownExchange] = field(default_factory=list)


class Findings:
    """The findings so far; `on_finding` gets each as soon as it is added."""

    def __init__(self, on_finding: Callable[[Finding], object]) -> None:
        self._on_finding = on_finding
        self.server: str | None = None
        self._is_own = True
        self.all: list[Finding] = []

    @property
    def all_passed(self) -> bool:
        """Whether no step failed."""
        return all(finding.ok for finding in self.all)

    @property
    def has_remarks(self) -> bool:
        """Whether a step passed with a shortcoming."""
        return any(finding.remark for finding in self.all)

    def begin(self, server: str, *, is_own: bool) -> None:
        """Begin the findings of a server; `is_own` says whether the user can change the server."""
        self.server = server
        self._is_own = is_own

    def passed(self, step: str, detail: str, **more: Any) -> None:
        """Add a step that passed; `more` are `rule` and `exchanges`."""
        self._add(step, detail, ok=True, **more)

    def failed(self, step: str, detail: str, remedy: str | None = None, **more: Any) -> None:
        """Add a step that failed."""
        self._add(step, detail, ok=False, remedy=remedy, **more)

    def shortcoming(self, step: str, detail: str, remedy: str | None = None) -> None:
        """Add a shortcoming of the server: a failure if the user can change the server, else a remark."""
        self._add(step, detail, ok=not self._is_own, remedy=remedy, remark=not self._is_own)

    def _add(self, step: str, detail: str, **more: Any) -> None:
        finding = Finding(one_line(step), detail=one_line(detail), server=self.server, **more)
        self.all.append(finding)
        self._on_finding(finding)


def one_line(text: str) -> str:
    """Return a text without line ends."""
    return " ".join(text.split())
