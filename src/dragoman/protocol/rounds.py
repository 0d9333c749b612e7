"""Multi-round-trip requests (2026-07-28): input requests, recorded answers and the sealed `requestState`.

A server that needs input returns `input_required` and keeps nothing. The client sends the request again with the
answers, and the handler runs again from its start. `requestState` carries the answers of earlier rounds. The server
seals it and binds it to the server, the method, the parameters, the principal and a time of expiry.

A `Rounds` serves one run of the handler. When the handler asks a question, `ask` returns the recorded answer. If there
is none, `ask` adds the question to the next `input_required`. Each question has a key: its kind and its order, unless
the author gives one. An answer is valid only for a question with the same schema; the text of the question may change.
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
_CHANGES_BETWEEN_ROUNDS = frozenset({"_meta", "inputResponses", "requestState"})
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
    """The request, principal and server that a `requestState` is bound to."""

    method: str
    params: str
    principal: bytes
    server: str

    @classmethod
    def of(cls, method: str, params: Raw, principal: str | None, *, server: str) -> RequestBinding:
        """Return the binding of a request; parameters that change between rounds are not part of it.

        Raises:
            InvalidParams: the parameters are not a JSON object.
        """
        try:
            every = _object.decode(params)
            salient = _sorted.encode(
                {name: value for name, value in every.items() if name not in _CHANGES_BETWEEN_ROUNDS}
            )
        except (ValueError, RecursionError) as error:
            raise InvalidParams(f"Invalid parameters for {method}: {error}") from None
        return cls(method, hashlib.sha256(salient).hexdigest()[:32], digest(principal), server)


class Rounds:
    """The questions and answers of one request.

    Example:
        rounds = Rounds.resume(binding, ring, now, params.input_responses, params.request_state)
        answer = rounds.ask(ElicitRequest(ElicitRequestParams("Which city?", requested_schema=schema)))
        if answer is None:
            return rounds.required()
    """

    def __init__(self, binding: RequestBinding, ring: KeyRing, now: float) -> None:
        self._binding = binding
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
        binding: RequestBinding,
        ring: KeyRing,
        now: float,
        responses: dict[str, Raw] | None = None,
        request_state: str | None = None,
    ) -> Rounds:
        """Return the rounds of a request with the answers of earlier rounds and of this one.

        Raises:
            InvalidParams: the state is forged, changed, expired, or bound to another request, principal or server.
        """
        rounds = cls(binding, ring, now)
        asked: dict[str, str] | None = None
        if request_state is not None:
            opened = rounds._open(request_state)
            rounds._round, rounds._answers, rounds._steps = opened.round, opened.answers, opened.steps
            rounds.state, asked = opened.author, opened.asked
        for key, value in (responses or {}).items():
            # SHOULD (2026-07-28): "Ignore unknown/unneeded InputResponses keys"; without a state every key is accepted.
            if asked is None or key in asked:
                rounds._answers[key] = _Answer(asked[key] if asked else None, value)
        return rounds

    def _open(self, request_state: str) -> _State:
        state = self._decode(request_state)
        if (
            state is None
            or state.expires < self._now
            or (state.method, state.params, state.principal)
            != (self._binding.method, self._binding.params, self._binding.principal)
        ):
            raise InvalidParams("Invalid or expired requestState; send the request again without it")
        return state

    def _decode(self, request_state: str) -> _State | None:
        payload = self._ring.open(self._purpose, request_state)
        try:
            return None if payload is None else _decoder.decode(payload)
        except (ValueError, RecursionError):
            # Another release with the same key may have sealed a state with other fields.
            return None

    @property
    def _purpose(self) -> str:
        return f"requestState {self._binding.server}"

    @property
    def inputs(self) -> dict[str, Raw]:
        """Every recorded answer, by key."""
        return {key: answer.value for key, answer in self._answers.items()}

    @property
    def pending(self) -> bool:
        """Whether a question of this run has no answer yet."""
        return bool(self._asked)

    def ask(self, request: types.InputRequest, key: str | None = None) -> Raw | None:
        """Return the recorded answer to a question. If there is none, add the question to `required` and return None.

        Raises:
            ValidationError: two questions of one run have the same key, or JSON has no form for the schema.
        """
        key = self._claim_key(_KINDS[type(request)], key)
        answer = self._answers.get(key)
        if answer is not None and answer.fingerprint in (None, fingerprint(request)):
            return answer.value
        self._asked[key] = request
        return None

    def ask_again(self, request: types.InputRequest, key: str) -> None:
        """Discard the recorded answer to a question, and ask again.

        Raises:
            ValidationError: as in `ask`.
        """
        self._answers.pop(key, None)
        self.ask(request, key)

    def step(self, name: str) -> Raw | None:
        """Return the recorded value of a step, None if the step has not run."""
        return self._steps.get(name)

    def record(self, name: str, value: Any) -> None:
        """Record the value of a step, so that the step does not run in later rounds.

        Raises:
            ValidationError: JSON has no form for the value.
        """
        self._steps[name] = Raw(encode(value))

    def required(self, state: Any | UnsetType = UNSET) -> types.InputRequiredResult:
        """Return the `input_required` result; `state` replaces the author's state of the earlier round.

        Raises:
            ValidationError: JSON has no form for the state, the state exceeds 64 KiB, or there were ten rounds.
        """
        if self._round >= MAX_ROUNDS:
            raise ValidationError(f"A request may ask in at most {MAX_ROUNDS} rounds")
        asked = {key: fingerprint(request) for key, request in self._asked.items()}
        sealed = self._seal(asked, self.state if state is UNSET else Raw(encode(state)))
        return types.InputRequiredResult(input_requests=dict(self._asked) or None, request_state=sealed)

    def _seal(self, asked: dict[str, str], author: Raw) -> str:
        binding = self._binding
        state = _State(
            binding.method,
            binding.params,
            binding.principal,
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
    """Return a digest of the kind and the schema of a question. An answer is valid for one digest only."""
    parts: list[Any] = [_KINDS[type(request)]]
    if isinstance(request, types.ElicitRequest):
        parts += [request.params.mode or "form", request.params.requested_schema, request.params.url]
    return hashlib.sha256(_sorted.encode(msgspec.json.decode(encode(parts)))).hexdigest()[:16]
