"""Asking in several round trips (2026-07-28).

A server that needs input answers `input_required` and forgets; the client answers and sends the request again, and the
handler runs once more from its start. What was answered in earlier rounds travels in `requestState`, which is sealed
and bound to the server, the method, the parameters, the principal and an expiry. `Rounds` is one such run: the handler
asks, and is given the recorded answer or, where there is none, has its question noted for the next round. Answers are
found by key; a key is the kind and order of the question unless the author gives one, and an answer holds only for the
question's schema, not for the words of its message.
"""

from __future__ import annotations

import hashlib
from typing import Any

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from dragoman import types
from dragoman.errors import InvalidParams, ValidationError
from dragoman.protocol.jsonrpc import encode
from dragoman.protocol.tokens import KeyRing, digest

MAX_ROUNDS = 10
MAX_STATE_BYTES = 64 * 1024
LIFETIME = 600
_CHANGING = frozenset({"_meta", "inputResponses", "requestState"})
_KINDS = {types.ElicitRequest: "elicit", types.CreateMessageRequest: "sample", types.ListRootsRequest: "roots"}


class _Answer(Struct, array_like=True):
    fingerprint: str | None
    value: Raw


class _State(Struct, array_like=True):
    method: str
    params: str
    principal: bytes
    expires: int
    round: int
    answers: dict[str, _Answer]
    asked: dict[str, str]
    steps: dict[str, Raw]
    author: Raw


_decoder = msgspec.json.Decoder(_State)
_object = msgspec.json.Decoder(types.Json)
_sorted = msgspec.json.Encoder(order="sorted")
_NULL = Raw(b"null")


class RequestBinding(Struct, frozen=True):
    """The request that a state belongs to: it opens for no other."""

    method: str
    params: str
    principal: bytes
    server: str

    @classmethod
    def of(cls, method: str, params: Raw, principal: str | None, *, server: str) -> RequestBinding:
        """Return the subject of a request; what changes from round to round does not count.

        Raises:
            InvalidParams: the parameters are not a JSON object.
        """
        try:
            every = _object.decode(params)
            salient = _sorted.encode({name: value for name, value in every.items() if name not in _CHANGING})
        except (ValueError, RecursionError) as error:
            raise InvalidParams(f"Invalid parameters for {method}: {error}") from None
        return cls(method, hashlib.sha256(salient).hexdigest()[:32], digest(principal), server)


class Rounds:
    """The questions and answers of one request.

    Example:
        rounds = Rounds.resume(subject, ring, now, params.input_responses, params.request_state)
        answer = rounds.ask(ElicitRequest(ElicitRequestParams("Which city?", requested_schema=schema)))
        if answer is None:
            return rounds.required()
    """

    def __init__(self, subject: RequestBinding, ring: KeyRing, now: float) -> None:
        self._subject = subject
        self._ring = ring
        self._now = now
        self._round = 0
        self._answers: dict[str, _Answer] = {}
        self._steps: dict[str, Raw] = {}
        self._asked: dict[str, types.InputRequest] = {}
        self._used: set[str] = set()
        self.state: Raw = _NULL

    @classmethod
    def resume(
        cls,
        subject: RequestBinding,
        ring: KeyRing,
        now: float,
        responses: dict[str, Raw] | None = None,
        request_state: str | None = None,
    ) -> Rounds:
        """Take up a request where its state left it.

        Raises:
            InvalidParams: the state is forged, changed, outdated, or that of another server, request or principal.
        """
        rounds = cls(subject, ring, now)
        asked: dict[str, str] | None = None
        if request_state is not None:
            state = rounds._open(request_state)
            rounds._round, rounds._answers, rounds._steps, rounds.state = (
                state.round,
                state.answers,
                state.steps,
                state.author,
            )
            asked = state.asked
        for key, value in (responses or {}).items():
            # SHOULD (2026-07-28): "Ignore unknown/unneeded InputResponses keys"; without a state any key may be known.
            if asked is None or key in asked:
                rounds._answers[key] = _Answer(asked[key] if asked else None, value)
        return rounds

    def _open(self, request_state: str) -> _State:
        state = self._decode(request_state)
        if (
            state is None
            or state.expires < self._now
            or (state.method, state.params, state.principal)
            != (self._subject.method, self._subject.params, self._subject.principal)
        ):
            raise InvalidParams("Invalid or expired requestState; send the request again without it")
        return state

    def _decode(self, request_state: str) -> _State | None:
        payload = self._ring.open(self._purpose, request_state)
        try:
            return None if payload is None else _decoder.decode(payload)
        except (ValueError, RecursionError):
            # A release with other fields, which has the same key, may have sealed it.
            return None

    @property
    def _purpose(self) -> str:
        return f"requestState {self._subject.server}"

    @property
    def inputs(self) -> dict[str, Raw]:
        """Every answer so far, by key."""
        return {key: answer.value for key, answer in self._answers.items()}

    @property
    def pending(self) -> bool:
        """Whether something was asked that has no answer yet."""
        return bool(self._asked)

    def ask(self, request: types.InputRequest, key: str | None = None) -> Raw | None:
        """Return the answer to a question; None when it must be asked, which `required` will do.

        Raises:
            ValidationError: two questions of one run have the same key, or the schema cannot be JSON.
        """
        key = self._claim_key(_KINDS[type(request)], key)
        answer = self._answers.get(key)
        if answer is not None and answer.fingerprint in (None, fingerprint(request)):
            return answer.value
        self._asked[key] = request
        return None

    def ask_again(self, request: types.InputRequest, key: str) -> None:
        """Ask even if there is an answer: its author has seen it in `inputs` and wants another.

        Raises:
            ValidationError: as in `ask`.
        """
        self._answers.pop(key, None)
        self.ask(request, key)

    def step(self, name: str) -> Raw | None:
        """Return what a step of that name gave in an earlier round, if it ran."""
        return self._steps.get(name)

    def record(self, name: str, value: Any) -> None:
        """Keep what a step gave, so that it does not run again.

        Raises:
            ValidationError: it cannot be JSON.
        """
        self._steps[name] = Raw(encode(value))

    def required(self, state: Any | UnsetType = UNSET) -> types.InputRequiredResult:
        """Return the result that asks the client; `state` is the author's own, and the earlier one if there is none.

        Raises:
            ValidationError: the state has more than 64 KiB or cannot be JSON, or the request has been sent back ten
                times.
        """
        if self._round >= MAX_ROUNDS:
            raise ValidationError(f"A request may ask in at most {MAX_ROUNDS} rounds")
        asked = {key: fingerprint(request) for key, request in self._asked.items()}
        sealed = self._seal(asked, self.state if state is UNSET else Raw(encode(state)))
        return types.InputRequiredResult(input_requests=dict(self._asked) or None, request_state=sealed)

    def _seal(self, asked: dict[str, str], author: Raw) -> str:
        subject = self._subject
        state = _State(
            subject.method,
            subject.params,
            subject.principal,
            int(self._now) + LIFETIME,
            self._round + 1,
            self._answers,
            asked,
            self._steps,
            author,
        )
        sealed = self._ring.seal(self._purpose, encode(state))
        if len(sealed) > MAX_STATE_BYTES:
            raise ValidationError(
                f"The request's state has {len(sealed)} bytes; at most {MAX_STATE_BYTES} travel: keep large values on"
                " the server and record a handle"
            )
        return sealed

    def _claim_key(self, kind: str, key: str | None) -> str:
        if key is None:
            order = 1
            while f"{kind}-{order}" in self._used:
                order += 1
            key = f"{kind}-{order}"
        elif key in self._used:
            raise ValidationError(f"Two questions of one request have the key {key!r}; give each its own")
        self._used.add(key)
        return key


def fingerprint(request: types.InputRequest) -> str:
    """Return what an answer is bound to: the kind of the question and its schema, but not its words."""
    binding: list[Any] = [_KINDS[type(request)]]
    if isinstance(request, types.ElicitRequest):
        binding += [request.params.mode or "form", request.params.requested_schema, request.params.url]
    return hashlib.sha256(_sorted.encode(msgspec.json.decode(encode(binding)))).hexdigest()[:16]
