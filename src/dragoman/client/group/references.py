"""References in configuration files: `${VAR}`, `${VAR:-default}`, `${env:VAR}` and `${input:id}`.

A bare `$VAR` and any other `${...}` stay as they are. The value of a reference is not expanded again, so that a secret
may hold `${`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from dragoman.errors import ConfigError

Inputs = Mapping[str, str] | Callable[[dict[str, Any]], str]
"""The values of inputs by their ids, or a function that takes the description of each input."""

_REFERENCE = re.compile(
    r"\$\{(?:env:)?(?P<variable>[A-Za-z_]\w*)(?::-(?P<default>(?:\$\{[^{}]*\}|[^{}])*))?\}|\$\{input:(?P<input>[^{}]+)\}"
)


class ConfigSource:
    """The source of entries: its file, the folder that paths are relative to, and the values of its references."""

    def __init__(self, path: Path | None = None, *, declared: Any = None, given: Inputs | None = None) -> None:
        self.file = None if path is None else str(path)
        self.folder = Path.cwd() if path is None else _workspace_of(path)
        self._is_yaml = path is not None and path.suffix.lower() in (".yml", ".yaml")
        self._given = given
        inputs = declared if isinstance(declared, list) else []
        self._declared = {str(one["id"]): one for one in inputs if isinstance(one, dict) and "id" in one}
        self._names = {"workspaceFolder": str(self.folder), "userHome": os.path.expanduser("~")}  # noqa: PTH111

    def expand(self, value: Any, server: str, field: str) -> Any:
        """Return a value with its references replaced, at any depth.

        Raises:
            ConfigError: a reference has no value; the error names the file, the server and the field.
        """
        if isinstance(value, Mapping):
            return {str(key): self.expand(part, server, f"{field}.{key}") for key, part in value.items()}
        if isinstance(value, list):
            return [self.expand(part, server, f"{field}[{index}]") for index, part in enumerate(value)]
        if not isinstance(value, str):
            return value
        if self._is_yaml and "<%" in value:
            raise self.error("Ruby in <% %> is not run; write ${VAR}, which stands for a variable", server, field)
        return _REFERENCE.sub(lambda found: self._value(found, server, field), value)

    def _value(self, found: re.Match[str], server: str, field: str) -> str:
        if found["input"] is not None:
            return self._input(found["input"], server, field)
        name, default = found["variable"], found["default"]
        value = os.environ.get(name, self._names.get(name))
        if default is not None and not value:
            return str(self.expand(default, server, field))
        if value is None:
            remedy = f"set it, or write ${{{name}:-default}}"
            raise self.error(f"the environment variable {name} is not set; {remedy}", server, field)
        return value

    def _input(self, id: str, server: str, field: str) -> str:
        declared = self._declared.get(id, {"id": id})
        if callable(self._given):
            return str(self._given(declared))
        if self._given is not None and id in self._given:
            return str(self._given[id])
        if declared.get("default") is not None:
            return str(declared["default"])
        raise self.error(f"the input {id!r} was not given; give it as inputs={{{id!r}: ...}}", server, field)

    def path(self, text: str) -> Path:
        """Return a path relative to the folder of the file."""
        return self.folder / Path(text).expanduser()

    def error(self, message: str, server: str | None = None, field: str | None = None) -> ConfigError:
        """Return an error that names the file, the server and the field."""
        return ConfigError(message, self.file, server, field)


def _workspace_of(path: Path) -> Path:
    folder = path.absolute().parent
    return folder.parent if folder.name in (".vscode", ".cursor") else folder
