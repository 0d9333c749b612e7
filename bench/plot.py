"""The figures as bars on a logarithmic scale, drawn as SVG by hand; legible on white and on black."""

from __future__ import annotations

import math
from html import escape

from rows import OURS, SIDES, Row

SHOWN = (
    "stdio_pipelined",
    "stdio_sequential",
    "stdio_start",
    "stdio_memory",
    "stdio_list",
    "http_stateless",
    "http_session",
    "http_progress",
    "client_http_1",
    "client_http_64",
    "client_stdio_64",
    "client_memory_1",
)
LABELS = {OURS: "dragoman", "typescript": "TypeScript SDK", "mcp": "mcp", "fastmcp": "fastmcp", "bare": "bare"}
COLOURS = {OURS: "#0f766e", "typescript": "#3b82f6", "mcp": "#f59e0b", "fastmcp": "#c026d3", "bare": "#9ca3af"}
WIDTH, LEFT, RIGHT = 860, 290, 100
BAR, GAP, TOP = 9, 14, 56


def draw(rows: list[Row]) -> str:
    """Return the plot: how many times as good as the worst side of its row each side is, row by row."""
    shown = [row for row in rows if row.name in SHOWN]
    most = max([advantage(row, side) for row in shown for side in sides(row)], default=10.0)
    scale = (WIDTH - LEFT - RIGHT) / math.log10(max(most, 10.0))
    parts, top = [], float(TOP)
    for row in shown:
        parts.append(_row(row, top, scale))
        top += len(sides(row)) * BAR + GAP
    grid = [_gridline(power, scale, top) for power in range(math.ceil(math.log10(max(most, 10.0))) + 1)]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {top + 26:.0f}" role="img" '
        f'aria-label="Speed of dragoman and others" font-family="sans-serif" font-size="11" fill="#6b7280">\n'
        f"{_legend()}\n{''.join(grid)}{''.join(parts)}</svg>\n"
    )


def sides(row: Row) -> list[str]:
    """Return the sides of a row that are drawn."""
    return [side for side in SIDES if side in row.samples]


def advantage(row: Row, side: str) -> float:
    """Return how many times as good a side is as the worst that is drawn."""
    medians = [row.median(one) for one in sides(row)]
    return row.median(side) / min(medians) if row.more_is_better else max(medians) / row.median(side)


def _legend() -> str:
    places = ((side, 12 + number * 120) for number, side in enumerate(SIDES))
    return (
        "".join(
            f'<rect x="{x}" y="12" width="10" height="10" fill="{COLOURS[side]}"/>'
            f'<text x="{x + 15}" y="21">{LABELS[side]}</text>'
            for side, x in places
        )
        + '<text x="12" y="42">longer is better: how many times as good as the worst of its row, logarithmic</text>'
    )


def _gridline(power: int, scale: float, bottom: float) -> str:
    x = LEFT + power * scale
    if x > WIDTH - RIGHT + 1:
        return ""
    return (
        f'<line x1="{x:.1f}" y1="{TOP - 6}" x2="{x:.1f}" y2="{bottom:.0f}" stroke="#9ca3af" stroke-opacity=".35"/>'
        f'<text x="{x:.1f}" y="{bottom + 14:.0f}" text-anchor="middle">{10**power:,} x</text>\n'
    )


def _row(row: Row, top: float, scale: float) -> str:
    drawn = sides(row)
    middle = top + len(drawn) * BAR / 2 + 4
    parts = [f'<text x="{LEFT - 10}" y="{middle:.1f}" text-anchor="end">{escape(row.title)}</text>']
    for number, side in enumerate(drawn):
        y, length = top + number * BAR, max(2.0, math.log10(advantage(row, side)) * scale)
        value = row.median(side)
        said = f"{value:,.0f}" if value >= 10 else f"{value:.1f}"
        parts.append(
            f'<rect x="{LEFT}" y="{y:.1f}" width="{length:.1f}" height="{BAR - 1}" fill="{COLOURS[side]}"/>'
            f'<text x="{LEFT + length + 4:.1f}" y="{y + BAR - 1:.1f}" font-size="8">{said} {escape(row.unit)}</text>'
        )
    return "".join(parts) + "\n"
