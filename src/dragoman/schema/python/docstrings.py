"""Descriptions of parameters in docstrings, in the styles of Google, NumPy and Sphinx.

A docstring is read line by line. The text of a parameter section is stored by parameter name; all other text, in its
order, is the description of the function.
"""

from __future__ import annotations

import re
from inspect import cleandoc

from msgspec import Struct

_SECTION = re.compile(r"(?:(?:Keyword )?Arg(?:ument)?s|(?:Other )?Parameters|Params|Attributes):?", re.IGNORECASE)
_UNDERLINE = r"-{3,}"
_GOOGLE_ENTRY = r"\*{0,2}(\w+)\s*(?:\(.*?\))?\s*:(?:\s+(.*)|)"
_NUMPY_ENTRY = r"(\*{0,2}\w+(?:\s*,\s*\*{0,2}\w+)*)\s*(?::.*)?"
_SPHINX_ENTRY = r":(?:param|parameter|arg|argument|key|keyword|kwarg)\s+(?:[^:]*\s)?\*{0,2}(\w+)\s*:\s*(.*)"
_SPHINX_TYPE = r":type\s+\w+\s*:"


class Docstring(Struct, frozen=True):
    """The description of a function, and of each parameter that the docstring names."""

    description: str
    parameters: dict[str, str]


def parse(text: str | None) -> Docstring:
    """Parse a docstring; never raises.

    Example:
        parse("Weather for a city.\\n\\nArgs:\\n    city: Where.").parameters  # {"city": "Where."}
    """
    lines = _dedented(text or "")
    kept: list[str] = []
    found: dict[str, list[str]] = {}
    position = 0
    while position < len(lines):
        end = _read_section(lines, position, found)
        if end == position:
            kept.append(lines[position])
            end += 1
        position = end
    described = {name: " ".join(" ".join(parts).split()) for name, parts in found.items()}
    return Docstring(_tidy(kept), {name: description for name, description in described.items() if description})


def _dedented(text: str) -> list[str]:
    first, *others = cleandoc(text).splitlines() or [""]
    if _SECTION.fullmatch(first) and others and others[0] and _indent(others[0]) == 0:
        # The heading is on the first line, so cleandoc has removed the indentation of the entries.
        others = [f"    {line}" if line else line for line in others]
    return [first, *others]


def _tidy(lines: list[str]) -> str:
    """Join lines, with a single blank line in place of a section."""
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip()


def _read_section(lines: list[str], start: int, found: dict[str, list[str]]) -> int:
    """Read a parameter section at a line, and return the line after it; the same line if there is no section."""
    line = lines[start].strip()
    if line.startswith(":"):
        return _read_sphinx(lines, start, found)
    if not _SECTION.fullmatch(line):
        return start
    if not line.endswith(":") and start + 1 < len(lines) and re.fullmatch(_UNDERLINE, lines[start + 1].strip()):
        return _read_numpy(lines, start + 2, found)
    return _read_google(lines, start, found) if line.endswith(":") else start


def _read_sphinx(lines: list[str], start: int, found: dict[str, list[str]]) -> int:
    entry = re.fullmatch(_SPHINX_ENTRY, lines[start].strip())
    if entry is None and not re.match(_SPHINX_TYPE, lines[start].strip()):
        return start
    end = _end_of_block(lines, start)
    if entry is not None:
        found[entry[1]] = [entry[2], *lines[start + 1 : end]]
    return end


def _read_google(lines: list[str], start: int, found: dict[str, list[str]]) -> int:
    end = _end_of_block(lines, start)
    body = lines[start + 1 : end]
    margin = min((_indent(line) for line in body if line.strip()), default=0)
    entries: dict[str, list[str]] = {}
    parts: list[str] | None = None
    for line in body:
        entry = re.fullmatch(_GOOGLE_ENTRY, line.strip()) if _indent(line) == margin else None
        if entry is not None:
            parts = entries[entry[1]] = [entry[2] or ""]
        elif parts is not None:
            parts.append(line)
    found.update(entries)
    return end if entries else start


def _read_numpy(lines: list[str], start: int, found: dict[str, list[str]]) -> int:
    margin = _indent(lines[start - 1])
    parts: list[str] = []
    position = start
    while position < len(lines):
        line = lines[position]
        if line.strip() and _indent(line) <= margin:
            entry = re.fullmatch(_NUMPY_ENTRY, line.strip())
            if entry is None or _is_underlined(lines, position):
                break
            parts = []
            found.update((name.strip().lstrip("*"), parts) for name in entry[1].split(","))
        else:
            parts.append(line)
        position += 1
    return position


def _is_underlined(lines: list[str], position: int) -> bool:
    return position + 1 < len(lines) and re.fullmatch(_UNDERLINE, lines[position + 1].strip()) is not None


def _end_of_block(lines: list[str], start: int) -> int:
    """Return the line after a heading and the lines indented below it."""
    margin = _indent(lines[start])
    end = start + 1
    while end < len(lines) and (not lines[end].strip() or _indent(lines[end]) > margin):
        end += 1
    return end


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())
