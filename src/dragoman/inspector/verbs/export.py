"""The verb that exports calls: as a test, a cassette, curl, a Python client, or HAR."""

from __future__ import annotations

from typing import Any, Literal

from dragoman.errors import InspectorError
from dragoman.inspector.export import FORMATS, ExportedCalls
from dragoman.inspector.traffic.rows import TrafficRecord
from dragoman.inspector.verbs.contract import PageVerbs


class ExportVerbs(PageVerbs):
    """The verb of exports."""

    async def make(
        self,
        format: Literal["pytest", "cassette", "curl", "python", "har"],
        numbers: list[int] | None = None,
        server: str | None = None,
        filter: str = "",
    ) -> dict[str, Any]:
        """Return records as a text in a format, with a name for its file."""
        if numbers is None:
            records = (await self._inspector.matching(filter, server)).records()
        else:
            records = self._with_answers(numbers)
        if not records:
            raise InspectorError("There is nothing to export; choose a call, or another filter")
        places = {record.row.server for record in records}
        if len(places) > 1:
            raise InspectorError("The records are of several servers; name one of them")
        live = self._inspector.servers.get(places.pop())
        calls = ExportedCalls(records, None if live is None else live.target)
        name, kind, make = FORMATS[format]
        return {"name": name, "type": kind, "text": make(calls)}

    def _with_answers(self, numbers: list[int]) -> list[TrafficRecord]:
        """Return the records of the numbers with their responses and heads."""
        traffic = self._inspector.traffic
        chosen = {number: traffic[number] for number in numbers}
        for number in numbers:
            answer = traffic.answer_of(number)
            if answer is not None:
                chosen[answer.row.number] = answer
        exchanges = {(one.row.server, one.row.exchange) for one in chosen.values() if one.row.exchange is not None}
        for record in traffic.records() if exchanges else ():
            if (record.row.server, record.row.exchange) in exchanges and record.row.kind in ("request", "response"):
                chosen[record.row.number] = record
        return [chosen[number] for number in sorted(chosen)]
