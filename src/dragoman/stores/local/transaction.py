"""`Transaction`: what the work of a store does in the database, and the tables of the database.

A transaction runs in the thread of the database and holds the lock for writing, so a SELECT and the UPDATE that follows
are one step. The statements are those of SQLite 3.24, which is older than RETURNING.

Triggers count the values of a namespace, the tasks of a namespace and of an account, and the bytes of both. Counting
rows would take longer the more there are. A value is the last column of its table: SQLite reads the pages of a row up
to the last column that it needs.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Hashable, Iterable
from typing import Any

SWEEP_ROWS = 1000

TABLES = """
CREATE TABLE IF NOT EXISTS counters (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS logs (
    number INTEGER PRIMARY KEY, stream TEXT NOT NULL UNIQUE, events INTEGER NOT NULL, bytes INTEGER NOT NULL,
    expires_at REAL NOT NULL
);
CREATE INDEX IF NOT EXISTS logs_by_expiry ON logs (expires_at);
CREATE TABLE IF NOT EXISTS events (log INTEGER NOT NULL, sequence INTEGER NOT NULL, event BLOB NOT NULL);
CREATE UNIQUE INDEX IF NOT EXISTS events_by_sequence ON events (log, sequence);
CREATE TABLE IF NOT EXISTS state (
    namespace TEXT NOT NULL, key TEXT NOT NULL, "group" TEXT NOT NULL, account TEXT NOT NULL, size INTEGER NOT NULL,
    revision INTEGER NOT NULL, expires_at REAL, value BLOB NOT NULL, UNIQUE (namespace, key)
);
CREATE INDEX IF NOT EXISTS state_by_expiry ON state (expires_at) WHERE expires_at IS NOT NULL;
CREATE TABLE IF NOT EXISTS tasks (
    number INTEGER PRIMARY KEY, namespace TEXT NOT NULL, id TEXT NOT NULL, owner TEXT NOT NULL, account TEXT NOT NULL,
    size INTEGER NOT NULL, revision INTEGER NOT NULL, phase TEXT NOT NULL, token INTEGER NOT NULL,
    created_at REAL NOT NULL, expires_at REAL, lease_until REAL, summary BLOB NOT NULL, value BLOB NOT NULL,
    UNIQUE (namespace, id)
);
CREATE INDEX IF NOT EXISTS tasks_by_owner ON tasks (namespace, owner, number);
CREATE INDEX IF NOT EXISTS tasks_by_revision ON tasks (revision);
CREATE INDEX IF NOT EXISTS tasks_by_expiry ON tasks (expires_at) WHERE expires_at IS NOT NULL;
CREATE INDEX IF NOT EXISTS tasks_ready ON tasks (namespace, number) WHERE phase = 'ready';
CREATE INDEX IF NOT EXISTS tasks_running ON tasks (namespace, lease_until) WHERE phase = 'running';
CREATE TABLE IF NOT EXISTS growth (zeros BLOB NOT NULL);
"""

_COUNT = """
CREATE TRIGGER IF NOT EXISTS {name}_added AFTER INSERT ON {table} BEGIN
    INSERT INTO counters VALUES ({new}, {added}) ON CONFLICT (name) DO UPDATE SET value = value + {added};
END;
CREATE TRIGGER IF NOT EXISTS {name}_removed AFTER DELETE ON {table} BEGIN
    UPDATE counters SET value = value - {removed} WHERE name = {old};
    DELETE FROM counters WHERE name = {old} AND value = 0;
END;
"""
_RESIZE = """
CREATE TRIGGER IF NOT EXISTS {name}_resized AFTER UPDATE OF size ON {table} WHEN new.size != old.size BEGIN
    UPDATE counters SET value = value + new.size - old.size WHERE name = {new};
END;
"""


def _counted(name: str, table: str, counted: str) -> str:
    names = {"name": name, "table": table, "new": counted.format("new"), "old": counted.format("old")}
    return _COUNT.format(**names, added=1, removed=1)


def _measured(name: str, table: str, measured: str) -> str:
    names = {"name": name, "table": table, "new": measured.format("new"), "old": measured.format("old")}
    return _COUNT.format(**names, added="new.size", removed="old.size") + _RESIZE.format(**names)


SCHEMA = (
    "BEGIN IMMEDIATE;"
    + TABLES
    + _counted("values", "state", "'values ' || {0}.namespace")
    + _counted("tasks", "tasks", "'tasks ' || {0}.namespace")
    + _counted("account_tasks", "tasks", "'tasks ' || {0}.namespace || ' ' || {0}.account")
    + _measured("value_bytes", "state", "'value bytes ' || {0}.\"group\"")
    + _measured("account_value_bytes", "state", "'value bytes ' || {0}.\"group\" || ' ' || {0}.account")
    + _measured("task_bytes", "tasks", "'task bytes ' || {0}.namespace")
    + _measured("account_task_bytes", "tasks", "'task bytes ' || {0}.namespace || ' ' || {0}.account")
    + "COMMIT;"
)


class Transaction:
    """One transaction; `now` is its time, and `changed` are the listeners' keys that it changes."""

    def __init__(self, connection: sqlite3.Connection, now: float) -> None:
        self.execute = connection.execute
        self.executemany = connection.executemany
        self.now = now
        self.changed: list[Hashable] = []
        self._counters: dict[str, int] = {}

    def one(self, statement: str, *values: Any) -> Any:
        """Return the first row of a SELECT, or None."""
        return self.execute(statement, values).fetchone()

    def count(self, *names: str) -> int:
        """Return a counter of the triggers."""
        row = self.one("SELECT value FROM counters WHERE name = ?", " ".join(names))
        return 0 if row is None else int(row[0])

    def counts(self, *names: str) -> list[int]:
        """Return several counters of the triggers."""
        places = ", ".join("?" * len(names))
        values = dict(self.execute(f"SELECT name, value FROM counters WHERE name IN ({places})", names))  # noqa: S608
        return [values.get(name, 0) for name in names]

    def counter(self, name: str) -> int:
        """Return a counter of the transactions, as this transaction left it."""
        return self._counters[name] if name in self._counters else self.count(name)

    def add(self, name: str, amount: int) -> int:
        """Add to a counter, and return its value; it is written with the transaction."""
        value = self._counters[name] = self.counter(name) + amount
        return value

    def next_revision(self) -> int:
        """Return a revision that no value and no task of the database ever had."""
        return self.add("revision", 1)

    def write_counters(self) -> None:
        """Write the counters that were changed."""
        self.executemany("INSERT OR REPLACE INTO counters VALUES (?, ?)", self._counters.items())

    def sweep(self) -> None:
        """Delete some of what has expired."""
        self.execute(
            "DELETE FROM state WHERE rowid IN (SELECT rowid FROM state WHERE expires_at <= ? LIMIT ?)",
            (self.now, SWEEP_ROWS),
        )
        self.execute(
            "DELETE FROM tasks WHERE number IN (SELECT number FROM tasks WHERE expires_at <= ? LIMIT ?)",
            (self.now, SWEEP_ROWS),
        )
        self.delete_logs(self.execute("SELECT number FROM logs WHERE expires_at <= ? LIMIT ?", (self.now, SWEEP_ROWS)))

    def delete_logs(self, numbers: Iterable[tuple[int]]) -> None:
        """Delete logs with their events."""
        for (number,) in list(numbers):
            (size,) = self.one("SELECT bytes FROM logs WHERE number = ?", number)
            self.execute("DELETE FROM events WHERE log = ?", (number,))
            self.execute("DELETE FROM logs WHERE number = ?", (number,))
            self.add("log bytes", -size)
