"""One end of a duplex connection: stdio, or a session of the handshake era.

Bytes come in through `receive` and events go out. The machine keeps what both directions need: the requests of the
other side that are being served (no two with one id; a cancelled one is never answered), our own requests that wait
for an answer, each with a `waiter` that the caller chose and gets back, and the progress tokens of these. A batch is
answered as one message when its last request is. What is to be written comes back as bytes, or None when there is
nothing to write; lines are framed by the transport.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeVar

import msgspec
from msgspec import Raw, Struct

from dragoman import types
from dragoman.errors import InvalidRequest, ParseError, RpcError
from dragoman.protocol import jsonrpc
from dragoman.protocol.jsonrpc import DEFAULT_LIMITS, Limits
from dragoman.protocol.lines import LineDecoder, Oversized
from dragoman.protocol.versions import LATEST_HANDSHAKE, Version

CANCELLED = "notifications/cancelled"
PROGRESS = "notifications/progress"
INITIALIZE = "initialize"
LONGEST_ID = 15
"""Digits of an id that came back as text."""


T = TypeVar("T")
Answer = TypeVar("Answer", bound=bytes | tuple[bytes, Raw, bytes])

_cancelled = msgspec.json.Decoder(types.CancelledNotificationParams)
_progress = msgspec.json.Decoder(types.ProgressNotificationParams)


class Answered(Struct, frozen=True):
    """A request of ours has its outcome."""

    waiter: Any
    outcome: Raw | RpcError


class Progressed(Struct, frozen=True):
    """A request of ours has come further."""

    waiter: Any
    params: types.ProgressNotificationParams


class Cancelled(Struct, frozen=True):
    """The other side gave up a request that is being served; whatever comes of it is not sent."""

    id: types.RequestId
    reason: str | None


class Reply(Struct, frozen=True):
    """A message to write at once: the answer to what could not be served."""

    data: bytes


class Unmatched(Struct, frozen=True):
    """An answer to nothing that waits: too late, repeated, or without a usable id."""

    message: jsonrpc.ResultResponse | jsonrpc.ErrorResponse


Event = jsonrpc.Request | jsonrpc.Notification | Answered | Progressed | Cancelled | Reply | Unmatched


class _Batch:
    """The answers of a batch, until the last is there."""

    def __init__(self, expected: int) -> None:
        self._expected = expected
        self._answers: list[bytes] = []

    def settle(self, answer: bytes) -> bytes | None:
        self._expected -= 1
        if answer:
            self._answers.append(answer)
        return jsonrpc.encode_batch(self._answers) if self._expected == 0 and self._answers else None


_UNKNOWN = _Batch(0)
"""Stands for the batch of a request that is not served."""
_HANDSHAKE = _Batch(1)
"""Stands for the batch of `initialize`, which is part of none."""


class Peer:
    """The state of one connection.

    Example:
        peer = Peer()
        for event in peer.receive(chunk):
            match event:
                case jsonrpc.Request(id, method, params):
                    write(peer.send_result(id, {}))
                case Reply(data):
                    write(data)

    `version` is what the handshake agreed on; set it when it did. `id_prefix` makes the ids of our requests strings
    that begin with it.
    """

    def __init__(self, limits: Limits = DEFAULT_LIMITS, *, id_prefix: str | None = None) -> None:
        self.version: Version = LATEST_HANDSHAKE
        self._limits = limits
        self._id_prefix = id_prefix
        self._last_id = 0
        self._lines = LineDecoder(limits.message_bytes)
        self._served: dict[types.RequestId, _Batch | None] = {}
        self._cancelled: set[types.RequestId] = set()
        self._waiting: dict[types.RequestId, Any] = {}

    @property
    def serving(self) -> list[types.RequestId]:
        """The ids of the other side's requests that are being served."""
        return list(self._served)

    @property
    def waiting(self) -> list[types.RequestId]:
        """The ids of our requests that have no answer yet."""
        return list(self._waiting)

    def receive(self, chunk: bytes) -> list[Event]:
        """Return what a chunk of the stream brings; chunks may end anywhere."""
        return list(self.events(chunk))

    def events(self, chunk: bytes) -> Iterator[Event]:
        """Yield what a chunk brings, message by message: what is done about one holds for the next.

        An id that was answered meanwhile is free again, and a version that was agreed on is spoken.
        """
        return self._events(self._lines.receive(chunk))

    def receive_end(self) -> list[Event]:
        """Return what an unterminated last line brings at the end of the stream."""
        return list(self._events(self._lines.finish()))

    def _events(self, lines: list[bytes | Oversized]) -> Iterator[Event]:
        limits, served = self._limits, self._served
        for line in lines:
            if not isinstance(line, bytes):
                yield self._refuse(None, ParseError(f"A message must not have more than {limits.message_bytes} bytes"))
                continue
            message = jsonrpc.decode(line, limits)
            if type(message) is jsonrpc.Request and message.id not in served:
                served[message.id] = _HANDSHAKE if message.method == INITIALIZE else None
                yield message
            elif type(message) is jsonrpc.Invalid:
                yield from self._accept_invalid(message, line)
            elif (event := self.accept(message)) is not None:
                yield event

    def receive_message(self, data: bytes) -> list[Event]:
        """Return what one whole message brings."""
        message = jsonrpc.decode(data, self._limits)
        if type(message) is jsonrpc.Invalid:
            return self._accept_invalid(message, data)
        event = self.accept(message)
        return [] if event is None else [event]

    def accept(self, message: jsonrpc.Message, batch: _Batch | None = None) -> Event | None:
        """Return what a decoded message brings, if anything."""
        # A Struct takes long to tell that something is no instance of it.
        if type(message) is jsonrpc.Request:
            if message.id not in self._served:
                self._served[message.id] = _HANDSHAKE if message.method == INITIALIZE else batch
                return message
            refusal = InvalidRequest(f"The request id {message.id!r} is in use by a request that is still served")
            return self._refuse_in(batch, message.id, refusal)
        if type(message) is jsonrpc.ResultResponse:
            id = message.id if message.id in self._waiting else self._meant(message.id)
            return Unmatched(message) if id is None else Answered(self._waiting.pop(id), message.result)
        if type(message) is jsonrpc.Notification:
            return self._accept_notification(message)
        if type(message) is jsonrpc.ErrorResponse:
            id = message.id if message.id in self._waiting else self._meant(message.id)
            return Unmatched(message) if id is None else Answered(self._waiting.pop(id), message.error)
        return self._refuse_in(batch, message.id, message.error) if message.answer else None

    def _meant(self, id: types.RequestId | None) -> types.RequestId | None:
        """Return which request of ours an answer is for whose id came back as text, as some servers write it."""
        if isinstance(id, str) and id.isascii() and id.isdecimal() and len(id) <= LONGEST_ID:
            return number if (number := int(id)) in self._waiting else None
        return None

    def _accept_invalid(self, message: jsonrpc.Invalid, data: bytes) -> list[Event]:
        """Return what no message brings: that it is none, or what a batch brings where the version has those."""
        found = jsonrpc.decode_batch(data, self._limits) if self.version.batches else None
        if isinstance(found, jsonrpc.Batch):
            return self._accept_batch(found.messages)
        event = self.accept(found or message)
        return [] if event is None else [event]

    def _accept_batch(self, messages: list[jsonrpc.Message]) -> list[Event]:
        batch = _Batch(
            sum(type(one) is jsonrpc.Request or (type(one) is jsonrpc.Invalid and one.answer) for one in messages)
        )
        events = [self.accept(_unless_handshake(message), batch) for message in messages]
        return [event for event in events if event is not None]

    def _accept_notification(self, notification: jsonrpc.Notification) -> Event | None:
        if notification.method == CANCELLED:
            return self._accept_cancelled(notification.params)
        if notification.method == PROGRESS:
            return self._accept_progress(notification.params)
        return notification

    def _accept_cancelled(self, raw: Raw) -> Cancelled | None:
        params = _lenient(_cancelled, raw)
        id = None if params is None else params.request_id
        # SHOULD: "Ignore unknown/completed/malformed cancellations"; MUST NOT (2025-11-25): cancel initialize.
        if params is None or id is None or id not in self._served:
            return None
        if self._served[id] is _HANDSHAKE or id in self._cancelled:
            return None
        self._cancelled.add(id)
        return Cancelled(id, params.reason)

    def _accept_progress(self, raw: Raw) -> Progressed | None:
        params = _lenient(_progress, raw)
        if params is None or params.progress_token not in self._waiting:
            return None
        return Progressed(self._waiting[params.progress_token], params)

    def _refuse(self, id: types.RequestId | None, error: RpcError) -> Reply:
        return Reply(jsonrpc.encode_error(id, error, null_id=not self.version.omits_unknown_id))

    def _refuse_in(self, batch: _Batch | None, id: types.RequestId | None, error: RpcError) -> Reply | None:
        reply = self._refuse(id, error)
        if batch is None:
            return reply
        answers = batch.settle(reply.data)
        return None if answers is None else Reply(answers)

    def send_result(self, id: types.RequestId, result: Any) -> bytes | None:
        """Return the answer to a request that was served, or None when it was cancelled or its batch still waits.

        Raises:
            ValidationError: the result cannot be JSON; the request is still to be answered.
        """
        return self.finish(id, jsonrpc.encode_result(id, result))

    def send_error(self, id: types.RequestId, error: RpcError) -> bytes | None:
        """Return the refusal of a request that was served, under the same rules.

        Raises:
            ValidationError: the error's data cannot be JSON; the request is still to be answered.
        """
        return self.finish(id, jsonrpc.encode_error(id, error))

    def drop(self, id: types.RequestId) -> bytes | None:
        """Let a request go without an answer; what is returned completes the batch that it was part of."""
        return self.finish(id, b"")

    def finish(self, id: types.RequestId, answer: Answer) -> Answer | bytes | None:
        """End a request that was served; return what is to be written, if anything.

        The answer is encoded: as one message, or in parts, which are joined in a batch only. An empty one is not sent.
        """
        batch = self._served.pop(id, _UNKNOWN)
        if batch is None and not self._cancelled:
            return answer or None
        if batch is _UNKNOWN:
            return None
        data: Answer | bytes = answer
        if id in self._cancelled:
            self._cancelled.discard(id)
            data = b""
        if batch is None or batch is _HANDSHAKE:
            return data or None
        return batch.settle(b"".join(data) if isinstance(data, tuple) else data)

    def next_id(self) -> types.RequestId:
        """Return an id that no request of ours has had."""
        self._last_id += 1
        return self._last_id if self._id_prefix is None else f"{self._id_prefix}{self._last_id}"

    def send_request(self, id: types.RequestId, method: str, params: Any, waiter: Any) -> bytes:
        """Return a request of ours, under an id from `next_id`, which is its progress token too.

        Raises:
            ValidationError: the parameters cannot be JSON; nothing waits.
        """
        data = jsonrpc.encode_request(id, method, params)
        self._waiting[id] = waiter
        return data

    def send_notification(self, method: str, params: Any = jsonrpc.NO_PARAMS) -> bytes:
        """Return a notification."""
        return jsonrpc.encode_notification(method, params)

    def cancel(self, id: types.RequestId, reason: str | None = None) -> bytes | None:
        """Give up a request of ours; return the notification that says so, or None when it was answered already."""
        if id not in self._waiting:
            return None
        del self._waiting[id]
        return self.send_notification(CANCELLED, types.CancelledNotificationParams(id, reason))

    def abandon(self) -> list[Any]:
        """Return the waiters of our requests, which no answer will reach, and forget them."""
        waiters = list(self._waiting.values())
        self._waiting.clear()
        return waiters

    def close(self) -> list[Any]:
        """Forget everything; return the waiters of our requests, which no answer will reach."""
        self._served.clear()
        self._cancelled.clear()
        return self.abandon()


def _unless_handshake(message: jsonrpc.Message) -> jsonrpc.Message:
    """Return a message of a batch, or what says that it must not be part of one."""
    if type(message) is jsonrpc.Request and message.method == INITIALIZE:
        return jsonrpc.Invalid(message.id, InvalidRequest("initialize must not be part of a batch"))
    return message


def _lenient(params: msgspec.json.Decoder[T], raw: Raw) -> T | None:
    try:
        return params.decode(raw)
    except (msgspec.DecodeError, RecursionError):
        return None
