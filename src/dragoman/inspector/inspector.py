"""`Inspector`: the servers, the session files, the traffic and the questions that all pages share."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from itertools import count
from pathlib import Path

from dragoman.errors import InspectorError, ValidationError
from dragoman.inspector.events import Events
from dragoman.inspector.failure import NOT_FOUND
from dragoman.inspector.inspected import InspectedServer
from dragoman.inspector.questions import Questions
from dragoman.inspector.sessions import ReadSession
from dragoman.inspector.targets import ServerTarget
from dragoman.inspector.traffic.filter import Filter
from dragoman.inspector.traffic.matching import MatchingRecords
from dragoman.inspector.traffic.rows import Traffic

MAX_SERVERS = 1_000
MAX_QUERIES = 8


class Inspector:
    """What the pages show.

    Example:
        inspector = Inspector()
        [server] = inspector.add(targets_of("python server.py"))
        await server.connect()
    """

    def __init__(self) -> None:
        self.traffic = Traffic()
        self.events = Events(self._totals)
        self.questions = Questions(self.events)
        self.servers: dict[str, InspectedServer] = {}
        self.sessions: dict[str, ReadSession] = {}
        self._ids = count(1)
        self.requests: dict[str, asyncio.Task[object]] = {}
        """The requests of the page that have no answer, by their keys."""
        self._queries: dict[tuple[str, str | None], MatchingRecords] = {}
        """What the pages asked for lately, the latest last."""

    def _totals(self) -> dict[str, int]:
        return {"last": self.traffic.last, "kept": len(self.traffic), "dropped": self.traffic.dropped}

    def server(self, id: str) -> InspectedServer:
        """Return a server.

        Raises:
            InspectorError: there is no such server.
        """
        if id not in self.servers:
            raise InspectorError(f"There is no server {id}", NOT_FOUND)
        return self.servers[id]

    def add(self, targets: Iterable[ServerTarget]) -> list[InspectedServer]:
        """Add servers; they are not connected.

        Raises:
            InspectorError: there are too many.
        """
        added, targets = [], list(targets)
        if len(self.servers) + len(targets) > MAX_SERVERS:
            raise InspectorError(f"There may be {MAX_SERVERS} servers at most; remove some")
        for target in targets:
            server = InspectedServer(f"s{next(self._ids)}", target, self.traffic, self.events, self.questions)
            self.servers[server.id] = server
            server.push_status()
            added.append(server)
        return added

    async def matching(self, filter: str, server: str | None = None) -> MatchingRecords:
        """Return the records that match a filter; an earlier query goes on where it was.

        Raises:
            InspectorError: the filter is wrong.
        """
        try:
            found = self._queries.pop((filter, server), None) or MatchingRecords(self.traffic, Filter(filter), server)
        except ValidationError as error:
            raise InspectorError(str(error)) from None
        self._queries[filter, server] = found
        if len(self._queries) > MAX_QUERIES:
            del self._queries[next(iter(self._queries))]
        await found.update()
        return found

    async def remove(self, id: str) -> None:
        """Disconnect and forget a server; its traffic stays."""
        await self.server(id).disconnect()
        self.servers.pop(id, None)
        self.events.push("removed", server=id)

    async def open(self, path: Path, *, name: str | None = None, follow: bool = False) -> ReadSession:
        """Open a session file; `name` is that of an uploaded file, which is deleted at the end.

        Raises:
            SessionFileError: the file is missing, or is no session file.
        """

        id = f"f{next(self._ids)}"
        session = ReadSession(id, path, self.traffic, self.events, name=name, is_following=follow)
        self.sessions[session.id] = session
        await session.load()
        return session

    async def close_session(self, id: str) -> None:
        """Close a session file, and forget its traffic.

        Raises:
            InspectorError: there is no such session.
        """
        session = self.sessions.pop(id, None)
        if session is None:
            raise InspectorError(f"There is no session {id}", NOT_FOUND)
        await session.close()
        self.traffic.clear(id)
        self.events.push("closed", session=id)

    async def close(self) -> None:
        """Disconnect all servers, and close all files."""
        for task in list(self.requests.values()):
            task.cancel()
        # A process that does not heed its end takes seconds, and an error of one must not leave the others behind.
        ends = (server.disconnect() for server in self.servers.values())
        await asyncio.gather(*ends, return_exceptions=True)
        for id in list(self.sessions):
            await self.close_session(id)
        self.events.close()
