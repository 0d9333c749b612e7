"""Configuration files of many servers, in the formats of MCP hosts.

The servers stand under `mcpServers` (Claude, Cursor, Gemini, Cline, Windsurf), `servers` with `inputs` (VS Code) or
`mcp_servers` (RubyLLM, Codex), in JSON with comments, YAML or TOML. Such files hold secrets, so neither errors nor
representations quote values.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from dragoman.client.group.entry import TRANSPORT_KEYS, URL_KEYS, Json, ServerEntry, read_entry
from dragoman.client.group.references import ConfigSource, Inputs
from dragoman.errors import ConfigError

FILES = (".mcp.json", "mcp.json", ".vscode/mcp.json", ".cursor/mcp.json")
"""The configuration files of a working directory, in the order in which they are looked for."""

_logger = logging.getLogger("dragoman.client")
_SUFFIXES = frozenset({".json", ".jsonc", ".yaml", ".yml", ".toml"})
_SERVERS_KEYS = ("mcpServers", "servers", "mcp_servers")
_JSON_STRING = r'"[^"\\]*(?:\\.[^"\\]*)*"'
_COMMENT = re.compile(rf"{_JSON_STRING}|//[^\r\n]*|/\*.*?\*/", re.DOTALL)
_TRAILING_COMMA = re.compile(rf"{_JSON_STRING}|,(?=\s*[}}\]])", re.DOTALL)


def load(
    source: str | os.PathLike[str] | Mapping[str, Any] | None = None, *, inputs: Inputs | None = None
) -> list[ServerEntry]:
    """Return the servers of a configuration: of a file, of its decoded content, or of the first file that is found.

    Example:
        entries = load(".vscode/mcp.json", inputs={"token": token})

    Without a source the file is the one that DRAGOMAN_CONFIG names, else `.mcp.json`, `mcp.json`, `.vscode/mcp.json` or
    `.cursor/mcp.json` in the working directory, else `dragoman/mcp.json` in the user's configuration directory. Without
    any of them the list is empty. `inputs` are the values of VS Code's inputs by their ids, or a function that takes
    each input's description.

    Raises:
        ConfigError: the file cannot be read, or is not a configuration. An entry that cannot be used raises nothing;
            its error is in `ServerEntry.error`.
    """
    if isinstance(source, Mapping):
        return list(_entries(source, ConfigSource(declared=source.get("inputs"), given=inputs)))
    path = find() if source is None else _expand_home(os.fspath(source), "the path")
    if path is None:
        _logger.warning("There is no configuration file: neither %s nor one of the user's", ", ".join(FILES))
        return []
    return parse(read(path), path, inputs=inputs)


def is_configuration(target: object) -> bool:
    """Tell whether a target is a configuration: the path of a file, or its decoded content; an entry is none.

    Example:
        is_configuration({"mcpServers": {}})  # True
        is_configuration({"command": "notes-server"})  # False
    """
    if isinstance(target, Mapping):
        is_entry = _is_entry(target) or any(isinstance(target.get(key), str) for key in TRANSPORT_KEYS)
        has_servers = any(key in target for key in (*_SERVERS_KEYS, "mcp"))
        return not is_entry and (has_servers or (bool(target) and all(map(_is_entry, target.values()))))
    if not isinstance(target, str | os.PathLike):
        return False
    text = os.fspath(target)
    is_file_name = isinstance(text, str) and "://" not in text and Path(text).suffix.lower() in _SUFFIXES
    return is_file_name and (" " not in text or Path(text).is_file())  # a command may end with the name of a file


def parse(text: str, path: Path, *, inputs: Inputs | None = None) -> list[ServerEntry]:
    """Return the servers in the text of a configuration file.

    Raises:
        ConfigError: the text is not a configuration.
    """
    document = _decode(text, path)
    return list(_entries(document, ConfigSource(path, declared=document.get("inputs"), given=inputs)))


def raw_servers(text: str, path: Path) -> Json:
    """Return the entries of a configuration file by their names, without replacing references.

    Raises:
        ConfigError: the text is not a configuration.
    """
    return _servers(_decode(text, path), ConfigSource(path))


def raw_inputs(text: str, path: Path) -> Any:
    """Return the `inputs` of a configuration file, which have the defaults of `${input:id}`.

    Raises:
        ConfigError: the text is not a configuration.
    """
    return _decode(text, path).get("inputs")


def find() -> Path | None:
    """Return the configuration file to use when none is named, if there is one."""
    named = os.environ.get("DRAGOMAN_CONFIG")
    if named:
        return _expand_home(named, "DRAGOMAN_CONFIG")
    candidates = [*map(Path, FILES)]
    with suppress(RuntimeError):  # there is no home folder
        settings = Path(os.environ.get("XDG_CONFIG_HOME") or "~/.config").expanduser()
        candidates.append(settings / "dragoman" / "mcp.json")
    return next((path for path in candidates if path.is_file()), None)


def read(path: Path) -> str:
    """Return the text of a configuration file.

    Raises:
        ConfigError: the file cannot be read.
    """
    try:
        return path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise ConfigError(f"the file cannot be read: {error.strerror}", str(path)) from None
    except UnicodeDecodeError:
        raise ConfigError("the file is not UTF-8 text; save it as UTF-8", str(path)) from None


def plain_json(text: str) -> str:
    """Return JSON with spaces instead of comments and trailing commas, so that lines and columns stay the same.

    Example:
        plain_json('{"a": [1, 2,], // two' + chr(10) + "}")
    """
    return _TRAILING_COMMA.sub(_blank, _COMMENT.sub(_blank, text))


def _blank(found: re.Match[str]) -> str:
    text = found[0]
    return text if text.startswith('"') else re.sub(r"[^\r\n]", " ", text)


def _expand_home(text: str, where: str) -> Path:
    try:
        return Path(text).expanduser()
    except RuntimeError:
        raise ConfigError(f"{where} names a user that does not exist", text) from None


def _decode(text: str, path: Path) -> Json:
    decode = {".yml": _from_yaml, ".yaml": _from_yaml, ".toml": _from_toml}.get(path.suffix.lower(), _from_json)
    try:
        document = decode(text, str(path))
    except ConfigError:
        raise
    except RecursionError:
        raise ConfigError("the file is nested too deeply", str(path)) from None
    except ValueError:  # each decoder turns its own errors of syntax into a ConfigError
        raise ConfigError("the file has an integer with too many digits", str(path)) from None
    if document is None:
        return {}
    if not isinstance(document, dict):
        raise ConfigError("the file must hold an object with the key mcpServers", str(path))
    return document


def _from_json(text: str, file: str) -> Any:
    import json

    text = plain_json(text)
    try:
        return json.loads(text) if text.strip() else None
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        remedy = "; write each backslash twice" if "escape" in error.msg else ""
        raise ConfigError(f"the file is not valid JSON: {error.msg} in {where}{remedy}", file) from None


def _from_toml(text: str, file: str) -> Any:
    import tomllib

    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"the file is not valid TOML: {error}", file) from None


def _from_yaml(text: str, file: str) -> Any:
    try:
        import yaml  # type: ignore[import-untyped]
    except ImportError:
        remedy = "install it with `pip install dragoman[yaml]`, or write the file as JSON"
        raise ConfigError(f"reading YAML needs the package PyYAML; {remedy}", file) from None
    try:
        return yaml.safe_load(text)
    except yaml.MarkedYAMLError as error:  # its own text quotes the line
        where = "" if error.problem_mark is None else f" in line {error.problem_mark.line + 1}"
        raise ConfigError(f"the file is not valid YAML: {error.problem}{where}", file) from None
    except yaml.YAMLError:
        raise ConfigError("the file is not valid YAML", file) from None


def _entries(document: Mapping[str, Any], source: ConfigSource) -> Iterator[ServerEntry]:
    for name, raw in _servers(document, source).items():
        yield read_entry(str(name), raw, source)


def _servers(document: Mapping[str, Any], source: ConfigSource) -> Json:
    nested = document.get("mcp")  # the settings.json of VS Code has the servers below this key
    holders = [document, nested] if isinstance(nested, Mapping) else [document]
    found = [(key, holder[key]) for holder in holders for key in _SERVERS_KEYS if key in holder]
    if not found and all(_is_entry(value) for value in document.values()):
        return {**document}
    if not found:
        raise source.error(f"the file has none of the keys {', '.join(_SERVERS_KEYS)}; put the servers under one")
    servers: Json = {}
    for key, value in found:
        if value is not None and not isinstance(value, Mapping):
            raise source.error("it must be an object of servers by their names", field=key)
        servers = {**(value or {}), **servers}
    return servers


def _is_entry(value: Any) -> bool:
    return isinstance(value, Mapping) and any(key in value for key in ("command", *URL_KEYS))
