"""Server-sent events: encoding and incremental decoding, by the rules of the WHATWG event stream.

`EventDecoder` converts CR and CRLF to LF and splits each chunk once. A CR at the end of a chunk ends the line; an LF at
the start of the next chunk belongs to that CR. The decoder reads lines as fields until a blank line dispatches the
event. The data buffer holds each data field followed by LF. The buffer is empty only if the event has no data field, so
the decoder dispatches a priming event, which has an `id` and empty `data`.

The size of an event is the size of its fields and of the incomplete line, without line endings. A comment counts only
while its line is incomplete, so keep-alive comments do not add up. When an event exceeds the limit, the decoder reports
`Oversized` at once and skips to the blank line. An id before that point still becomes the last event id, so a client
that resumes does not request the same event again. The result does not depend on the boundaries of the chunks.
"""

from __future__ import annotations

import re

from msgspec import Struct

from dragoman.protocol.lines import Oversized

KEEP_ALIVE = b":\r\n\r\n"

_MESSAGE = b"event: message\r\n"
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_MAX_RETRY_DIGITS = 9
_ENDS_A_FIELD = re.compile("[\r\n\0]")
_EVENT_ID = re.compile("([!-~]+)-(0|[1-9][0-9]{0,17})")


class Event(Struct, frozen=True):
    """One event of a stream; `id` and `retry` are None unless this event has those fields.

    Example:
        Event('{"jsonrpc":"2.0","id":1,"result":{}}', id="stream-7")
    """

    data: str
    event: str = "message"
    id: str | None = None
    retry: int | None = None


class EventId(Struct, frozen=True):
    """The cursor of a resumable stream: a client that resumes from it receives the events with greater sequences.

    Example:
        EventId("4f1c", 7).encode()     # "4f1c-7"
        EventId.decode("4f1c-7")        # EventId(stream="4f1c", sequence=7)
    """

    stream: str
    sequence: int

    def encode(self) -> str:
        """Return `<stream>-<sequence>`; raise ValueError if `decode` would not give the same cursor back."""
        text = f"{self.stream}-{self.sequence}"
        if EventId.decode(text) != self:
            raise ValueError(
                f"{text!r} is not an event id; use visible ASCII for the stream and a sequence of at most 18 digits"
            )
        return text

    @staticmethod
    def decode(text: str) -> EventId | None:
        """Return the cursor that a peer sent as `Last-Event-ID`, None if it is malformed."""
        found = _EVENT_ID.fullmatch(text)
        return None if found is None else EventId(found[1], int(found[2]))


def encode(data: bytes, *, id: str | None = None, event: str | None = "message", retry: int | None = None) -> bytes:
    """Return one event; each line of the data becomes a data field."""
    head = b""
    if event == "message":
        head = _MESSAGE
    elif event is not None:
        head = b"event: %b\r\n" % _field_value("event", event)
    if id is not None:
        head += b"id: %b\r\n" % _field_value("id", id)
    if retry is not None:
        head += b"retry: %d\r\n" % _checked_retry(retry)
    return b"%bdata: %b\r\n\r\n" % (head, _unified_line_endings(data).replace(b"\n", b"\r\ndata: "))


def priming_event(id: str, retry: int | None) -> bytes:
    """Return an event with empty data that gives the client a cursor to resume from (2025-11-25)."""
    return encode(b"", id=id, event=None, retry=retry)


class EventDecoder:
    """Reads events from a byte stream.

    Example:
        decoder = EventDecoder(limit=4_194_304)
        decoder.receive(b"id: 7\\ndata: {}\\n\\nda")     # [Event(data="{}", id="7")]
        decoder.last_event_id                         # "7"
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self.last_event_id = ""
        """The id that a client sends as `Last-Event-ID`: that of the last complete event that had an id."""
        self.retry: int | None = None
        """The milliseconds to wait before reconnecting, if the server sent them."""
        self._line = bytearray()
        self._data = bytearray()
        self.finish()

    def receive(self, chunk: bytes) -> list[Event | Oversized]:
        """Return the events that this chunk completes, and an `Oversized` for each event that exceeds the limit."""
        found: list[Event | Oversized] = []
        lines = self._split(chunk)
        rest = lines.pop()
        for line in lines:
            self._extend_line(line, found)
            self._end_line(found)
        self._extend_line(rest, found)
        return found

    def finish(self) -> None:
        """Discard an incomplete event, as the standard requires, and reset the decoder for the next connection."""
        self._at_start = True
        self._after_carriage_return = False
        self._line.clear()
        self._is_line_skipped = False
        self._start_event()

    def _start_event(self) -> None:
        self._data.clear()
        self._event = ""
        self._id: str | None = None
        self._event_retry: int | None = None
        self._fields_size = 0
        self._is_skipping = False

    def _split(self, chunk: bytes) -> list[bytes]:
        if self._after_carriage_return and chunk:
            self._after_carriage_return = False
            chunk = chunk.removeprefix(b"\n")
        if chunk.endswith(b"\r"):
            self._after_carriage_return = True
        return _unified_line_endings(chunk).split(b"\n")

    def _extend_line(self, piece: bytes, found: list[Event | Oversized]) -> None:
        if not piece:
            return
        if self._is_skipping:
            self._is_line_skipped = True
        elif self._fields_size + len(self._line) + len(piece) > self._limit:
            found.append(Oversized())
            self._line.clear()
            self._data.clear()
            self._is_skipping = self._is_line_skipped = True
        else:
            self._line += piece

    def _end_line(self, found: list[Event | Oversized]) -> None:
        line = bytes(self._line)
        self._line.clear()
        if self._at_start:
            self._at_start = False
            line = line.removeprefix(_BYTE_ORDER_MARK)
        if self._is_line_skipped:
            self._is_line_skipped = False
        elif not line:
            self._end_event(found)
        elif not line.startswith(b":"):
            self._read_field(line)

    def _end_event(self, found: list[Event | Oversized]) -> None:
        if self._id is not None:
            self.last_event_id = self._id
        if self._data:
            data = self._data[:-1].decode("utf-8", "replace")
            found.append(Event(data, self._event or "message", self._id, self._event_retry))
        self._start_event()

    def _read_field(self, line: bytes) -> None:
        self._fields_size += len(line)
        name, value = _name_and_value(line)
        if name == b"data":
            self._data += value
            self._data += b"\n"
        elif name == b"event":
            self._event = value.decode("utf-8", "replace")
        elif name == b"id" and b"\0" not in value:
            self._id = value.decode("utf-8", "replace")
        elif name == b"retry" and value.isdigit() and len(value) <= _MAX_RETRY_DIGITS:
            self.retry = self._event_retry = int(value)


def _name_and_value(line: bytes) -> tuple[bytes, bytes]:
    colon = line.find(b":")
    if colon == -1:
        return line, b""
    start = colon + 2 if line.startswith(b" ", colon + 1) else colon + 1
    return line[:colon], line[start:]


def _unified_line_endings(text: bytes) -> bytes:
    if b"\r" not in text:
        return text
    return text.replace(b"\r\n", b"\n").replace(b"\r", b"\n")


def _field_value(name: str, value: str) -> bytes:
    if _ENDS_A_FIELD.search(value):
        raise ValueError(f"The {name} {value!r} would break the event stream; use one without CR, LF and NUL")
    return value.encode()


def _checked_retry(retry: int) -> int:
    if not 0 <= retry < 10**_MAX_RETRY_DIGITS:
        raise ValueError(f"A retry of {retry} ms would be ignored; use 0 to {10**_MAX_RETRY_DIGITS - 1}")
    return retry
