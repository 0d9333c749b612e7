"""`Traffic`: the records of all servers in memory, each with the facts that a row of the page shows.

A record is read once, when it is added: its method, its id, the request that it answers, its error and its span. The
summary of a row is made when a page first asks for the row, because a server that floods sends more than a page shows.
The records are kept as they were sent; `Masks` replaces their secrets when they leave this process. Both the number of
the records and their bytes have a bound, and the oldest are dropped. A database was rejected: a filter reads every
record with each keystroke, and memory answers at once.
"""

from __future__ import annotations

import time as clock
from collections.abc import Mapping
from typing import Any, cast

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from dragoman.compose.masking import Masks
from dragoman.compose.session_file import Kind, Record, Sender
from dragoman.errors import InspectorError
from dragoman.inspector.traffic.spans import MessageFacts, Spans

MAX_RECORDS = 100_000
MAX_BYTES = 192 * 1024 * 1024
MAX_SUMMARY = 200
FAILED, NOT_FOUND = 400, 404
MASKS = Masks()


class _Members(Struct):
    method: str | UnsetType = UNSET
    id: Any = None
    params: Raw | UnsetType = UNSET
    result: Raw | UnsetType = UNSET
    error: Raw | UnsetType = UNSET


_decode = msgspec.json.Decoder(_Members).decode


class Row(Struct):
    """A row of the page."""

    number: int
    time: float
    server: str
    sender: str
    kind: str
    bytes: int
    exchange: int | None = None
    event: str | None = None
    what: str | None = None
    method: str | None = None
    id: Any = None
    ms: float | None = None
    error: str | None = None
    span: str | None = None
    summary: str = ""


class TrafficRecord(Struct):
    """A record with its row; `data` holds the whole message."""

    row: Row
    head: dict[str, Any]
    data: bytes
    name: str = ""
    """The name of the server."""
    connection: str = ""
    """The run of a tap that wrote the record."""
    masks: Masks = MASKS
    answered: int = 0
    """The number of the request, if the record is its response."""

    def column(self, name: str) -> tuple[str, ...]:
        """Return the values of a column."""
        if name == "server":
            return self.row.server, self.name
        value = getattr(self.row, name)
        return ("" if value is None else str(value),)

    def text(self) -> str:
        """Return the message, or the head, in lower case."""
        data = self.data or str(self.head).encode()
        return data.decode("utf-8", "replace").lower()

    def shown(self) -> Row:
        """Return the row with its summary."""
        self.row.summary = self.row.summary or _summary(self)
        return self.row

    def as_record(self) -> Record:
        """Return the record for a session file."""
        row, head = self.row, self.masked_head()
        place = self.connection or row.server
        kind, sender = cast("Kind", row.kind), cast("Sender", row.sender)
        return Record(0, place, row.time, sender, kind, row.exchange, head, row.bytes, self.masked())

    def masked(self, limit: int | None = None) -> bytes:
        """Return the message, or its first bytes, with its secrets masked."""
        return self.masks.message(self.data[:limit])

    def masked_head(self) -> dict[str, Any]:
        """Return the head with its secrets masked."""
        head = dict(self.head)
        if "headers" in head:
            head["headers"] = self.masks.headers(head["headers"])
        if "path" in head:
            head["path"] = self.masks.url(head["path"])
        return head


class Traffic:
    """The records of all servers.

    Example:
        traffic = Traffic()
        traffic.add("s1", "client", "message", b'{"jsonrpc":"2.0","id":1,"method":"ping"}')
        [record.row.method for record in traffic.records()]
    """

    def __init__(self, max_records: int = MAX_RECORDS, max_bytes: int = MAX_BYTES) -> None:
        self._max_records, self._max_bytes = max_records, max_bytes
        self._records: dict[int, TrafficRecord] = {}
        self._bytes = 0
        self._pending: dict[tuple[Any, ...], Row] = {}
        """The requests that have no response: by server, connection, sender and id. Their records may be dropped."""
        self._answers: dict[int, int] = {}
        """The number of the response, by the number of its request."""
        self.spans = Spans()
        self.last = self.dropped = self.cleared = 0
        self.first = 1
        """The number of the oldest record; the next number if there is none."""

    def __len__(self) -> int:
        return len(self._records)

    def __getitem__(self, number: int) -> TrafficRecord:
        found = self.find(number)
        if found is None:
            raise InspectorError(f"There is no record {number}; it may have been dropped", NOT_FOUND)
        return found

    def find(self, number: int) -> TrafficRecord | None:
        """Return a record; None if it was dropped."""
        return self._records.get(number)

    def answer_of(self, number: int) -> TrafficRecord | None:
        """Return the response to a request."""
        return self._records.get(self._answers.get(number, 0))

    def records(self) -> list[TrafficRecord]:
        """Return the records in their order."""
        return list(self._records.values())

    def clear(self, server: str | None = None) -> None:
        """Forget all records, or those of one server."""
        gone = [number for number, record in self._records.items() if server in (None, record.row.server)]
        for number in gone:
            self._drop(number)
        self._find_first()
        self.cleared += 1
        self.spans.clear(server)

    def add(
        self,
        server: str,
        sender: Sender,
        kind: Kind,
        data: bytes = b"",
        head: Mapping[str, Any] | None = None,
        *,
        exchange: int | None = None,
        time: float | None = None,
        size: int | None = None,
        connection: str = "",
        name: str = "",
        masks: Masks = MASKS,
    ) -> Row:
        """Add a record, and return its row."""
        self.last += 1
        row = Row(
            self.last,
            clock.time() if time is None else time,
            server,
            sender,
            kind,
            len(data) if size is None else size,
            exchange,
            None if head is None else head.get("id"),
        )
        record = TrafficRecord(row, dict(head or {}), data, name, connection, masks)
        self._records[row.number] = record
        self._bytes += len(data)
        if kind == "message":
            self._read_message(record)
        else:
            _read_other(record)
        self._drop_oldest()
        return row

    def _read_message(self, record: TrafficRecord) -> None:
        row, connection = record.row, record.connection
        envelope = _envelope(record.data)
        if envelope is None:
            row.what = "batch" if record.data.lstrip()[:1] == b"[" else None
            return
        facts = MessageFacts.of(envelope.params, envelope.result, envelope.error)
        # Rows and spans leave this process as they are.
        facts.label, facts.error = (_text(part, record.masks) for part in (facts.label, facts.error))
        id = envelope.id if isinstance(envelope.id, int | str) else None
        row.id, row.error = id, facts.error
        belongs_to: Row | None = None
        if isinstance(envelope.method, str):
            row.what, row.method = ("notification" if id is None else "request"), envelope.method
            if id is not None:
                self._pending[row.server, connection, row.sender, id] = row
        elif envelope.result is not UNSET or envelope.error is not UNSET:
            other = "server" if row.sender == "client" else "client"
            row.what = "response"
            belongs_to = self._pending.pop((row.server, connection, other, id), None)
            if belongs_to is not None:
                self._answers[belongs_to.number], record.answered = row.number, belongs_to.number
                row.method, row.ms = belongs_to.method, round((row.time - belongs_to.time) * 1000, 3)
        if belongs_to is None and facts.subscription is not None:
            belongs_to = self._pending.get((row.server, connection, "client", facts.subscription))
        row.span = self.spans.join(row, facts, None if belongs_to is None else belongs_to.span)

    def _drop_oldest(self) -> None:
        while len(self._records) > self._max_records or (self._bytes > self._max_bytes and len(self._records) > 1):
            self._drop(self.first)
            self._find_first()
            self.dropped += 1
        if len(self._pending) > 2 * self._max_records:  # seldom, because it looks at all of them
            self._pending = {key: row for key, row in self._pending.items() if row.number in self._records}

    def _find_first(self) -> None:
        """Count on, because the first key of a dictionary is found slowly after others before it were removed."""
        while self.first <= self.last and self.first not in self._records:
            self.first += 1

    def _drop(self, number: int) -> None:
        record = self._records.pop(number)
        self._bytes -= len(record.data)
        self._answers.pop(record.answered, None)


def _envelope(data: bytes) -> _Members | None:
    try:
        return _decode(data)
    except (msgspec.DecodeError, RecursionError):
        return None


def _summary(record: TrafficRecord) -> str:
    row, envelope = record.row, _envelope(record.data) if record.row.kind == "message" else None
    if envelope is None:
        return "a batch of messages" if row.what == "batch" else _shortened(record.data, record.masks)
    label = MessageFacts.of(envelope.params, UNSET, UNSET).label
    parts = [row.method or row.what, row.id, label, row.error and f"error: {row.error}"]
    return _text(" ".join(str(part) for part in parts if part is not None), record.masks) or ""


def _read_other(record: TrafficRecord) -> None:
    """Set the facts of a row that is no message."""
    row, head = record.row, record.head
    match row.kind:
        case "request":
            row.summary = f"{head.get('method')} {record.masks.url(str(head.get('path', '')))}"
        case "response":
            status = head.get("status")
            row.summary = f"status {status}"
            row.error = row.summary if isinstance(status, int) and status >= FAILED else None
        case "note":
            row.summary = str(head.get("note", ""))
            row.error = row.summary if head.get("failed") else None


def _text(text: str | None, masks: Masks) -> str | None:
    return None if text is None else _shortened(text.encode("utf-8", "replace"), masks)


def _shortened(data: bytes, masks: Masks) -> str:
    """Return the beginning of a text on one line, masked."""
    return " ".join(masks.message(data[: 4 * MAX_SUMMARY]).decode("utf-8", "replace").split())[:MAX_SUMMARY]
