"""`announced_url`: the URL that a program prints when it begins to serve HTTP."""

from __future__ import annotations

import re

_COLORS = re.compile(r"\x1b\[[0-9;]*m")
_URL = re.compile(r"\b(?:serving|running|listening|available)\b.*?(https?://[\w.:\[\]-]+[^\s\"'<>(),]*)", re.IGNORECASE)
"""Matches dragoman, uvicorn, hypercorn, granian, werkzeug, and most servers in Node.js."""
_PORT = re.compile(r"\b(?:listening|running) (?:on|at) port (\d{2,5})\b", re.IGNORECASE)


def announced_url(output: str) -> str | None:
    """Return the first URL that the output of a program announces; None if it announces none."""
    text = _COLORS.sub("", output)
    if (url := _URL.search(text)) is not None:
        return url[1].rstrip(".")
    port = _PORT.search(text)
    return None if port is None else f"http://127.0.0.1:{port[1]}"
