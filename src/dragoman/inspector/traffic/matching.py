"""`MatchingRecords`: the records that match a filter, in their order, while records come and go.

A page asks for the same rows again and again while messages come. So each record is compared with a filter once. Many
records are compared in slices, between which the event loop does other work. The numbers of the records are kept and
not the records, so that a record which the traffic drops is freed.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_left
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dragoman.inspector.traffic.filter import Filter
    from dragoman.inspector.traffic.rows import Traffic, TrafficRecord

SLICE = 5_000


class MatchingRecords:
    """The records of the traffic that match a filter, of all servers or of one.

    Example:
        found = MatchingRecords(traffic, Filter("method:tools/*"))
        await found.update()
        newest = found.records()[-200:]
    """

    def __init__(self, traffic: Traffic, wanted: Filter, server: str | None = None) -> None:
        self._traffic, self._wanted, self._server = traffic, wanted, server
        self._next = self._cleared = 0
        self.numbers: list[int] = []

    def place(self, number: int) -> int:
        """Return how many of the records have a smaller number."""
        return bisect_left(self.numbers, number)

    def records(self) -> list[TrafficRecord]:
        """Return the records, in their order."""
        return [self._traffic[number] for number in self.numbers]

    async def update(self) -> None:
        """Add the records that came, and forget those that the traffic dropped."""
        last = self._traffic.last
        self._forget()
        while self._next <= last:
            self._compare(min(self._next + SLICE, last + 1))
            if self._next <= last:
                await asyncio.sleep(0)
                self._forget()

    def _forget(self) -> None:
        if self._cleared != self._traffic.cleared:
            self._cleared, self._next, self.numbers = self._traffic.cleared, 0, []
        first = self._traffic.first
        self._next = max(self._next, first)
        del self.numbers[: self.place(first)]

    def _compare(self, end: int) -> None:
        for number in range(self._next, end):
            record = self._traffic.find(number)
            if record is None or self._server not in (None, record.row.server):
                continue
            if self._wanted.matches(record):
                self.numbers.append(number)
        self._next = end
