"""`ReadSession`: a session file whose records stand in the traffic beside those of live servers.

The file is read in a thread, a batch at a time. A file that is followed is read again and again, so that the records of
a running `dragoman tap` appear as they are written.
"""

from __future__ import annotations

import asyncio
from itertools import islice
from pathlib import Path
from typing import Any

from dragoman.compose.masking import Masks
from dragoman.compose.session_file import Record, SessionFile
from dragoman.errors import SessionFileError
from dragoman.inspector.events import Events
from dragoman.inspector.failure import failure_of
from dragoman.inspector.traffic.rows import Traffic
from dragoman.runtime.offload import offload
from dragoman.runtime.tasks import cancel_and_wait

BATCH = 500
LOOK_SECONDS = 0.2


class ReadSession:
    """A session file that is open; the pages are told of its records, and when its facts change.

    Raises:
        SessionFileError: the file is missing, or is no session file.
    """

    def __init__(
        self,
        id: str,
        path: Path,
        traffic: Traffic,
        events: Events,
        *,
        name: str | None = None,
        is_following: bool = False,
    ) -> None:
        self.id = id
        self.file = SessionFile(path)
        try:
            self._begun = float(self.file.facts.get("begun") or 0)
        except (TypeError, ValueError):
            raise SessionFileError(f"{path.name} has no start time; open a file that `dragoman tap` wrote") from None
        self.name = name or path.name
        self._is_temporary = name is not None
        self._traffic, self._events = traffic, events
        self.is_following = is_following
        self.records = self._last = 0
        self._failure: SessionFileError | None = None
        self._task: asyncio.Task[None] | None = None

    def facts(self) -> dict[str, Any]:
        """Return the session as the page gets it."""
        return {
            "id": self.id,
            "name": self.name,
            "path": None if self._is_temporary else str(self.file.path.absolute()),
            "target": Masks().target(str(self.file.facts.get("target", ""))),
            "begun": self._begun,
            "following": self.is_following,
            "records": self.records,
            "failure": None if self._failure is None else failure_of(self._failure),
        }

    async def load(self) -> None:
        """Read the records that the file has, and go on in the background if the file is followed."""
        await self._read()
        if self.is_following:
            self._task = asyncio.get_running_loop().create_task(self._follow())

    async def close(self) -> None:
        """Stop to follow, and forget a file that was uploaded."""
        if self._task is not None:
            await cancel_and_wait(self._task)
        if self._is_temporary:
            self.file.path.unlink(missing_ok=True)

    async def _follow(self) -> None:
        while self._failure is None:
            await asyncio.sleep(LOOK_SECONDS)
            await self._read()

    async def _read(self) -> None:
        before = self.records
        try:
            while batch := await offload(self._next_batch):
                for record in batch:
                    self._add(record)
                self._events.push_traffic()
        except SessionFileError as error:
            self._failure, self.is_following = error, False
        if self.records != before or self._failure is not None:
            self._events.push("session", session=self.facts())

    def _next_batch(self) -> list[Record]:
        return list(islice(self.file.records(self._last), BATCH))

    def _add(self, record: Record) -> None:
        self._last, self.records = record.number, self.records + 1
        self._traffic.add(
            self.id,
            record.sender,
            record.kind,
            record.data,
            record.head,
            exchange=record.exchange,
            time=record.time,
            size=record.size,
            connection=record.connection,
            name=self.name,
        )
