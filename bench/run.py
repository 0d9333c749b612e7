"""Measures everything, side by side, and writes down what came of it.

    make bench
    python bench/run.py --quick
    python bench/run.py --only stdio_pipelined --only http

Prints one table, and writes `results.json`, `speed.svg` and the table of `docs/performance.md`; with `--quick` or
`--only` it writes nothing. Every workload is in a module of its own: each gives rows, and a row has the samples of
every side.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator

import client
import growth
import proxying
import pythons
import report
import scale
import stdio
import stores
import streamable_http
import tasks
from rows import FULL, QUICK, Effort, Row, Workloads

MODULES: tuple[Workloads, ...] = (
    stdio.measure,
    streamable_http.measure,
    client.measure,
    growth.measure,
    scale.measure,
    stores.measure,
    tasks.measure,
    proxying.measure,
    pythons.measure,
)


def options() -> argparse.Namespace:
    """Return what is asked on the command line."""
    parser = argparse.ArgumentParser(description="Measure dragoman against its peers.")
    parser.add_argument("--quick", action="store_true", help="fewer and shorter rounds, and nothing is written")
    parser.add_argument("--only", action="append", metavar="ROW", help="rows whose name begins so; can be repeated")
    return parser.parse_args()


def wanted_by(only: list[str] | None) -> Callable[[str], bool]:
    """Return what tells whether a row is wanted."""
    return lambda name: only is None or name.startswith(tuple(only))


def measured(effort: Effort, only: list[str] | None) -> Iterator[Row]:
    """Measure, and tell what is done as it is."""
    for workloads in MODULES:
        for row in workloads(effort, wanted_by(only)):
            print(report.progress(row), file=sys.stderr, flush=True)
            yield row


def main() -> None:
    """Measure, print and write."""
    asked = options()
    started = time.monotonic()
    effort = QUICK if asked.quick else FULL
    facts = report.machine_facts()
    rows = list(measured(effort, asked.only))
    if not rows:
        raise SystemExit(f"No row begins with {' or '.join(asked.only)}")
    print(report.table(rows))
    print(f"{time.monotonic() - started:.0f} seconds")
    if asked.only is None and not asked.quick:
        report.write(rows, effort, facts)


if __name__ == "__main__":
    main()
