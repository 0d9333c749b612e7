"""JSON as people write it into configuration files: with comments, and with commas after the last item."""

from __future__ import annotations

import re

_STRING = r'"[^"\\]*(?:\\.[^"\\]*)*"'
_COMMENT = re.compile(rf"{_STRING}|//[^\r\n]*|/\*.*?\*/", re.DOTALL)
_TRAILING_COMMA = re.compile(rf"{_STRING}|,(?=\s*[}}\]])", re.DOTALL)


def plain_json(text: str) -> str:
    """Return JSON without comments and trailing commas; what is left stands in the line and column where it stood.

    Example:
        plain_json('{"a": [1, 2,], // two' + chr(10) + "}")
    """
    return _TRAILING_COMMA.sub(_blank, _COMMENT.sub(_blank, text))


def _blank(found: re.Match[str]) -> str:
    text = found[0]
    return text if text.startswith('"') else re.sub(r"[^\r\n]", " ", text)
