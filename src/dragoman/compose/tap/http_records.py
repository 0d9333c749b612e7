"""`HttpRecords`: writes the records of one HTTP exchange: its heads, its messages, and the events of a stream."""

from __future__ import annotations

from collections.abc import Iterable

from dragoman.compose.session_file import Sender, TakesRecords, kind_of
from dragoman.protocol.lines import Oversized
from dragoman.protocol.sse import EventDecoder

MAX_BODY_BYTES = 64 * 1024 * 1024
STREAM = "text/event-stream"


class HttpRecords:
    """The records of one exchange.

    Example:
        records = HttpRecords(writer, 1)
        records.request("POST", "/mcp", headers, body)
        records.response(200, headers, content_type)
        records.receive(chunk)
        records.finish()
    """

    def __init__(self, writer: TakesRecords, exchange: int) -> None:
        self._writer = writer
        self._exchange = exchange
        self._events: EventDecoder | None = None
        self._chunks: list[bytes] = []

    def request(self, method: str, path: str, headers: Iterable[tuple[str, str]], body: bytes) -> None:
        """Record a request with its body."""
        head = {"method": method, "path": path, "headers": list(headers)}
        self._writer.write("client", "request", head=head, exchange=self._exchange)
        if body:
            self._message("client", body)

    def response(self, status: int, headers: Iterable[tuple[str, str]], content_type: str) -> None:
        """Record the head of a response."""
        head = {"status": status, "headers": list(headers)}
        self._writer.write("server", "response", head=head, exchange=self._exchange)
        self._events = EventDecoder(MAX_BODY_BYTES) if content_type == STREAM else None

    def receive(self, chunk: bytes) -> None:
        """Receive a piece of the body; an event is recorded as soon as it is complete."""
        if self._events is None:
            self._chunks.append(chunk)
            return
        for event in self._events.receive(chunk):
            if isinstance(event, Oversized):
                self.note("an event of the server is too long to be recorded")
                continue
            head = {"id": event.id, "event": event.event, "retry": event.retry}
            found = {key: value for key, value in head.items() if value is not None}
            data = event.data.encode()
            self._writer.write("server", kind_of(data), data, found, exchange=self._exchange)

    def finish(self) -> None:
        """Record the body, unless it is a stream; may be called more than once."""
        body, self._chunks = b"".join(self._chunks), []
        if body:
            self._message("server", body)

    def note(self, note: str, *, failed: bool = False) -> None:
        """Record what happened, and whether it is a failure."""
        head = {"note": note, **({"failed": True} if failed else {})}
        self._writer.write("tap", "note", head=head, exchange=self._exchange)

    def _message(self, sender: Sender, data: bytes) -> None:
        self._writer.write(sender, kind_of(data), data, exchange=self._exchange)
