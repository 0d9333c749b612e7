"""The session file `*.mcpsession`: every message of a conversation, with times, HTTP heads, events and stderr.

It is a SQLite database, because a tap is killed at any moment, several taps may write one file, and a reader may follow
a file that is still written. A JSON Lines file was rejected: a reader that looks for one message would read all of it,
and the oldest records could not be removed.

    session(key, value)                the target, the version of this format, and when the file was made
    records(number, connection, time, sender, kind, exchange, head, size, data)

`connection` is a random name of one run of a tap. `sender` is `client`, `server` or `tap`. `exchange` joins the records
of one HTTP request and its response. `head` is JSON. `size` is the size on the wire; `data` is shorter if it was cut or
masked. The kinds:

    message     one JSON-RPC message, or a batch; `head` has id, event and retry if it was an SSE event
    text        bytes that are no message
    request     the head of an HTTP request: method, path, headers
    response    the head of an HTTP response: status, headers
    stderr      what the server wrote to stderr
    note        what happened: begun, ended, cut, a fault that was injected, records that were lost

`SessionWriter` writes in a thread of its own, so that a slow disk does not slow the conversation. Records wait in a
queue with a bound; those that do not fit are lost, and a note counts them. The file has a bound too: the oldest records
are removed.
"""

from __future__ import annotations

import json
import os
import secrets
import sqlite3
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from functools import cache
from pathlib import Path
from threading import Condition, Thread
from typing import Any, Literal, NamedTuple, Protocol, TypedDict

import msgspec

from dragoman.compose.masking import Masks
from dragoman.errors import SessionFileError

FORMAT = 1
APPLICATION_ID = 0x4D435053
MAX_DATA_BYTES = 1024 * 1024
MAX_FILE_BYTES = 256 * 1024 * 1024
MAX_QUEUED_BYTES = 64 * 1024 * 1024
RECORD_BYTES = 200
"""What a record takes besides its data, about."""
CLOSE_SECONDS = 5.0
LOOK_SECONDS = 0.2
_TABLES = """
CREATE TABLE IF NOT EXISTS session(key TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS records(
    number INTEGER PRIMARY KEY AUTOINCREMENT, connection TEXT NOT NULL, time REAL NOT NULL, sender TEXT NOT NULL,
    kind TEXT NOT NULL, exchange INTEGER, head TEXT NOT NULL, size INTEGER NOT NULL, data BLOB NOT NULL);
"""

Sender = Literal["client", "server", "tap"]
Kind = Literal["message", "text", "request", "response", "stderr", "note"]
Head = Mapping[str, Any] | None


class TakesRecords(Protocol):
    """Takes the records of a conversation, as `SessionWriter` does."""

    def write(
        self, sender: Sender, kind: Kind, data: bytes = b"", head: Head = None, *, exchange: int | None = None
    ) -> object:
        """Add a record."""


def kind_of(data: bytes) -> Literal["message", "text"]:
    """Return the kind of a record with these bytes."""
    return "message" if data.lstrip()[:1] in {b"{", b"["} else "text"


class Record(NamedTuple):
    """One record of a session file."""

    number: int
    connection: str
    time: float
    sender: Sender
    kind: Kind
    exchange: int | None
    head: dict[str, Any]
    size: int
    data: bytes

    def message(self) -> Any:
        """Return the message as Python values; None if the record is no message, or was cut."""
        if self.kind != "message" or self.head.get("cut"):
            return None
        try:
            return json.loads(self.data)
        except ValueError:
            return None

    def summary(self) -> str:
        """Return what the record says, on one line."""
        text = " ".join(self.data.decode("utf-8", "replace").split())
        match self.kind:
            case "request":
                return f"{self.head.get('method')} {self.head.get('path')}"
            case "response":
                return f"status {self.head.get('status')}"
            case "note":
                return str(self.head.get("note", ""))
            case "message":
                return f"{_label(self.message())} {text}"
            case _:
                return f"{self.kind}: {text}"

    def as_json(self) -> dict[str, Any]:
        """Return the record as an object of JSON; `data` is the message, or text."""
        message = self.message()
        data = self.data.decode("utf-8", "replace") if message is None else message
        return {**self._asdict(), "data": data}


def _label(message: Any) -> str:
    """Return the method and the id of a message."""
    if not isinstance(message, dict):
        return "batch" if isinstance(message, list) else "message"
    outcome = "error" if "error" in message else "result"
    id = f" {message['id']}" if "id" in message else ""
    return f"{message.get('method', outcome)}{id}"


class SessionWriter:
    """Writes the records of one conversation to a session file, which may exist.

    Example:
        with SessionWriter(Path("shop.mcpsession"), target="python server.py") as writer:
            writer.write("client", "message", b'{"jsonrpc":"2.0","id":1,"method":"ping"}')

    Raises:
        SessionFileError: the file cannot be written, or is no session file.

    The thread of the writer gives each record to `on_record` when the record is written; its number is 0.
    """

    def __init__(
        self,
        path: Path,
        *,
        target: str = "",
        masks: Masks | None = None,
        on_record: Callable[[Record], None] | None = None,
        max_data_bytes: int = MAX_DATA_BYTES,
        max_file_bytes: int = MAX_FILE_BYTES,
    ) -> None:
        self.path = path
        self.masks = masks or Masks()
        self.connection = secrets.token_hex(4)
        self._on_record = on_record
        self._max_data, self._max_file = max_data_bytes, max_file_bytes
        self._waiting: deque[tuple[Any, ...]] = deque()
        self._queued_bytes = self._lost = 0
        self._changed = Condition()
        self._is_closing = False
        try:
            path.touch(mode=0o600)
            with closing(_connected(path)) as database, database:
                _prepare(database, path, self.masks.target(target))
        except (sqlite3.Error, OSError) as error:
            raise SessionFileError(f"{path} cannot be written as a session file: {error}") from None
        self._thread = Thread(target=self._run, name="dragoman-session-file", daemon=True)
        self._thread.start()

    def __enter__(self) -> SessionWriter:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def write(
        self, sender: Sender, kind: Kind, data: bytes = b"", head: Head = None, *, exchange: int | None = None
    ) -> None:
        """Add a record; it is masked, cut and written later, in the thread of the writer."""
        with self._changed:
            if self._is_closing or self._queued_bytes + len(data) > MAX_QUEUED_BYTES:
                self._lost += 1
                return
            self._queued_bytes += len(data) + RECORD_BYTES
            self._waiting.append((time.time(), sender, kind, exchange, dict(head or {}), data))
            self._changed.notify()

    def close(self) -> None:
        """Write what waits, and close the file."""
        with self._changed:
            self._is_closing = True
            self._changed.notify()
        self._thread.join(CLOSE_SECONDS)

    def _run(self) -> None:
        try:
            with closing(_connected(self.path)) as database:
                self._write_all(database)
        except sqlite3.Error as error:
            import logging

            with self._changed:
                self._is_closing = True  # what follows is lost
                self._waiting.clear()
            logging.getLogger("dragoman.compose").warning("The session file %s cannot be written: %s", self.path, error)

    def _write_all(self, database: sqlite3.Connection) -> None:
        is_closing = False
        while not is_closing:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or self._is_closing)
                batch, is_closing, lost = list(self._waiting), self._is_closing, self._lost
                self._waiting.clear()
                self._queued_bytes = self._lost = 0
            if lost:
                batch.append((time.time(), "tap", "note", None, {"note": f"{lost} records are lost"}, b""))
            _insert(database, map(self._record, batch))
            self._remove_oldest(database)

    def _record(self, queued: tuple[Any, ...]) -> Record:
        """Return a record with its secrets masked, cut if it is too long."""
        when, sender, kind, exchange, head, data = queued
        if len(data) > self._max_data:
            head = {**head, "cut": True}
        masked = self.masks.message(data[: self._max_data])
        if kind in {"request", "response"}:
            head = self._masked_head(head)
        record = Record(0, self.connection, when, sender, kind, exchange, head, len(data), masked)
        if self._on_record is not None:
            self._on_record(record)
        return record

    def _masked_head(self, head: dict[str, Any]) -> dict[str, Any]:
        masked = {**head, "headers": self.masks.headers(head.get("headers", ()))}
        return masked | {"path": self.masks.url(head["path"])} if "path" in head else masked

    def _remove_oldest(self, database: sqlite3.Connection) -> None:
        while _used_bytes(database) > self._max_file:
            with database:
                removed = database.execute(
                    "DELETE FROM records WHERE number <= (SELECT min(number) + max((max(number) - min(number)) / 10, 1)"
                    " FROM records) AND number < (SELECT max(number) FROM records)"
                ).rowcount
            if removed == 0:
                return


class SessionFile:
    """A session file that is read.

    Example:
        session = SessionFile(Path("shop.mcpsession"))
        for record in session.records():
            print(record.sender, record.kind, record.data)

    Raises:
        SessionFileError: the file is missing, or is no session file.
    """

    def __init__(self, path: Path) -> None:
        if not os.path.isfile(path):  # noqa: PTH113 - Path.is_file raises an error for a name that is too long
            raise SessionFileError(f"There is no file {path}; name one that `dragoman tap` or `dragoman inspect` wrote")
        self.path = path
        self.facts: dict[str, str] = {}
        """The table `session`: `format`, `target` and `begun`."""
        try:
            with closing(_connected(path, is_reading=True)) as database:
                _require_format(database, path)
                rows = database.execute("SELECT key, value FROM session")
                self.facts = {str(key): str(value) for key, value in rows}
        except sqlite3.Error as error:
            raise SessionFileError(f"{path} is no session file, or is damaged: {error}") from None

    def records(self, after: int = 0) -> Iterator[Record]:
        """Yield the records in their order, those with a number above `after`.

        Raises:
            SessionFileError: the file is damaged; the records before the damage have been yielded.
        """
        last = after
        try:
            with closing(_connected(self.path, is_reading=True)) as database:
                for row in database.execute("SELECT * FROM records WHERE number > ? ORDER BY number", (after,)):
                    record = _record_of(row)
                    last = record.number
                    yield record
        except (sqlite3.Error, ValueError, RecursionError) as error:
            raise SessionFileError(f"{self.path} is damaged after record {last}: {error}") from None

    def follow(self) -> Iterator[Record]:
        """Yield the records, and those that are written later, without an end."""
        last = 0
        while True:
            for record in self.records(last):
                last = record.number
                yield record
            time.sleep(LOOK_SECONDS)


def write_session(path: Path, records: Iterable[Record], *, target: str = "") -> None:
    """Write records, whose secrets are masked already, to a new session file; their numbers are those of the file.

    Example:
        write_session(Path("part.mcpsession"), SessionFile(Path("whole.mcpsession")).records(after=100))

    Raises:
        SessionFileError: the file cannot be written.
    """
    try:
        path.touch(mode=0o600)
        with closing(_connected(path)) as database:
            with database:
                _prepare(database, path, target)
            _insert(database, records)
    except (sqlite3.Error, OSError) as error:
        raise SessionFileError(f"{path} cannot be written as a session file: {error}") from None


class _RecordHead(TypedDict, total=False):
    """The members of a head whose types readers rely on; a head may have others."""

    method: str
    path: str
    headers: list[tuple[str, str]]


def _record_of(row: tuple[Any, ...]) -> Record:
    """Return the record of a row. Any program can write a database, and SQLite keeps a value of any type in any column.

    Raises:
        ValueError: a column has no value of its type.
    """
    number, connection, when, sender, kind, exchange, head_json, size, data = row
    try:
        head: dict[str, Any] = json.loads(msgspec.convert(head_json, str))
        msgspec.convert(head, _RecordHead)
        values = (number, connection, when, sender, kind, exchange, head, size, data)
        return msgspec.convert(values, Record, builtin_types=(bytes,))
    except msgspec.ValidationError as error:
        raise ValueError(f"record {number} has a value of another type: {error}") from None


def _insert(database: sqlite3.Connection, records: Iterable[Record]) -> None:
    rows = ((*record[1:6], json.dumps(record.head), *record[7:]) for record in records)
    with database:
        database.executemany(
            "INSERT INTO records(connection, time, sender, kind, exchange, head, size, data)"
            " VALUES(?, ?, ?, ?, ?, ?, ?, ?)",
            rows,
        )


def _connected(path: Path, *, is_reading: bool = False) -> sqlite3.Connection:
    mode = "ro" if is_reading else "rwc"
    return sqlite3.connect(f"{path.absolute().as_uri()}?mode={mode}", uri=True, timeout=CLOSE_SECONDS)


def _prepare(database: sqlite3.Connection, path: Path, target: str) -> None:
    """Make a new file a session file, in one transaction: other taps and readers may open the file meanwhile."""
    database.execute("BEGIN IMMEDIATE")
    is_new = not database.execute("SELECT 1 FROM sqlite_schema").fetchone()
    if is_new:
        for statement in _TABLES.split(";"):
            database.execute(statement)
        database.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        facts = {"format": str(FORMAT), "target": target, "begun": f"{time.time():.3f}"}
        database.executemany("INSERT OR IGNORE INTO session VALUES(?, ?)", facts.items())
    else:
        _require_format(database, path)
    database.commit()
    database.execute("PRAGMA synchronous = NORMAL")
    _use_log(database)


def _use_log(database: sqlite3.Connection) -> None:
    """Let readers read while a writer writes. SQLite does not wait for others here, so this function does."""
    deadline = time.monotonic() + CLOSE_SECONDS
    while True:
        try:
            database.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.01)
        else:
            return


def _schema(database: sqlite3.Connection) -> set[tuple[Any, ...]]:
    return set(database.execute("SELECT type, name, tbl_name, sql FROM sqlite_schema"))


@cache
def _expected_schema() -> set[tuple[Any, ...]]:
    with closing(sqlite3.connect(":memory:")) as database:
        database.executescript(_TABLES)
        return _schema(database)


def _require_format(database: sqlite3.Connection, path: Path) -> None:
    (application,) = database.execute("PRAGMA application_id").fetchone()
    if application != APPLICATION_ID:
        raise SessionFileError(f"{path} is a database of another program, and no session file")
    # A view with the name of a table could compute without an end. A trigger could run when a record is added.
    if _schema(database) != _expected_schema():
        raise SessionFileError(
            f"{path} has other tables, views or triggers than a session file of this version: a newer dragoman wrote"
            " it, or somebody changed it"
        )
    (version,) = database.execute("SELECT value FROM session WHERE key = 'format'").fetchone() or ("0",)
    if version != str(FORMAT):
        raise SessionFileError(f"{path} has format {version}; this dragoman reads format {FORMAT}: use a newer one")


def _used_bytes(database: sqlite3.Connection) -> int:
    (pages,) = database.execute("PRAGMA page_count").fetchone()
    (free,) = database.execute("PRAGMA freelist_count").fetchone()
    (size,) = database.execute("PRAGMA page_size").fetchone()
    return int((pages - free) * size)
