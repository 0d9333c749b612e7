"""HostFile: the configuration file of a host, JSON or TOML, changed by one entry and by nothing else.

A JSON file is written anew, in its order and with its indentation. So a file with comments is refused: they would be
lost. A TOML file is changed as text, because Python has no writer of TOML: the table of the entry is cut out, and the
new one is appended. The result is read again, and refused if anything else in it has changed. Rejected: a parser that
keeps comments, which would be a dependency for one verb.
"""

from __future__ import annotations

import json
import math
import os
import re
import shutil
import tomllib
from pathlib import Path
from typing import Any

from dragoman.errors import ConfigError
from dragoman.runtime.user_files import written_beside
from dragoman.types import Json

MAX_FILE_BYTES = 16 * 1024 * 1024
MAX_BACKUPS = 1_000


class HostFile:
    """The file of a host, and the servers that stand under a key of it.

    Raises:
        ConfigError: the file cannot be read, or cannot be changed without loss.
    """

    def __init__(self, path: Path, key: str) -> None:
        self.path = path
        self._key = key
        self._is_toml = path.suffix == ".toml"
        self._text = self._read()
        self._data = self._parsed(self._text)
        servers = self._data.get(key, {})
        if not isinstance(servers, dict):
            raise self._error(f"{key!r} is not an object, so no server can be added; correct the file")
        self._servers: Json = servers

    def _error(self, message: str) -> ConfigError:
        return ConfigError(message, file=str(self.path))

    def _read(self) -> str:
        try:
            if self.path.stat().st_size > MAX_FILE_BYTES:
                raise self._error(f"the file has more than {MAX_FILE_BYTES:,} bytes")
            return self.path.read_bytes().decode("utf-8-sig")
        except FileNotFoundError:
            return ""
        except (OSError, UnicodeDecodeError) as error:
            raise self._error(f"the file cannot be read: {error}") from None

    def _parsed(self, text: str) -> Json:
        try:
            found: Any = tomllib.loads(text) if self._is_toml else _loads(text)
        except (ValueError, RecursionError) as error:
            kind = "TOML" if self._is_toml else "JSON, or has comments, which would be lost"
            raise self._error(f"the file is not valid {kind} ({error}); nothing was changed") from None
        if not isinstance(found, dict):
            raise self._error("the file does not hold an object; nothing was changed")
        return found

    def entry(self, name: str) -> Json | None:
        """Return the entry of a server, if there is one.

        Raises:
            ConfigError: the entry is no object.
        """
        found = self._servers.get(name)
        if name in self._servers and not isinstance(found, dict):
            raise self._error(f"the entry of {name!r} is not an object; correct or remove it")
        return found

    def write(self, name: str, entry: Json) -> Path | None:
        """Write an entry, and return the backup of the file as it was, if it was there.

        Raises:
            ConfigError: the file cannot be written, or cannot be changed without loss.
        """
        text = self._changed(name, entry)
        place = self.path.resolve()  # a link stays a link
        try:
            place.parent.mkdir(parents=True, exist_ok=True)
            if self._read() != self._text:
                raise self._error("another program has changed the file just now; try again")
            backup = _backup(place) if place.exists() else None
            with written_beside(place, text.encode()) as fresh:
                if place.exists():
                    shutil.copymode(place, fresh)
                fresh.replace(place)
        except (OSError, UnicodeEncodeError) as error:
            raise self._error(f"the file cannot be written: {error}") from None
        return backup

    def _changed(self, name: str, entry: Json) -> str:
        expected = {**self._data, self._key: {**self._servers, name: entry}}
        if not self._is_toml:
            indent = re.search(r"\n([ \t]+)\S", self._text)
            return json.dumps(expected, indent=indent[1] if indent else 2, ensure_ascii=False) + "\n"
        before = _without_table(self._text, f"{self._key}.{name}").rstrip("\n")
        text = f"{before}\n\n" * bool(before) + fragment(self._key, name, entry, is_toml=True)
        try:
            is_kept = tomllib.loads(text) == expected
        except ValueError:
            is_kept = False
        if not is_kept:
            raise self._error(f"the entry of {name!r} cannot be changed without loss; change it by hand")
        return text


def fragment(key: str, name: str, entry: Json, *, is_toml: bool) -> str:
    """Return the part of a file that holds one entry."""
    if not is_toml:
        return json.dumps({key: {name: entry}}, indent=2, ensure_ascii=False) + "\n"
    lines = [f"[{key}.{name}]"]
    lines += [f"{_toml_key(field)} = {_toml(value)}" for field, value in entry.items() if not isinstance(value, dict)]
    for field, value in entry.items():
        if isinstance(value, dict):
            lines += ["", f"[{key}.{name}.{_toml_key(field)}]"]
            lines += [f"{_toml_key(inner)} = {_toml(one)}" for inner, one in value.items()]
    return "\n".join(lines) + "\n"


def _loads(text: str) -> Any:
    """Return JSON; what could not be written again as it was is refused."""

    def once(pairs: list[tuple[str, Any]]) -> Json:
        found = dict(pairs)
        if len(found) < len(pairs):
            raise ValueError("an object has a name twice, and one of the two would be lost")
        return found

    def number(word: str) -> float:
        value = float(word)
        if not math.isfinite(value):
            raise ValueError(f"{word} is not a number of JSON, or is too large")
        return value

    return json.loads(text.strip() or "{}", object_pairs_hook=once, parse_float=number, parse_constant=number)


def _toml_key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else _toml(name)


def _toml(value: Any) -> str:
    # Strings, numbers, booleans and lists of them are the same in JSON and TOML, but for one character.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _without_table(text: str, table: str) -> str:
    """Return a TOML text without a table and the tables below it; comments before the next table stay."""
    kept: list[str] = []
    comments: list[str] = []
    is_inside = False
    for line in text.splitlines(keepends=True):
        header = re.match(r"\s*\[+\s*([^\]]+?)\s*\]", line)
        if header:
            is_inside = header[1] == table or header[1].startswith(f"{table}.")
        if not is_inside:
            kept += [*comments, line]
        is_comment = is_inside and not line.partition("#")[0].strip()
        comments = [*comments, line] if is_comment else []
    return "".join([*kept, *comments])


def _backup(path: Path) -> Path:
    """Copy a file beside itself, under a name that is free."""
    for number in range(MAX_BACKUPS):
        copy = path.with_name(f"{path.name}.bak{number or ''}")
        try:
            os.close(os.open(copy, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        except FileExistsError:
            continue
        shutil.copy2(path, copy)
        return copy
    raise FileExistsError(f"there are {MAX_BACKUPS} backups of {path}; remove some")
