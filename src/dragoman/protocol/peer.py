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


T = TypeVar("T")

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

    def settle(self, answer: bytes | None) -> bytes | None:
        self._expected -= 1
        if answer is not None:
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
                refusal = ParseError(f"A message must not have more than {limits.message_bytes} bytes")
                yield self._refuse(None, refusal)
                continue
            message = jsonrpc.decode(line, limits, batches=self.version.batches)
            if type(message) is jsonrpc.Request and message.id not in served:
                served[message.id] = _HANDSHAKE if message.method == INITIALIZE else None
                yield message
            else:
                yield from self._brought(message)

    def receive_message(self, data: bytes) -> list[Event]:
        """Return what one whole message brings."""
        return self._brought(jsonrpc.decode(data, self._limits, batches=self.version.batches))

    def _brought(self, message: jsonrpc.Message | jsonrpc.Batch) -> list[Event]:
        events: list[Event] = []
        if type(message) is jsonrpc.Batch:
            self._accept_batch(message.messages, events)
        else:
            self.accept(message, events)
        return events

    def accept(self, message: jsonrpc.Message, events: list[Event]) -> None:
        """Add what a decoded message brings to the events."""
        # A Struct takes long to tell that something is no instance of it.
        if type(message) is jsonrpc.Request:
            self._accept_request(message, events, None)
        elif type(message) is jsonrpc.ResultResponse:
            self._accept_answer(message.id, message.result, message, events)
        elif type(message) is jsonrpc.Notification:
            self._accept_notification(message, events)
        elif type(message) is jsonrpc.ErrorResponse:
            self._accept_answer(message.id, message.error, message, events)
        elif type(message) is jsonrpc.Invalid and message.answer:
            events.append(self._refuse(message.id, message.error))

    def _accept_request(self, request: jsonrpc.Request, events: list[Event], batch: _Batch | None) -> None:
        if request.id in self._served:
            refusal = InvalidRequest(f"The request id {request.id!r} is in use by a request that is still served")
            self._settle(self._refuse(request.id, refusal).data, batch, events)
        else:
            self._served[request.id] = _HANDSHAKE if request.method == INITIALIZE else batch
            events.append(request)

    def _accept_batch(self, messages: list[jsonrpc.Message], events: list[Event]) -> None:
        answered = [
            m for m in messages if isinstance(m, jsonrpc.Request) or (isinstance(m, jsonrpc.Invalid) and m.answer)
        ]
        batch = _Batch(len(answered))
        for message in messages:
            if isinstance(message, jsonrpc.Request) and message.method == INITIALIZE:
                refusal = InvalidRequest("initialize must not be part of a batch")
                self._settle(self._refuse(message.id, refusal).data, batch, events)
            elif isinstance(message, jsonrpc.Request):
                self._accept_request(message, events, batch)
            elif isinstance(message, jsonrpc.Invalid) and message.answer:
                self._settle(self._refuse(message.id, message.error).data, batch, events)
            else:
                self.accept(message, events)

    def _settle(self, answer: bytes, batch: _Batch | None, events: list[Event]) -> None:
        data = answer if batch is None else batch.settle(answer)
        if data is not None:
            events.append(Reply(data))

    def _accept_notification(self, notification: jsonrpc.Notification, events: list[Event]) -> None:
        if notification.method == CANCELLED:
            self._accept_cancelled(notification.params, events)
        elif notification.method == PROGRESS:
            self._accept_progress(notification.params, events)
        else:
            events.append(notification)

    def _accept_cancelled(self, raw: Raw, events: list[Event]) -> None:
        params = _lenient(_cancelled, raw)
        id = None if params is None else params.request_id
        # SHOULD: "Ignore unknown/completed/malformed cancellations"; MUST NOT (2025-11-25): cancel initialize.
        if params is None or id is None or id not in self._served:
            return
        if self._served[id] is _HANDSHAKE or id in self._cancelled:
            return
        self._cancelled.add(id)
        events.append(Cancelled(id, params.reason))

    def _accept_progress(self, raw: Raw, events: list[Event]) -> None:
        params = _lenient(_progress, raw)
        if params and params.progress_token in self._waiting:
            events.append(Progressed(self._waiting[params.progress_token], params))

    def _accept_answer(
        self,
        id: types.RequestId | None,
        outcome: Raw | RpcError,
        message: jsonrpc.ResultResponse | jsonrpc.ErrorResponse,
        events: list[Event],
    ) -> None:
        if id is not None and id in self._waiting:
            events.append(Answered(self._waiting.pop(id), outcome))
        else:
            events.append(Unmatched(message))

    def _refuse(self, id: types.RequestId | None, error: RpcError) -> Reply:
        return Reply(jsonrpc.encode_error(id, error, null_id=not self.version.omits_unknown_id))

    def send_result(self, id: types.RequestId, result: Any) -> bytes | None:
        """Return the answer to a request that was served, or None when it was cancelled or its batch still waits.

        Raises:
            ValidationError: the result cannot be JSON; the request is still to be answered.
        """
        return self._finish(id, jsonrpc.encode_result(id, result))

    def send_encoded(self, id: types.RequestId, result: Raw) -> bytes | tuple[bytes, Raw, bytes] | None:
        """Return what `send_result` does, but outside of a batch in parts, so that a large result is not copied."""
        if self._served.get(id) is not None:
            return self.send_result(id, result)
        head, tail = jsonrpc.encode_result_around(id)
        return None if self._finish(id, head) is None else (head, result, tail)

    def send_error(self, id: types.RequestId, error: RpcError) -> bytes | None:
        """Return the refusal of a request that was served, under the same rules.

        Raises:
            ValidationError: the error's data cannot be JSON; the request is still to be answered.
        """
        return self._finish(id, jsonrpc.encode_error(id, error))

    def drop(self, id: types.RequestId) -> bytes | None:
        """Let a request go without an answer; what is returned completes the batch that it was part of."""
        return self._finish(id, None)

    def _finish(self, id: types.RequestId, data: bytes | None) -> bytes | None:
        batch = self._served.pop(id, _UNKNOWN)
        if batch is _UNKNOWN:
            return None
        if self._cancelled and id in self._cancelled:
            self._cancelled.discard(id)
            data = None
        return data if batch is None or batch is _HANDSHAKE else batch.settle(data)

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


def _lenient(params: msgspec.json.Decoder[T], raw: Raw) -> T | None:
    try:
        return params.decode(raw)
    except (msgspec.DecodeError, RecursionError):
        return None
