"""How long the requests of each method took, and how many bytes they moved."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from msgspec import Struct, field

from dragoman.inspector.traffic.rows import TrafficRecord


class MethodStatistics(Struct):
    """The requests of one method; times are in milliseconds."""

    method: str
    count: int = 0
    errors: int = 0
    p50: float | None = None
    p95: float | None = None
    max: float | None = None
    bytes: int = 0


class _Measured(Struct):
    found: MethodStatistics
    times: list[float] = field(default_factory=list)


def statistics(records: Iterable[TrafficRecord]) -> dict[str, Any]:
    """Return the statistics of records, the methods with the most messages first."""
    methods: dict[str, _Measured] = {}
    total = messages = 0
    for record in records:
        row = record.row
        total += row.bytes
        messages += row.kind == "message"
        if row.method is None:
            continue
        measured = methods.setdefault(row.method, _Measured(MethodStatistics(row.method)))
        measured.found.bytes += row.bytes
        measured.found.count += row.what != "response"
        measured.found.errors += row.error is not None
        if row.ms is not None:
            measured.times.append(row.ms)
    ordered = sorted(methods.values(), key=lambda one: (-one.found.count, one.found.method))
    return {"methods": [_finished(one) for one in ordered], "bytes": total, "messages": messages}


def _finished(measured: _Measured) -> MethodStatistics:
    times, found = sorted(measured.times), measured.found
    if times:
        found.p50, found.p95, found.max = _percentile(times, 0.5), _percentile(times, 0.95), times[-1]
    return found


def _percentile(times: list[float], part: float) -> float:
    """Return the smallest time that at least this part of the times does not exceed."""
    return times[max(0, -int(-part * len(times) // 1) - 1)]
