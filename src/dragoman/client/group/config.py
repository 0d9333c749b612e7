"""Configuration files of many servers, as the hosts of MCP write them.

`mcpServers` (Claude, Cursor, Gemini, Cline, Windsurf), `servers` with `inputs` (VS Code) and `mcp_servers` (RubyLLM,
Codex) are read, from JSON with comments, YAML or TOML. An entry that cannot be used carries its error and harms no
other; keys that are not known are kept. Secrets stand in the values of such files, so that neither errors nor
representations quote values.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from dragoman.client.group.expansion import EntryPlace, Inputs
from dragoman.client.group.jsonc import plain_json
from dragoman.client.group.login_entry import NAMES, authorization, is_for_program, is_on, login_of
from dragoman.errors import ConfigError
from dragoman.protocol.urls import is_http_url, redacted
from dragoman.runtime.callables import did_you_mean

Json = dict[str, Any]

FILES = (".mcp.json", "mcp.json", ".vscode/mcp.json", ".cursor/mcp.json")
"""Where a configuration is looked for in the working directory."""

_logger = logging.getLogger("dragoman.client")
_SERVERS = ("mcpServers", "servers", "mcp_servers")
_KINDS = {
    "stdio": "stdio",
    "local": "stdio",
    "sse": "sse",
    "http": "http",
    "streamable": "http",
    "streamablehttp": "http",
}
_KIND_KEYS = ("type", "transport", "transport_type", "transportType")
_URL_KEYS = ("httpUrl", "url", "serverUrl")
_ENV_FILE_KEYS = ("envFile", "env_file")
_WAY_KEYS = ("command", "args", "env", "cwd")
_HEADER_KEYS = ("headers", "http_headers")
_TIMEOUT_KEYS = ("timeout", "request_timeout", "requestTimeout")
_CONNECT_KEYS = ("connect_timeout", "connectTimeout", "startup_timeout_ms")
_SECONDS_KEYS = {"tool_timeout_sec": "timeout", "startup_timeout_sec": "connect_timeout"}
_TOKEN_VARIABLE, _HEADER_VARIABLES = "bearer_token_env_var", "env_http_headers"
_INCLUDE_KEYS = ("tools", "includeTools", "include_tools", "enabledTools", "enabled_tools")
_EXCLUDE_KEYS = ("excludeTools", "exclude_tools", "disabledTools", "disabled_tools")
_APPROVED_KEYS = ("autoApprove", "auto_approve", "alwaysAllow", "always_allow")
_INHERIT_KEYS = ("inherit_env", "inheritEnv")
_VERSION_KEYS = ("protocol_version", "protocolVersion")
_LOGIN_KEYS = ("oauth", "auth")
_KNOWN_KEYS = (
    *(*_KIND_KEYS, *_URL_KEYS, *_ENV_FILE_KEYS, *_WAY_KEYS, *_HEADER_KEYS, *_TIMEOUT_KEYS, *_CONNECT_KEYS),
    *(*_SECONDS_KEYS, *_INCLUDE_KEYS, *_EXCLUDE_KEYS, *_APPROVED_KEYS, *_VERSION_KEYS, *_INHERIT_KEYS, *_LOGIN_KEYS),
    *("disabled", "enabled", "required", "trusted", "with_prefix", "withPrefix", "prefix", "scopes", "extensions"),
    *(_TOKEN_VARIABLE, _HEADER_VARIABLES),
)
_OF_OTHERS = frozenset({"description", "name", "id", "title", "icon", "version", "gallery", "dev", "trust", "metadata"})
"""Keys that hosts write, and that say nothing about how to reach a server."""
_FILES_WITH_SECONDS = frozenset({"cline_mcp_settings.json", "mcp_settings.json"})
"""Files of Cline and its kin, whose time-outs are seconds."""
LONGEST_SECONDS, SHORTEST_MILLISECONDS = 3600, 1000


class ServerEntry(Struct, kw_only=True):
    """One server of a configuration file.

    Example:
        for entry in load("mcp.json"):
            print(entry.name, entry.error or "is fine")
    """

    name: str
    file: str | None = None
    target: Json = field(default_factory=dict)
    """What a client is pointed at."""
    options: Json = field(default_factory=dict)
    """What a client is told besides."""
    disabled: bool = False
    required: bool = False
    include: list[str] | None = None
    """The tools that are shown, as names or patterns; all of them if it is None."""
    exclude: list[str] = field(default_factory=list)
    """The tools that are not."""
    prefix: str | None = None
    """What the names of its tools begin with, beside a clash."""
    more: Json = field(default_factory=dict)
    """What else the entry says."""
    login: Json | None = None
    """What the entry says about a person's login, as arguments of `OAuth`; `options["auth"]` was made of it."""
    error: ConfigError | None = None
    """Why it cannot be used."""

    def __repr__(self) -> str:
        url = self.target.get("url")
        where = redacted(url) if isinstance(url, str) else self.target.get("command")
        return f"<{type(self).__name__} {self.name!r} {where if self.error is None else 'unusable'}>"


def load(
    source: str | os.PathLike[str] | Mapping[str, Any] | None = None, *, inputs: Inputs | None = None
) -> list[ServerEntry]:
    """Return the servers of a configuration: a file, what it would hold, or the first file that is found.

    Example:
        entries = load(".vscode/mcp.json", inputs={"token": token})

    Without a source it is what DRAGOMAN_CONFIG names, else `.mcp.json`, `mcp.json`, `.vscode/mcp.json` or
    `.cursor/mcp.json` of the working directory, else `dragoman/mcp.json` in the user's configuration directory; and no
    servers if there is none of them. `inputs` are the values of VS Code's inputs by their ids, or a function that is
    given each input.

    Raises:
        ConfigError: the file cannot be read, or is no configuration. An entry that cannot be used raises nothing, and
            carries its error.
    """
    if isinstance(source, Mapping):
        return list(_entries(source, EntryPlace(declared=source.get("inputs"), given=inputs)))
    path = find() if source is None else _from_home(os.fspath(source), "the path")
    if path is None:
        _logger.warning("There is no configuration file: neither %s nor one of the user's", ", ".join(FILES))
        return []
    return parse(read(path), path, inputs=inputs)


def parse(text: str, path: Path, *, inputs: Inputs | None = None) -> list[ServerEntry]:
    """Return the servers that the text of a configuration file names.

    Raises:
        ConfigError: it is no configuration.
    """
    document = _document(text, path)
    return list(_entries(document, EntryPlace(path, declared=document.get("inputs"), given=inputs)))


def raw_servers(text: str, path: Path) -> Json:
    """Return the entries of a configuration file by their names, as they are written: no reference is replaced.

    Raises:
        ConfigError: it is no configuration.
    """
    return _servers(_document(text, path), EntryPlace(path))


def raw_inputs(text: str, path: Path) -> Any:
    """Return what a configuration file says of its inputs, whose defaults `${input:id}` may stand for.

    Raises:
        ConfigError: it is no configuration.
    """
    return _document(text, path).get("inputs")


def find() -> Path | None:
    """Return the configuration file that is meant when none is named, if there is one."""
    named = os.environ.get("DRAGOMAN_CONFIG")
    if named:
        return _from_home(named, "DRAGOMAN_CONFIG")
    candidates = [*map(Path, FILES)]
    with suppress(RuntimeError):  # there is no home
        settings = Path(os.environ.get("XDG_CONFIG_HOME") or "~/.config").expanduser()
        candidates.append(settings / "dragoman" / "mcp.json")
    return next((path for path in candidates if path.is_file()), None)


# Documents.


def _from_home(text: str, where: str) -> Path:
    try:
        return Path(text).expanduser()
    except RuntimeError:
        raise ConfigError(f"{where} begins with the home folder of a user that there is not", text) from None


def read(path: Path) -> str:
    """Return the text of a configuration file.

    Raises:
        ConfigError: it cannot be read.
    """
    try:
        return path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise ConfigError(f"the file cannot be read: {error.strerror}", str(path)) from None
    except UnicodeDecodeError:
        raise ConfigError("the file is no UTF-8 text; save it as UTF-8", str(path)) from None


def _document(text: str, path: Path) -> Json:
    decode = {".yml": _from_yaml, ".yaml": _from_yaml, ".toml": _from_toml}.get(path.suffix.lower(), _from_json)
    try:
        document = decode(text, str(path))
    except ConfigError:
        raise
    except RecursionError:
        raise ConfigError("the file is nested too deeply", str(path)) from None
    except ValueError:  # no error of syntax, which each format tells by its own error
        raise ConfigError("the file holds an integer with too many digits", str(path)) from None
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
        raise ConfigError(f"the file is no JSON: {error.msg} in {where}", file) from None


def _from_toml(text: str, file: str) -> Any:
    import tomllib

    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"the file is no TOML: {error}", file) from None


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
        raise ConfigError(f"the file is no YAML: {error.problem}{where}", file) from None
    except yaml.YAMLError:
        raise ConfigError("the file is no YAML", file) from None


def _entries(document: Mapping[str, Any], place: EntryPlace) -> Iterator[ServerEntry]:
    for name, raw in _servers(document, place).items():
        yield read_entry(str(name), raw, place)


def _servers(document: Mapping[str, Any], place: EntryPlace) -> Json:
    nested = document.get("mcp")  # where VS Code's settings.json has them
    holders = [document, nested] if isinstance(nested, Mapping) else [document]
    found = [(key, holder[key]) for holder in holders for key in _SERVERS if key in holder]
    if not found and all(_is_entry(value) for value in document.values()):
        return {**document}
    if not found:
        raise place.error(f"there is none of the keys {', '.join(_SERVERS)}; put the servers under one of them")
    servers: Json = {}
    for key, value in found:
        if value is not None and not isinstance(value, Mapping):
            raise place.error("it must be an object of servers by their names", field=key)
        servers = {**(value or {}), **servers}
    return servers


def _is_entry(value: Any) -> bool:
    return isinstance(value, Mapping) and any(key in value for key in ("command", *_URL_KEYS))


# Entries.


def read_entry(name: str, raw: Any, place: EntryPlace) -> ServerEntry:
    """Return one server as an entry describes it; one that cannot be used carries its error."""
    entry = ServerEntry(name=name, file=place.file)
    if not isinstance(raw, Mapping):
        entry.error = place.error("it must be an object with `command` or `url`", name)
        return entry
    rest: Json = {str(key): value for key, value in raw.items()}
    entry.disabled = is_on(rest.pop("disabled", False)) or not is_on(rest.pop("enabled", True))
    entry.required = is_on(rest.pop("required", False))
    entry.include = _names(rest, _INCLUDE_KEYS)
    entry.exclude = _names(rest, _EXCLUDE_KEYS) or []
    _names(rest, _APPROVED_KEYS)  # what other hosts ask about is their business
    entry.prefix = _prefix(name, rest)
    try:
        _EntryReader(entry, rest, place, any(key in raw for key in _APPROVED_KEYS)).read()
    except ConfigError as error:
        entry.error = error
    return entry


class _EntryReader(Struct):
    """One entry while it is read: each step takes the keys that it knows out of `rest`."""

    _entry: ServerEntry
    _rest: Json
    _place: EntryPlace
    _is_of_cline: bool

    def read(self) -> None:
        entry = self._entry
        self._read_options()
        kind_key, kind = self._take(_KIND_KEYS)
        known = _KINDS.get(_plain(kind)) if kind is not None else None
        url_key, url = self._take(_URL_KEYS)
        env_file_key, env_file = self._take(_ENV_FILE_KEYS)
        way = {key: self._rest.pop(key) for key in _WAY_KEYS if self._rest.get(key) is not None}
        if kind is not None and known is None:
            entry.more = self._rest
            entry.target = self._of_foreign_kind(str(kind), url, way)
            return
        entry.more = self._rest
        self._warn_of_unknown(self._rest, _KNOWN_KEYS)
        if url is not None and not (known == "stdio" and "command" in way):
            self._require_kind(known, ("http", "sse"), kind_key, url_key)
            self._read_login()
            entry.target = {**self._by_url(url, url_key, known), "headers": self._headers()}
        elif "command" in way:
            self._require_kind(known, ("stdio",), kind_key, "command")
            entry.target = self._by_command(way)
            self._add_env_file(env_file, env_file_key)
        else:
            raise self._error("it needs `command` (and `args`), or `url`", "url" if known in ("http", "sse") else None)

    def _extensions(self, given: Any) -> Json:
        if not isinstance(given, Mapping) or not all(isinstance(settings, Mapping) for settings in given.values()):
            raise self._error("it must map the id of each extension to an object of settings", "extensions")
        return {str(id): dict(settings) for id, settings in given.items()}

    def _read_options(self) -> None:
        options = self._entry.options
        self._read_times()
        for keys, option, read in (
            (_VERSION_KEYS, "protocol_version", str),
            (_INHERIT_KEYS, "inherit_env", is_on),
            (("trusted",), "trusted", is_on),
        ):
            _, value = self._take(keys)
            if value is not None:
                options[option] = read(value)
        if "extensions" in self._rest:
            options["extensions"] = self._extensions(self._rest.pop("extensions"))
        if isinstance(self._rest.get("auth"), str) and self._rest["auth"] != "oauth":
            options["auth"] = self._expanded(self._rest.pop("auth"), "auth")

    def _read_times(self) -> None:
        """Read time-outs: milliseconds, but for the keys and files of hosts that write seconds."""
        options = self._entry.options
        for key, option in _SECONDS_KEYS.items():
            seconds = self._number(self._rest.pop(key, None), key, "seconds")
            if seconds is not None:
                options[option] = seconds
        for keys, option in ((_TIMEOUT_KEYS, "timeout"), (_CONNECT_KEYS, "connect_timeout")):
            key, value = self._take(keys)
            number = self._number(value, key, "milliseconds")
            if number is None:
                continue
            if key == "timeout" and self._is_in_seconds(number):
                options[option] = number
                continue
            options[option] = number / 1000
            if number < SHORTEST_MILLISECONDS:
                self._warn(f"{key} is in milliseconds, so that it is {number / 1000:g} seconds; is that meant?")

    def _is_in_seconds(self, number: float) -> bool:
        file = self._place.file
        if file is not None and Path(file).name in _FILES_WITH_SECONDS:
            return True
        return self._is_of_cline and number <= LONGEST_SECONDS

    def _number(self, value: Any, key: str, unit: str) -> float | None:
        if value is not None and (isinstance(value, bool) or not isinstance(value, int | float) or not value > 0):
            raise self._error(f"it must be a number of {unit} above 0", key)
        return value

    def _headers(self) -> dict[str, str]:
        """Return the headers of an entry; Codex names variables that hold some of them."""
        found: dict[str, str] = {}
        for key in _HEADER_KEYS:
            found.update(self._texts(self._rest.pop(key, None), key))
        named = self._texts(self._rest.pop(_HEADER_VARIABLES, None), _HEADER_VARIABLES)
        found.update({name: self._variable(each, f"{_HEADER_VARIABLES}.{name}") for name, each in named.items()})
        token = self._rest.pop(_TOKEN_VARIABLE, None)
        if token is not None:
            found["Authorization"] = f"Bearer {self._variable(self._text(token, _TOKEN_VARIABLE), _TOKEN_VARIABLE)}"
        return found

    def _variable(self, name: str, field: str) -> str:
        value = os.environ.get(name)
        if not value:
            raise self._error(f"the environment variable {name} is not set; set it", field)
        return value

    def _read_login(self) -> None:
        """Read who logs in: each entry gets an authorization of its own."""
        key, said = self._take(_LOGIN_KEYS)
        scopes = self._rest.pop("scopes", None)
        try:
            login = login_of(
                said,
                lambda value: self._expanded(value, key),
                lambda name: self._warn_of_unknown([f"{key}.{name}"], [f"{key}.{known}" for known in NAMES]),
            )
            if login is None:
                return
            if scopes is not None:
                login.setdefault("scope", self._expanded(scopes, "scopes"))
            self._entry.options["auth"] = authorization(login)
        except ValueError as error:
            raise self._error(str(error), key) from None
        if not is_for_program(login):
            self._entry.login = {name: value for name, value in login.items() if name != "grant_type"}

    def _warn_of_unknown(self, keys: Iterable[str], known: Sequence[str]) -> None:
        """Warn of keys that are not known, each with the known one that is most like it."""
        for key in keys:
            if key in _OF_OTHERS or key in _KNOWN_KEYS or key.startswith(("_", "$", "/", "x-")):
                continue
            self._warn(f"the key {key!r} is not known{did_you_mean(key, known)}")

    def _warn(self, message: str) -> None:
        _logger.warning("%s", self._error(message, None))

    def _of_foreign_kind(self, kind: str, url: Any, way: Json) -> Json:
        """Return what a transport that was registered under a name is given."""
        given = {**way, **({} if url is None else {"url": url}), **self._entry.more}
        return {"type": kind, **{key: self._expanded(value, key) for key, value in given.items()}}

    def _by_url(self, url: Any, key: str, kind: str | None) -> Json:
        text = self._text(url, key)
        if not is_http_url(text):
            raise self._error("it must be a URL that begins with http:// or https://", key)
        return {"url": text} if kind is None else {"url": text, "type": kind}

    def _by_command(self, way: Json) -> Json:
        command, args = way["command"], way.get("args", [])
        if isinstance(command, list) and command:
            command, args = command[0], [*command[1:], *(args if isinstance(args, list) else [args])]
        if not isinstance(args, list):
            raise self._error("it must be a list", "args")
        target: Json = {
            "type": "stdio",
            "command": self._text(command, "command"),
            "args": [self._text(arg, f"args[{index}]") for index, arg in enumerate(args)],
            "env": self._texts(way.get("env"), "env"),
        }
        if "cwd" in way:
            target["cwd"] = str(self._path(way["cwd"], "cwd"))
        return target

    def _add_env_file(self, env_file: Any, key: str) -> None:
        if env_file is None:
            return
        path = self._path(env_file, key)
        try:
            # A device or a pipe may have no end.
            text = path.read_text(encoding="utf-8-sig") if path.is_file() else None
        except (OSError, ValueError):
            text = None
        if text is None:
            raise self._error("the file that it names cannot be read", key)
        self._entry.target["env"] = {**read_variables(text), **self._entry.target["env"]}

    def _require_kind(self, kind: str | None, possible: tuple[str, ...], key: str, way: str) -> None:
        if kind is not None and kind not in possible:
            raise self._error(f"{kind!r} does not go with `{way}`; leave `{key}` out, or name another", key)

    def _path(self, value: Any, field: str) -> Path:
        try:
            return self._place.path(self._text(value, field))
        except RuntimeError:
            raise self._error("it begins with the home folder of a user that there is not", field) from None

    def _texts(self, value: Any, field: str) -> dict[str, str]:
        if value is None:
            return {}
        if not isinstance(value, Mapping):
            raise self._error("it must be an object of texts by their names", field)
        return {str(key): self._text(part, f"{field}.{key}") for key, part in value.items() if part is not None}

    def _text(self, value: Any, field: str) -> str:
        if isinstance(value, bool):
            return str(value).lower()
        if not isinstance(value, str | int | float):
            raise self._error("it must be a text", field)
        text = str(self._expanded(str(value), field))
        if not text and field in ("command", *_URL_KEYS):
            raise self._error("it must not be empty", field)
        return text

    def _expanded(self, value: Any, field: str) -> Any:
        return self._place.expand(value, self._entry.name, field)

    def _take(self, keys: tuple[str, ...]) -> tuple[str, Any]:
        """Take out what the first of some keys says; the others say the same."""
        found = [(key, self._rest.pop(key)) for key in keys if key in self._rest]
        return next(((key, value) for key, value in found if value is not None), (keys[0], None))

    def _error(self, message: str, field: str | None) -> ConfigError:
        return self._place.error(message, self._entry.name, field)


def _plain(kind: Any) -> str:
    """Return the name of a transport as all of its spellings have it; Ruby writes `:stdio`."""
    return str(kind).strip().lstrip(":").lower().replace("-", "").replace("_", "")


def _names(rest: Json, keys: tuple[str, ...]) -> list[str] | None:
    """Take out lists of names; what is none is left, for nobody knows what it means."""
    found: list[str] | None = None
    for key in keys:
        value = rest.get(key)
        names = [value] if isinstance(value, str) else value
        if isinstance(names, list) and all(isinstance(name, str) for name in names):
            found = [*(found or []), *names]
            del rest[key]
    return found


def _prefix(name: str, rest: Json) -> str | None:
    wanted = rest.pop("with_prefix", rest.pop("withPrefix", False))
    prefix = rest.pop("prefix", None)
    if isinstance(prefix, str) and prefix:
        return prefix
    return name if is_on(wanted) or prefix is True else None


def read_variables(text: str) -> dict[str, str]:
    """Return the variables of an `.env` file; lines that are none are skipped."""
    found: dict[str, str] = {}
    for line in text.splitlines():
        name, equals, value = line.strip().removeprefix("export ").partition("=")
        if equals and not name.startswith("#"):
            found[name.strip()] = _variable(value.strip())
    return found


def _variable(value: str) -> str:
    quote = value[:1]
    if quote in ("'", '"') and value.find(quote, 1) > 0:
        inner = value[1 : value.rindex(quote)]
        return inner.replace("\\n", "\n").replace('\\"', '"') if quote == '"' else inner
    return value.partition(" #")[0].rstrip()
