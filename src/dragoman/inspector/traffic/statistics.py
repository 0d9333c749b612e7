"""How long the requests of each method took, and how many bytes they moved."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from msgspec import Struct

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


def statistics(records: Iterable[TrafficRecord]) -> dict[str, Any]:
    """Return the statistics of records, the methods with the most messages first."""
    methods: dict[str, MethodStatistics] = {}
    times: defaultdict[str, list[float]] = defaultdict(list)
    total = messages = 0
    for record in records:
        row = record.row
        total += row.bytes
        messages += row.kind == "message"
        if row.method is None:
            continue
        method = methods.setdefault(row.method, MethodStatistics(row.method))
        method.bytes += row.bytes
        method.count += row.what != "response"
        method.errors += row.error is not None
        if row.ms is not None:
            times[row.method].append(row.ms)
    for name, unordered in times.items():
        method, ordered = methods[name], sorted(unordered)
        method.p50, method.p95, method.max = _percentile(ordered, 0.5), _percentile(ordered, 0.95), ordered[-1]
    listed = sorted(methods.values(), key=lambda method: (-method.count, method.method))
    return {"methods": listed, "bytes": total, "messages": messages}


def _percentile(times: list[float], part: float) -> float:
    """Return the smallest time that at least this part of the times does not exceed."""
    return times[max(0, -int(-part * len(times) // 1) - 1)]
