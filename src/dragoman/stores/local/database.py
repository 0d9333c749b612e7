"""`Database`: the SQLite database of a `Local` store, and the thread that uses it.

The thread exists while there is work, and ends when there was none for a minute. It takes all the work that waits and
runs it in one transaction. The caller gets its answer after COMMIT, so what was acknowledged survives the process; with
`durable` it survives the loss of power too. If a transaction fails, each piece of work is run in a transaction of its
own, so that only the culprit fails. A thread per call was rejected, because each would commit, and wait for the lock,
alone.

The busy handler of SQLite is unfair to those who wait, so the time-out is 0, and the thread sleeps for a short random
time before it tries again.

**Room.** A write needs room in the database and in the write-ahead log. So the database is made larger in advance, and
work that adds something is refused unless `RESERVED_PAGES` stay free. Work that ends something, such as `finish`, may
use these. So it succeeds also if the disk is full, or the database has reached its limit.

**Fork.** A connection that is open in the parent makes the connections of a child lose writes, and a lock that a thread
holds stays locked in the child. So a fork waits for the transaction that runs, and closes the connection. Parent and
child open it again when they need it. The files must not be opened by other means: closing them ends the locks of the
process.
"""

from __future__ import annotations

import asyncio
import atexit
import os
import random
import shutil
import sqlite3
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Lock, Thread
from typing import Any, NamedTuple, TypeVar
from weakref import WeakValueDictionary

from dragoman.errors import StoreError, StoreUnavailable
from dragoman.runtime.user_files import private_folder
from dragoman.stores.changes import Changes
from dragoman.stores.local.bell import Bell
from dragoman.stores.local.transaction import SCHEMA, Transaction

Found = TypeVar("Found")
Work = Callable[[Transaction], Any]
PAGE_BYTES = 4096
RESERVED_PAGES = 128
GROWN_PAGES = 512
MAX_GROWN_PAGES = 4096
CHECKPOINT_PAGES = 384
MAX_WAL_BYTES = 4 * 1024 * 1024
FREE_DISK_BYTES = 4 * 1024 * 1024
MAX_JOBS = 256
BUSY_SECONDS = 5.0
ANSWER_SECONDS = 15.0
SLEEP_SECONDS = 0.001
END_SECONDS = 1.0
IDLE_SECONDS = 60.0
LOOK_SECONDS = 1.0
SWEEP_SECONDS = 60.0
GROW_SECONDS = 1.0
"""The pause after the files could not be made larger."""
_BUSY = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL})


class _QueuedWork(NamedTuple):
    work: Work | None
    """None closes the database."""
    writes: bool
    size: int | None
    future: asyncio.Future[Any] | None


class _Outcome(NamedTuple):
    value: Any
    error: Exception | None = None


class Database:
    """The database of a folder. `changes` are the listeners of this process to changes of tasks."""

    def __init__(self, path: Path, *, durable: bool, max_bytes: int) -> None:
        self.path = path
        self.max_bytes = max_bytes
        self.changes = Changes()
        self._durable = durable
        self._bell = Bell(path.parent / "bells", self._heard)
        self._connection: sqlite3.Connection | None = None
        self._file = 0, 0
        self._seen = 0
        self._swept_at = 0.0
        self._grow_at = 0.0
        self._must_ring = False
        """Whether tasks were changed that other processes do not know of."""
        self._statements = Lock()
        """Held while the connection is used."""
        self._starting = Lock()
        """Held while the thread begins or ends."""
        self._jobs: SimpleQueue[_QueuedWork] = SimpleQueue()
        self._thread: Thread | None = None

    async def run(
        self, work: Callable[[Transaction], Found], *, writes: bool = False, size: int | None = None
    ) -> Found:
        """Run a function in the thread of the database, and return its value after the commit.

        `size` are the bytes that the function adds; without it, the function may use the reserve.

        Raises:
            StoreUnavailable: the database cannot be used; the function had no effect, unless it took too long.
        """
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                found: Found = await self.submit(work, writes=writes, size=size)
                return found
        except TimeoutError:
            raise StoreUnavailable(f"{self._name} did not answer within {ANSWER_SECONDS:g} seconds") from None

    def submit(self, work: Work | None, *, writes: bool = False, size: int | None = None) -> asyncio.Future[Any]:
        """Let the thread run a function, and return the future of its value."""
        future = asyncio.get_running_loop().create_future()
        try:
            self._put(_QueuedWork(work, writes, size, future))
        except RuntimeError as error:  # no thread can begin when the interpreter ends
            future.set_exception(StoreUnavailable(f"{self._name} cannot be used any more: {error}"))
        return future

    async def listen(self) -> None:
        """Let other processes report their changes to this one."""
        await self.run(self._begin_to_listen)

    async def close(self) -> None:
        """Close the connection after the work that waits, and end the thread if nobody listens."""
        if self._thread is not None:
            with suppress(TimeoutError):
                async with asyncio.timeout(ANSWER_SECONDS):
                    await self.submit(None)

    @property
    def _look_job(self) -> _QueuedWork:
        return _QueuedWork(self._look, writes=False, size=None, future=None)

    @property
    def _name(self) -> str:
        return f"The database {self.path}"

    def _put(self, job: _QueuedWork) -> None:
        with self._starting:
            if self._thread is None or not self._thread.is_alive():
                thread = Thread(target=self._serve, name="dragoman-store", daemon=True)
                thread.start()
                self._thread = thread
            self._jobs.put(job)

    def _serve(self) -> None:
        while True:
            jobs = self._next_jobs()
            closing = [job for job in jobs if job.work is None]
            working = [job for job in jobs if job.work is not None]
            if working:
                _deliver(working, self._outcomes(working))
                self._ring()
            if closing or not jobs:
                is_over = self._rest()
                _deliver(closing, [_Outcome(None)] * len(closing))
                if is_over:
                    return

    def _ring(self) -> None:
        """Let the other processes look for changes; the callers have their answers before."""
        if self._must_ring:
            self._must_ring = False
            self._bell.ring()

    def _next_jobs(self) -> list[_QueuedWork]:
        """Return the work that waits; nothing if there was none for long."""
        is_listening = self.changes.has_listeners
        jobs: list[_QueuedWork] = []
        try:
            jobs.append(self._jobs.get(timeout=LOOK_SECONDS if is_listening else IDLE_SECONDS))
            while jobs[-1].work is not None and len(jobs) < MAX_JOBS:
                jobs.append(self._jobs.get_nowait())
        except Empty:
            if is_listening and not jobs:
                return [self._look_job]
        return jobs

    def _rest(self) -> bool:
        """Close the connection; tell whether the thread ends."""
        with self._statements:
            self._disconnect()
        if self.changes.has_listeners:
            return False
        self._bell.close()
        with self._starting:
            if not self._jobs.empty():
                return False
            self._thread = None
            return True

    def _outcomes(self, jobs: list[_QueuedWork]) -> list[_Outcome]:
        try:
            return self._transact(jobs)
        except StoreUnavailable as error:
            return [_Outcome(None, error)] * len(jobs)
        except Exception as error:
            if len(jobs) == 1:
                return [_Outcome(None, self._translated(error))]
        return [outcome for job in jobs for outcome in self._outcomes([job])]

    def _translated(self, error: Exception) -> Exception:
        if _code(error) == sqlite3.SQLITE_FULL:
            return self._full()
        if isinstance(error, sqlite3.Error):
            return StoreUnavailable(f"{self._name} cannot be used: {error}")
        return error

    def _full(self) -> StoreUnavailable:
        return StoreUnavailable(f"{self._name} has no room: its limit of {self.max_bytes} bytes or the disk is full")

    def _transact(self, jobs: list[_QueuedWork]) -> list[_Outcome]:
        """Run work in one transaction, and wait for other processes that write.

        Raises:
            StoreUnavailable: the database cannot be opened, or others write all the time.
        """
        give_up_at = time.monotonic() + BUSY_SECONDS
        while True:
            try:
                with self._statements:
                    return self._attempt(jobs)
            except sqlite3.Error as error:
                if _code(error) not in _BUSY:
                    raise
                if time.monotonic() > give_up_at:
                    raise StoreUnavailable(
                        f"{self._name} was locked by other processes for {BUSY_SECONDS:g} seconds"
                    ) from error
            time.sleep(random.random() * SLEEP_SECONDS)  # noqa: S311

    def _attempt(self, jobs: list[_QueuedWork]) -> list[_Outcome]:
        connection = self._connected()
        try:
            has_room = self._has_room(connection, jobs)
            writes = any(job.writes for job in jobs)
            transaction = Transaction(connection, time.time())
            connection.execute("BEGIN IMMEDIATE" if writes else "BEGIN")
            outcomes = [
                _run(job, transaction) if has_room or job.size is None else _Outcome(None, self._full()) for job in jobs
            ]
            if writes:
                self._sweep(transaction)
                transaction.write_counters()
            connection.execute("COMMIT")
        except BaseException as error:
            self._roll_back(connection, error)
            raise
        # Nothing may fail from here on: a transaction that fails is run again.
        self.changes.report(transaction.changed)
        if writes and transaction.changed:
            self._must_ring = True
        return outcomes

    def _roll_back(self, connection: sqlite3.Connection, error: BaseException) -> None:
        """Undo a transaction; a connection that may be broken is closed."""
        with suppress(sqlite3.Error):
            if connection.in_transaction:
                connection.execute("ROLLBACK")
        if isinstance(error, sqlite3.Error) and _code(error) not in {*_BUSY, sqlite3.SQLITE_FULL}:
            self._disconnect()

    def _sweep(self, transaction: Transaction) -> None:
        if transaction.now - self._swept_at >= SWEEP_SECONDS:
            self._swept_at = transaction.now
            transaction.sweep()

    def _has_room(self, connection: sqlite3.Connection, jobs: list[_QueuedWork]) -> bool:
        sizes = [job.size for job in jobs if job.size is not None]
        needed = RESERVED_PAGES + len(sizes) // 4 + sum(sizes) // (PAGE_BYTES - 100)
        missing = needed - _pragma(connection, "freelist_count") if sizes else 0
        if missing <= 0:
            return True
        if time.monotonic() < self._grow_at:
            return False
        has_grown = self._grow(connection, missing)
        if not has_grown:
            self._grow_at = time.monotonic() + GROW_SECONDS
        return has_grown

    def _grow(self, connection: sqlite3.Connection, pages: int) -> bool:
        """Make the files larger, and tell whether that succeeded."""
        before = _pragma(connection, "page_count")
        pages = max(pages, GROWN_PAGES, min(MAX_GROWN_PAGES, before // 8))
        try:
            if shutil.disk_usage(self.path.parent).free < 3 * pages * PAGE_BYTES + FREE_DISK_BYTES:
                return False
            connection.execute("INSERT INTO growth VALUES (zeroblob(?))", (pages * PAGE_BYTES,))
            try:
                connection.execute("PRAGMA wal_checkpoint(PASSIVE)")
            except sqlite3.Error:
                # Pages that do not fit on the disk would stay in the write-ahead log, which could not begin anew.
                connection.execute("DELETE FROM growth")
                surplus = _pragma(connection, "page_count") - before
                connection.executescript(f"PRAGMA incremental_vacuum({surplus})")
                raise
            connection.execute("DELETE FROM growth")
        except sqlite3.Error as error:
            if _code(error) in _BUSY:
                raise
            return False
        return True

    def _connected(self) -> sqlite3.Connection:
        """Return the connection; opens it if there is none, or if somebody removed the file."""
        if self._connection is not None and _identity(self.path) != self._file:
            self._disconnect()
        if self._connection is None:
            try:
                _create(self.path)
            except OSError as error:
                raise StoreUnavailable(f"{self._name} cannot be created: {error}") from error
            self._connection = self._connect()
            self._file = _identity(self.path)
        return self._connection

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(
            self.path, timeout=0, isolation_level=None, check_same_thread=False, cached_statements=256
        )
        try:
            for setting in (
                *("auto_vacuum = INCREMENTAL", f"page_size = {PAGE_BYTES}", "journal_mode = WAL"),
                *(f"synchronous = {'FULL' if self._durable else 'NORMAL'}", f"fullfsync = {int(self._durable)}"),
                *(f"wal_autocheckpoint = {CHECKPOINT_PAGES}", f"journal_size_limit = {MAX_WAL_BYTES}"),
                f"max_page_count = {self.max_bytes // PAGE_BYTES}",
            ):
                connection.execute(f"PRAGMA {setting}").fetchall()
            if not connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'growth'").fetchall():
                connection.executescript(SCHEMA)
        except BaseException as error:
            connection.close()
            if isinstance(error, sqlite3.Error) and _code(error) not in _BUSY:
                raise StoreUnavailable(f"{self._name} cannot be opened: {error}") from error
            raise
        return connection

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(sqlite3.Error):
                connection.close()

    def _heard(self) -> None:
        with suppress(RuntimeError):  # no thread can begin when the interpreter ends
            self._put(self._look_job)

    def _begin_to_listen(self, transaction: Transaction) -> None:
        if not self._bell.is_open:
            self._seen = transaction.counter("revision")
            with suppress(OSError):  # then this process looks for changes every second
                self._bell.open()

    def _look(self, transaction: Transaction) -> None:
        """Find the tasks that were changed since the last time."""
        rows = transaction.execute("SELECT namespace, id, phase FROM tasks WHERE revision > ?", (self._seen,))
        for namespace, id, phase in rows:
            transaction.changed.append((namespace, id))
            if phase == "ready":
                transaction.changed.append((namespace, None))
        self._seen = transaction.counter("revision")

    def end(self) -> None:
        """Close the connection and the bell when the interpreter ends; a transaction that hangs is not waited for."""
        self._bell.close()
        if self._statements.acquire(timeout=END_SECONDS):
            self._disconnect()
            self._statements.release()

    def before_fork(self) -> None:
        """Wait for the statement that runs, and close the connection."""
        self._starting.acquire()
        self._statements.acquire()
        self._disconnect()

    def after_fork_in_parent(self) -> None:
        """Go on."""
        self._statements.release()
        self._starting.release()

    def after_fork_in_child(self) -> None:
        """Begin anew: the thread, the work that waits and the listeners are those of the parent."""
        self._statements, self._starting = Lock(), Lock()
        self._jobs = SimpleQueue()
        self._thread = None
        self.changes.reset()
        self._bell.forget()


_shared: WeakValueDictionary[tuple[str, bool, int], Database] = WeakValueDictionary()
_sharing = Lock()
_forking: list[Database] = []


def shared_database(path: Path, durable: bool, max_bytes: int) -> Database:  # noqa: FBT001
    """Return the database of a path; it is the same object for everyone in this process."""
    with _sharing:
        key = str(path.absolute()), durable, max_bytes
        database = _shared.get(key)
        if database is None:
            database = _shared[key] = Database(path.absolute(), durable=durable, max_bytes=max_bytes)
        return database


@atexit.register
def _end() -> None:
    for database in list(_shared.values()):
        database.end()


def _before_fork() -> None:
    _sharing.acquire()
    _forking[:] = _shared.values()
    for database in _forking:
        database.before_fork()


def _after_fork(resume: Callable[[Database], None]) -> None:
    for database in _forking:
        resume(database)
    _forking.clear()
    _sharing.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_before_fork,
        after_in_parent=partial(_after_fork, Database.after_fork_in_parent),
        after_in_child=partial(_after_fork, Database.after_fork_in_child),
    )


def _run(job: _QueuedWork, transaction: Transaction) -> _Outcome:
    assert job.work is not None
    if job.future is not None and job.future.cancelled():
        return _Outcome(None)
    try:
        return _Outcome(job.work(transaction))
    except StoreError as error:  # raised before anything was written
        return _Outcome(None, error)


def _deliver(jobs: list[_QueuedWork], outcomes: list[_Outcome]) -> None:
    """Hand outcomes to their callers, all those of one loop at once, so that their next work is one commit again."""
    by_loop: dict[asyncio.AbstractEventLoop, list[tuple[asyncio.Future[Any], _Outcome]]] = {}
    for job, outcome in zip(jobs, outcomes, strict=True):
        if job.future is not None:
            by_loop.setdefault(job.future.get_loop(), []).append((job.future, outcome))
    for loop, answered in by_loop.items():
        with suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(_answer, answered)


def _answer(answered: list[tuple[asyncio.Future[Any], _Outcome]]) -> None:
    for future, outcome in answered:
        if future.done():
            continue
        if outcome.error is None:
            future.set_result(outcome.value)
        else:
            future.set_exception(outcome.error)


def _code(error: BaseException) -> int:
    """Return the primary result code of an error of SQLite."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF


def _pragma(connection: sqlite3.Connection, name: str) -> int:
    return int(connection.execute(f"PRAGMA {name}").fetchone()[0])


def _create(path: Path) -> None:
    """Make an empty file for this user alone, in a private folder; an existing file is not opened."""
    private_folder(path.parent)
    with suppress(FileExistsError):
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))


def _identity(path: Path) -> tuple[int, int]:
    try:
        found = path.stat()
    except OSError:
        return 0, 0
    return found.st_dev, found.st_ino
