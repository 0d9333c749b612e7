"""Multi-round-trip requests (2026-07-28): input requests, recorded answers and the sealed `requestState`.

A server that needs input returns `input_required` and keeps nothing. The client sends the request again with the
answers, and the handler runs again from its start. `requestState` carries the recording of earlier rounds. The server
seals it and binds it to the server, the method, the parameters, the principal and a time of expiry. A call that runs
apart from its request has no `requestState`: the code that runs it keeps the recording.

A `Rounds` serves one run of the handler. When the handler asks a question, `ask` returns the recorded answer. If there
is none, `ask` adds the question to the next `input_required`. Each question has a key: its kind and its order, unless
the author gives one. An answer is valid only for a question with the same schema; the text of the question may change.
"""

from __future__ import annotations

import hashlib
from collections.abc import Set
from typing import Any

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from dragoman import types
from dragoman.errors import InvalidParams, ValidationError
from dragoman.protocol.jsonrpc import encode
from dragoman.protocol.recording import RecordedAnswer, Recording
from dragoman.protocol.tokens import KeyRing, digest

MAX_ROUNDS = 10
MAX_STATE_BYTES = 64 * 1024
LIFETIME = 600
_CHANGES_BETWEEN_ROUNDS = frozenset({"_meta", "inputResponses", "requestState"})
_KINDS = {types.ElicitRequest: "elicit", types.CreateMessageRequest: "sample", types.ListRootsRequest: "roots"}


class _State(Struct, array_like=True):
    method: str
    params: str
    principal: bytes
    expires: int
    round: int
    recording: Recording


_decoder = msgspec.json.Decoder(_State)
_object = msgspec.json.Decoder(types.Json)
_sorted = msgspec.json.Encoder(order="sorted")


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


class _StateSeal:
    """Seals and opens the `requestState` of one request."""

    def __init__(self, binding: RequestBinding, ring: KeyRing, now: float) -> None:
        self._binding = binding
        self._ring = ring
        self._now = now
        self._round = 0
        self._purpose = f"requestState {binding.server}"

    def open(self, request_state: str) -> Recording:
        """Return the recording of the earlier rounds.

        Raises:
            InvalidParams: the state is forged, changed, expired, or bound to another request, principal or server.
        """
        state, binding = self._decode(request_state), self._binding
        if (
            state is None
            or state.expires < self._now
            or (state.method, state.params, state.principal) != (binding.method, binding.params, binding.principal)
        ):
            raise InvalidParams("Invalid or expired requestState; send the request again without it")
        self._round = state.round
        return state.recording

    def _decode(self, request_state: str) -> _State | None:
        payload = self._ring.open(self._purpose, request_state)
        try:
            return None if payload is None else _decoder.decode(payload)
        except (ValueError, RecursionError):
            # Another release with the same key may have sealed a state with other fields.
            return None

    def seal(self, recording: Recording) -> str:
        """Return the `requestState` of the next round.

        Raises:
            ValidationError: the state exceeds 64 KiB, or there were ten rounds.
        """
        if self._round >= MAX_ROUNDS:
            raise ValidationError(f"A request may ask in at most {MAX_ROUNDS} rounds")
        binding, expires = self._binding, int(self._now) + LIFETIME
        state = _State(binding.method, binding.params, binding.principal, expires, self._round + 1, recording)
        sealed = self._ring.seal(self._purpose, encode(state))
        if len(sealed) > MAX_STATE_BYTES:
            raise ValidationError(
                f"The request's state has {len(sealed)} bytes; at most {MAX_STATE_BYTES} travel: keep large values on"
                " the server and record a handle"
            )
        return sealed


class Rounds:
    """The questions and answers of one run of a handler.

    Example:
        rounds = Rounds.resume(binding, ring, now, params.input_responses, params.request_state)
        answer = rounds.ask(ElicitRequest(ElicitRequestParams("Which city?", requested_schema=schema)))
        if answer is None:
            return rounds.required()

    Without a seal, the caller keeps the recording, and `required` returns no `requestState`.
    """

    def __init__(self, recording: Recording, seal: _StateSeal | None = None) -> None:
        self.recording = recording
        self._seal = seal
        self._asked: dict[str, types.InputRequest] = {}
        self._used: set[str] = set()

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
        seal = _StateSeal(binding, ring, now)
        if request_state is None:  # every key is accepted
            return cls(Recording({key: RecordedAnswer(None, raw) for key, raw in (responses or {}).items()}), seal)
        recording = seal.open(request_state)
        # SHOULD (2026-07-28): "Ignore unknown/unneeded InputResponses keys".
        recording.answer(responses or {})
        return cls(recording, seal)

    @property
    def pending(self) -> bool:
        """Whether a question of this run has no answer yet."""
        return bool(self._asked)

    @property
    def keys(self) -> frozenset[str]:
        """The keys of the questions of this run."""
        return frozenset(self._used)

    def rewind(self, keys: Set[str]) -> None:
        """Forget the questions of this run except those with some keys, because the handler runs again."""
        self._used &= keys
        self._asked.clear()

    def ask(self, request: types.InputRequest, key: str | None = None) -> Raw | None:
        """Return the recorded answer to a question. If there is none, add the question to `required` and return None.

        Raises:
            ValidationError: two questions of one run have the same key, or JSON has no form for the schema.
        """
        key = self._claim_key(_KINDS[type(request)], key)
        answer = self.recording.answers.get(key)
        if answer is not None and answer.fingerprint in (None, fingerprint(request)):
            return answer.value
        self.recording.answers.pop(key, None)
        self._asked[key] = request
        return None

    def ask_again(self, request: types.InputRequest, key: str) -> None:
        """Discard the recorded answer to a question, and ask again.

        Raises:
            ValidationError: as in `ask`.
        """
        self.recording.answers.pop(key, None)
        self.ask(request, key)

    def required(self, state: Any | UnsetType = UNSET) -> types.InputRequiredResult:
        """Return the `input_required` result; `state` replaces the author's state of the earlier round.

        Raises:
            ValidationError: JSON has no form for the state, the state exceeds 64 KiB, or there were ten rounds.
        """
        recording = self.recording
        recording.asked = {key: fingerprint(request) for key, request in self._asked.items()}
        if state is not UNSET:
            recording.state = Raw(encode(state))
        sealed = None if self._seal is None else self._seal.seal(recording)
        return types.InputRequiredResult(input_requests=dict(self._asked) or None, request_state=sealed)

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
