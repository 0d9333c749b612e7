"""What is made of the rows: a table to print, `results.json`, the plot, and the table of `docs/performance.md`."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import plot
from processes import HERE, PEERS, node
from rows import OURS, SIDES, Effort, Row

RESULTS = HERE / "results.json"
PLOT = HERE / "speed.svg"
PAGE = HERE.parent / "docs" / "performance.md"
BEGIN, END = "<!-- bench: begin -->", "<!-- bench: end -->"
COLUMNS = ("what", *SIDES, "ratios", "we hold", "reached")


def figure(value: float) -> str:
    """Return a number with three digits that mean something."""
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def progress(row: Row) -> str:
    """Return one row in one line, as it is told while the rest is measured."""
    sides = "  ".join(f"{side} {figure(row.median(side))}" for side in (OURS, *row.others()))
    return f"{row.name:20} {row.unit:8} {sides}"


def cells(row: Row) -> list[str]:
    """Return a row as it is shown."""
    shown = [f"{figure(row.median(side))} ±{row.spread(side):.0%}" if side in row.samples else "" for side in SIDES]
    ratios = ", ".join(f"{figure(row.ratio(other))} x {other}" for other in row.others())
    held = ", ".join(map(str, row.held))
    reached = ", ".join("yes" if one.reached(row.ratio(one.other)) else "no" for one in row.held)
    return [f"{row.title} ({row.unit})", *shown, ratios, held, reached]


def table(rows: list[Row]) -> str:
    """Return all rows, aligned, for a terminal."""
    lines = [list(COLUMNS), *map(cells, rows)]
    widths = [max(len(line[place]) for line in lines) for place in range(len(COLUMNS))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines
    )


def markdown(results: dict[str, Any], rows: list[Row]) -> str:
    """Return all rows as a table of Markdown, under a line that says where and with what they were measured."""
    machine, versions = results["machine"], results["versions"]
    said = ", ".join(f"{name} {number}" for name, number in versions.items())
    rounds = results["effort"]["rounds"]
    lines = [
        f"{machine['cores']} cores ({machine['processor']}), {machine['system']}; {said}; {rounds} rounds.",
        "",
        *("| " + " | ".join(line) + " |" for line in [list(COLUMNS), ["---"] * len(COLUMNS), *map(cells, rows)]),
    ]
    return "\n".join(lines)


def machine_facts() -> dict[str, Any]:
    """Return what the figures depend on, and nothing that tells whose machine it is."""
    return {
        "processor": processor(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "system": f"{platform.system()} {platform.machine()}",
        "load before": round(os.getloadavg()[0], 2),
    }


def processor() -> str:
    """Return the model of the processor where the system tells it."""
    told = Path("/proc/cpuinfo")
    lines = told.read_text().splitlines() if told.exists() else []
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return models[0] if models else platform.machine()


def versions() -> dict[str, str]:
    """Return the versions of everything that was measured."""
    installed = subprocess.run(
        [PEERS / "bin" / "python", "-c", _PEER_VERSIONS], capture_output=True, check=True, text=True
    )
    package = HERE.parent / "tests/interop/node_modules/@modelcontextprotocol/server/package.json"
    of_node = subprocess.run([node(), "--version"], capture_output=True, check=True, text=True)
    ours = {name: version(name) for name in ("dragoman", "msgspec", "uvicorn", "uvloop", "aiohttp")}
    return {
        "Python": platform.python_version(),
        **ours,
        **json.loads(installed.stdout),
        "TypeScript SDK": str(json.loads(package.read_text())["version"]),
        "Node.js": of_node.stdout.strip().removeprefix("v"),
    }


_PEER_VERSIONS = """
import json
from importlib.metadata import version
print(json.dumps({name: version(name) for name in ("mcp", "fastmcp")}))
"""


def results_of(rows: list[Row], effort: Effort, facts: dict[str, Any]) -> dict[str, Any]:
    """Return everything that was measured."""
    return {
        "machine": facts,
        "versions": versions(),
        "effort": {"rounds": effort.rounds, "seconds": effort.seconds, "calls": effort.calls},
        "rows": [
            {
                "name": row.name,
                "title": row.title,
                "unit": row.unit,
                "more_is_better": row.more_is_better,
                "held": [str(one) for one in row.held],
                "reached": [one.reached(row.ratio(one.other)) for one in row.held],
                "ratios": {other: round(row.ratio(other), 3) for other in row.others()},
                "medians": {side: round(row.median(side), 3) for side in row.samples},
                "samples": {side: [round(value, 3) for value in values] for side, values in row.samples.items()},
                "notes": {name: round(value, 3) for name, value in row.notes.items()},
            }
            for row in rows
        ],
    }


def write(rows: list[Row], effort: Effort, facts: dict[str, Any]) -> None:
    """Write the results, the plot, and the table of the page."""
    results = results_of(rows, effort, facts)
    RESULTS.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    PLOT.write_text(plot.draw(rows), encoding="utf-8")
    page = PAGE.read_text(encoding="utf-8")
    if BEGIN not in page or END not in page:
        sys.exit(f"{PAGE.name} lacks the lines {BEGIN} and {END}, between which the table goes")
    before, rest = page.split(BEGIN, 1)
    after = rest.split(END, 1)[1]
    PAGE.write_text(f"{before}{BEGIN}\n{markdown(results, rows)}\n{END}{after}", encoding="utf-8")
