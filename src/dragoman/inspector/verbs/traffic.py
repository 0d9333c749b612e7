"""The verbs of the traffic: rows, messages, statistics, spans, replay, and session files."""

from __future__ import annotations

import os
import tempfile
from collections import deque
from pathlib import Path
from typing import Any

import msgspec

from dragoman.compose.session_file import write_session
from dragoman.errors import InspectorError
from dragoman.inspector.inspector import Inspector
from dragoman.inspector.traffic.rows import TrafficRecord
from dragoman.inspector.traffic.statistics import statistics
from dragoman.inspector.verbs.contract import Attachment, FailedVerb, PageVerbs
from dragoman.inspector.verbs.explore import MAX_SHOWN_BYTES, ExploreVerbs
from dragoman.runtime.offload import offload

MAX_ROWS = 2_000
SESSION_TYPE = "application/octet-stream"


class TrafficVerbs(PageVerbs):
    """The verbs of the traffic."""

    async def rows(
        self,
        filter: str = "",
        server: str | None = None,
        after: int | None = None,
        before: int | None = None,
        limit: int = 200,
    ) -> dict[str, Any]:
        """Return the newest rows that match: of all, or of those after or before a number.

        `newer` is how many rows after the number match, also if they are more than the limit.
        """
        traffic, limit = self._inspector.traffic, max(1, min(limit, MAX_ROWS))
        try:
            found = await self._inspector.matching(filter, server)
        except InspectorError as error:
            counts = {"kept": len(traffic), "dropped": traffic.dropped}
            return {"rows": [], "matched": 0, "newer": 0, **counts, "error": str(error)}
        numbers = found.numbers
        begin = 0 if after is None else found.place(after + 1)
        end = len(numbers) if before is None else found.place(before)
        return {
            "rows": [traffic[number].shown() for number in numbers[max(begin, end - limit) : end]],
            "matched": len(numbers),
            "newer": len(numbers) - begin,
            "kept": len(traffic),
            "dropped": traffic.dropped,
            "error": None,
        }

    async def message(self, number: int) -> dict[str, Any]:
        """Return one record, cut if it is long."""
        record = self._inspector.traffic[number]
        data = record.masked(MAX_SHOWN_BYTES)
        is_cut = len(record.data) > MAX_SHOWN_BYTES or bool(record.head.get("cut"))
        return {
            "row": record.shown(),
            "head": record.masked_head(),
            "data": None if is_cut else _json(data),
            "text": data.decode("utf-8", "replace"),
            "cut": is_cut,
        }

    async def download(self, number: int) -> Attachment:
        """Return the whole message of a record."""
        record = self._inspector.traffic[number]
        data = await offload(record.masked)
        is_json = record.row.kind == "message"
        name = f"{(record.row.method or record.row.kind).replace('/', '-')}-{number}"
        return Attachment(
            f"{name}.{'json' if is_json else 'txt'}", "application/json" if is_json else "text/plain", data
        )

    async def statistics(self, filter: str = "", server: str | None = None) -> dict[str, Any]:
        """Return times and bytes by method."""
        return statistics((await self._inspector.matching(filter, server)).records())

    async def spans(self, filter: str = "", server: str | None = None, limit: int = 200) -> dict[str, Any]:
        """Return the newest spans that have a row which matches."""
        wanted = {record.row.span for record in (await self._inspector.matching(filter, server)).records()}
        found = (span for span in self._inspector.traffic.spans.all() if span.span in wanted)
        return {"spans": list(deque(found, max(1, min(limit, MAX_ROWS))))}

    async def replay(
        self, number: int, message: dict[str, Any] | None = None, server: str | None = None, key: str = ""
    ) -> dict[str, Any] | FailedVerb:
        """Send a recorded request again, as it was or changed."""
        record = self._inspector.traffic[number]
        sent = _json(record.data) if message is None else message
        place = server or record.row.server
        if not isinstance(sent, dict) or not isinstance(sent.get("method"), str) or "id" not in sent:
            raise InspectorError("Only a request can be sent again: it needs a method and an id")
        if place not in self._inspector.servers:
            raise InspectorError("Name a connected server to which the request is sent", 409)
        params = sent.get("params")
        if params is not None and not isinstance(params, dict):
            raise InspectorError("The params of a request must be an object")
        return await ExploreVerbs(self._inspector).request(place, sent["method"], params, key or f"replay-{number}")

    async def clear(self) -> dict[str, Any]:
        """Forget all traffic."""
        self._inspector.traffic.clear()
        return {}

    async def save(self, filter: str = "", server: str | None = None) -> Attachment:
        """Return the records that match as a session file."""
        found = (await self._inspector.matching(filter, server)).records()
        servers = {record.row.server for record in found}
        known = [self._inspector.servers[id].target.shown for id in servers if id in self._inspector.servers]
        data = await offload(_session_bytes, found, known[0] if len(known) == 1 else "")
        return Attachment("traffic.mcpsession", SESSION_TYPE, data)

    async def open(self, path: str, follow: bool = True) -> dict[str, Any]:  # noqa: FBT001, FBT002
        """Open a session file of this machine."""
        session = await self._inspector.open(_local(path), follow=follow)
        return {"session": session.facts()}

    async def close(self, session: str) -> dict[str, Any]:
        """Close a session file, and forget its records."""
        await self._inspector.close_session(session)
        return {}


async def upload(inspector: Inspector, name: str, data: bytes) -> dict[str, Any]:
    """Open a session file that the page sent.

    Raises:
        SessionFileError: the bytes are no session file.
    """
    path = await offload(_stored, data)
    try:
        session = await inspector.open(path, name=Path(name).name or "uploaded.mcpsession")
    except BaseException:
        path.unlink(missing_ok=True)
        raise
    return {"session": session.facts()}


def _stored(data: bytes) -> Path:
    with tempfile.NamedTemporaryFile(suffix=".mcpsession", delete=False) as file:
        file.write(data)
    return Path(file.name)


def _local(path: str) -> Path:
    return Path(os.path.expanduser(path))  # noqa: PTH111 - a home that nobody has is an ordinary name here


def _json(data: bytes) -> Any:
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def _session_bytes(records: list[TrafficRecord], target: str) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "traffic.mcpsession")
        write_session(path, (record.as_record() for record in records), target=target)
        return path.read_bytes()
