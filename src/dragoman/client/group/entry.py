"""One server's entry in a configuration file.

The hosts spell the same key in different ways, so most fields have several keys. An entry that cannot be used has an
`error`, and the other entries stay usable. Unknown keys are kept, with a warning. Entries hold secrets, so neither
errors nor representations quote values.

The key `oauth`, or `auth` if its value is not a token, configures the login. Each entry gets an authorization of its
own, because an authorization belongs to one server.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from dragoman.client.connect.endpoint import COMMAND_AND_URL
from dragoman.client.group.references import ConfigSource
from dragoman.errors import AuthError, ConfigError
from dragoman.protocol.urls import is_http_url, redacted
from dragoman.runtime.callables import did_you_mean
from dragoman.schema.naming import matches

Json = dict[str, Any]

URL_KEYS = ("httpUrl", "url", "serverUrl")
MAX_SECONDS = 3600
"""The largest `timeout` in an entry of Cline's style that is read as seconds."""
MIN_MILLISECONDS = 1000
"""A time-out of fewer milliseconds causes a warning: its author may have meant seconds."""

_logger = logging.getLogger("dragoman.client")
_TRANSPORTS = {
    **{name: name for name in ("stdio", "sse", "http")},
    "local": "stdio",
    "streamable": "http",
    "streamablehttp": "http",
}
TRANSPORT_KEYS = ("type", "transport", "transport_type", "transportType")
_ENV_FILE_KEYS = ("envFile", "env_file")
_COMMAND_KEYS = ("command", "args", "env", "cwd")
_HEADER_KEYS = ("headers", "http_headers")
_TIMEOUT_KEYS = (
    (("tool_timeout_sec",), "timeout", "seconds"),
    (("startup_timeout_sec",), "connect_timeout", "seconds"),
    (("timeout", "request_timeout", "requestTimeout"), "timeout", "milliseconds"),
    (("connect_timeout", "connectTimeout", "startup_timeout_ms"), "connect_timeout", "milliseconds"),
)
_TOKEN_VARIABLE, _HEADER_VARIABLES = "bearer_token_env_var", "env_http_headers"
_INCLUDE_KEYS = ("tools", "includeTools", "include_tools", "enabledTools", "enabled_tools")
_EXCLUDE_KEYS = ("excludeTools", "exclude_tools", "disabledTools", "disabled_tools")
_APPROVED_KEYS = ("autoApprove", "auto_approve", "alwaysAllow", "always_allow")
_INHERIT_KEYS = ("inherit_env", "inheritEnv")
_VERSION_KEYS = ("protocol_version", "protocolVersion")
_LOGIN_KEYS = ("oauth", "auth")
_KNOWN_KEYS = (
    *(*TRANSPORT_KEYS, *URL_KEYS, *_ENV_FILE_KEYS, *_COMMAND_KEYS, *_HEADER_KEYS),
    *(key for keys, _, _ in _TIMEOUT_KEYS for key in keys),
    *(*_INCLUDE_KEYS, *_EXCLUDE_KEYS, *_APPROVED_KEYS, *_VERSION_KEYS, *_INHERIT_KEYS, *_LOGIN_KEYS),
    *("disabled", "enabled", "required", "trusted", "with_prefix", "withPrefix", "prefix", "scopes", "extensions"),
    *(_TOKEN_VARIABLE, _HEADER_VARIABLES),
)
_IGNORED_KEYS = frozenset(
    {"description", "name", "id", "title", "icon", "version", "gallery", "dev", "trust", "metadata"}
)
"""Keys that hosts write, and that do not affect the connection."""
_FILES_IN_SECONDS = frozenset({"cline_mcp_settings.json", "mcp_settings.json"})
"""Files of Cline and its derivatives, whose `timeout` is in seconds."""
_FULL_WORDS = {"cmd": "command"}
"""Abbreviations whose full word is not the most similar key."""
_AUTH_KEYS = ("client_id", "client_secret", "scope", "redirect_uri", "callback_port", "issuer", "grant_type", "enabled")
_AUTH_SPELLINGS = {
    **{name.replace("_", ""): name for name in (*_AUTH_KEYS, "client_id_metadata_document_url", "client_name")},
    "scopes": "scope",
}


class ServerEntry(Struct, kw_only=True):
    """One server of a configuration file.

    Example:
        for entry in load("mcp.json"):
            print(entry.name, entry.error or "is fine")
    """

    name: str
    file: str | None = None
    target: Json = field(default_factory=dict)
    """The target of the client."""
    options: Json = field(default_factory=dict)
    """The options of the client."""
    disabled: bool = False
    required: bool = False
    include: list[str] | None = None
    """The tools to show, as names or patterns; None shows all."""
    exclude: list[str] = field(default_factory=list)
    """The tools to hide."""
    prefix: str | None = None
    """The prefix of the names of the server's tools, even if no names clash."""
    more: Json = field(default_factory=dict)
    """The unknown keys."""
    login: Json | None = None
    """The arguments of the `OAuth` object in `options["auth"]`, if a person logs in."""
    error: ConfigError | None = None
    """Why the entry cannot be used; None if it can."""

    def shows(self, tool: str) -> bool:
        """Tell whether a tool is to be shown."""
        return (self.include is None or matches(self.include, tool)) and not matches(self.exclude, tool)

    def __repr__(self) -> str:
        url = self.target.get("url")
        where = redacted(url) if isinstance(url, str) else self.target.get("command")
        return f"<{type(self).__name__} {self.name!r} {where if self.error is None else 'unusable'}>"


def read_entry(name: str, raw: Any, source: ConfigSource) -> ServerEntry:
    """Return the server that an entry describes; if it cannot be used, `error` is set."""
    entry = ServerEntry(name=name, file=source.file)
    if not isinstance(raw, Mapping):
        entry.error = source.error("it must be an object with `command` or `url`", name)
        return entry
    unread: Json = {str(key): value for key, value in raw.items()}
    entry.disabled = is_on(unread.pop("disabled", False)) or not is_on(unread.pop("enabled", True))
    entry.required = is_on(unread.pop("required", False))
    entry.include = _take_names(unread, _INCLUDE_KEYS)
    entry.exclude = _take_names(unread, _EXCLUDE_KEYS) or []
    _take_names(unread, _APPROVED_KEYS)  # these keys configure the approvals of other hosts
    has_prefix = is_on(unread.pop("with_prefix", unread.pop("withPrefix", False)))
    prefix = unread.pop("prefix", None)
    entry.prefix = prefix if prefix and isinstance(prefix, str) else name if has_prefix or prefix is True else None
    try:
        _EntryReader(entry, unread, source, any(key in raw for key in _APPROVED_KEYS)).read()
    except ConfigError as error:
        entry.error = error
    return entry


class _EntryReader(Struct):
    """One entry while it is read: each step removes the keys that it reads from `unread`."""

    _entry: ServerEntry
    _unread: Json
    _source: ConfigSource
    _is_of_cline: bool

    def read(self) -> None:
        entry = self._entry
        self._read_options()
        transport_key, transport = self._take(TRANSPORT_KEYS)
        # Ruby writes `:stdio`.
        plain = str(transport).strip().lstrip(":").lower().replace("-", "").replace("_", "")
        known = None if transport is None else _TRANSPORTS.get(plain)
        url_key, url = self._take(URL_KEYS)
        env_file_key, env_file = self._take(_ENV_FILE_KEYS)
        command = {key: self._unread.pop(key) for key in _COMMAND_KEYS if self._unread.get(key) is not None}
        entry.more = self._unread
        if transport is not None and known is None:  # it may be registered by `register_transport`
            given = {**command, **({} if url is None else {"url": url}), **entry.more}
            entry.target = {"type": str(transport), **{key: self._expand(given[key], key) for key in given}}
            return
        self._warn_of_unknown(self._unread, _KNOWN_KEYS)
        if url is not None and "command" in command:
            raise self._error(COMMAND_AND_URL, url_key)
        if url is not None:
            self._require_transport(known, ("http", "sse"), transport_key, url_key)
            self._read_login()
            text = self._text(url, url_key)
            if not is_http_url(text):
                raise self._error("it must be a URL that begins with http:// or https://", url_key)
            kind = {} if known is None else {"type": known}
            entry.target = {"url": text, **kind, "headers": self._headers()}
        elif "command" in command:
            self._require_transport(known, ("stdio",), transport_key, "command")
            entry.target = self._program(command)
            if env_file is not None:
                entry.target["env"] = {**self._env_file(env_file, env_file_key), **entry.target["env"]}
        else:
            raise self._error("it needs `command` (and `args`), or `url`", "url" if known in ("http", "sse") else None)

    # Options of the client.

    def _read_options(self) -> None:
        options = self._entry.options
        self._read_timeouts()
        for keys, option, convert in (
            (_VERSION_KEYS, "protocol_version", str),
            (_INHERIT_KEYS, "inherit_env", is_on),
            (("trusted",), "trusted", is_on),
        ):
            _, value = self._take(keys)
            if value is not None:
                options[option] = convert(value)
        if "extensions" in self._unread:
            given = self._unread.pop("extensions")
            if not isinstance(given, Mapping) or not all(isinstance(settings, Mapping) for settings in given.values()):
                raise self._error("it must map the id of each extension to an object of settings", "extensions")
            options["extensions"] = {str(id): dict(settings) for id, settings in given.items()}
        if isinstance(self._unread.get("auth"), str) and self._unread["auth"] != "oauth":
            options["auth"] = self._expand(self._unread.pop("auth"), "auth")

    def _read_timeouts(self) -> None:
        for keys, option, unit in _TIMEOUT_KEYS:
            key, value = self._take(keys)
            if value is None:
                continue
            if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
                raise self._error(f"it must be a number of {unit} above 0", key)
            is_in_seconds = unit == "seconds" or (key == "timeout" and self._is_in_seconds(value))
            self._entry.options[option] = value if is_in_seconds else value / 1000
            if not is_in_seconds and value < MIN_MILLISECONDS:
                self._warn(f"{key} is in milliseconds, so that it is {value / 1000:g} seconds; is that meant?")

    def _is_in_seconds(self, timeout: float) -> bool:
        file = self._source.file
        is_cline_file = file is not None and Path(file).name in _FILES_IN_SECONDS
        return is_cline_file or (self._is_of_cline and timeout <= MAX_SECONDS)

    def _read_login(self) -> None:
        key, given = self._take(_LOGIN_KEYS)
        scopes = self._unread.pop("scopes", None)
        try:
            login = self._login(key, given)
            if login is None:
                return
            if scopes is not None:
                login.setdefault("scope", self._expand(scopes, "scopes"))
            is_of_program = str(login.pop("grant_type", "")).strip().lstrip(":") == "client_credentials"
            self._entry.options["auth"] = _authorization(login, is_of_program=is_of_program)
        except ValueError as error:
            raise self._error(str(error), key) from None
        if not is_of_program:
            self._entry.login = login

    def _login(self, key: str, given: Any) -> Json | None:
        """Return the arguments of the authorization that the entry configures; None if it configures none."""
        if not isinstance(given, Mapping):
            return {} if given == "oauth" or is_on(given) else None
        login: Json = {}
        for spelling, value in given.items():
            name = _AUTH_SPELLINGS.get(str(spelling).lower().replace("_", "").replace("-", ""))
            if name is None:
                self._warn_of_unknown([f"{key}.{spelling}"], [f"{key}.{known}" for known in _AUTH_KEYS])
            elif value is not None:
                login[name] = self._expand(value, key)
        return _login_arguments(login) if is_on(login.pop("enabled", True)) else None

    # The target of the client.

    def _headers(self) -> dict[str, str]:
        """Return the headers; in the style of Codex, environment variables hold some of them."""
        found: dict[str, str] = {}
        for key in _HEADER_KEYS:
            found.update(self._texts(self._unread.pop(key, None), key))
        named = self._texts(self._unread.pop(_HEADER_VARIABLES, None), _HEADER_VARIABLES)
        found.update({name: self._variable(each, f"{_HEADER_VARIABLES}.{name}") for name, each in named.items()})
        token = self._unread.pop(_TOKEN_VARIABLE, None)
        if token is not None:
            found["Authorization"] = f"Bearer {self._variable(self._text(token, _TOKEN_VARIABLE), _TOKEN_VARIABLE)}"
        return found

    def _variable(self, name: str, field: str) -> str:
        value = os.environ.get(name)
        if not value:
            raise self._error(f"the environment variable {name} is not set; set it", field)
        return value

    def _program(self, given: Json) -> Json:
        command, args = given["command"], given.get("args", [])
        if isinstance(command, list) and command:
            command, args = command[0], [*command[1:], *(args if isinstance(args, list) else [args])]
        if not isinstance(args, list):
            raise self._error("it must be a list", "args")
        target: Json = {
            "type": "stdio",
            "command": self._text(command, "command"),
            "args": [self._text(arg, f"args[{index}]") for index, arg in enumerate(args)],
            "env": self._texts(given.get("env"), "env"),
        }
        if "cwd" in given:
            target["cwd"] = str(self._path(given["cwd"], "cwd"))
        return target

    def _env_file(self, env_file: Any, key: str) -> dict[str, str]:
        path = self._path(env_file, key)
        try:
            # Only a regular file: a device or a pipe may have no end.
            if path.is_file():
                return read_variables(path.read_text(encoding="utf-8-sig"))
        except (OSError, ValueError):
            pass
        raise self._error("the file that it names cannot be read", key)

    def _require_transport(self, known: str | None, possible: tuple[str, ...], key: str, used_key: str) -> None:
        if known is not None and known not in possible:
            raise self._error(f"{known!r} does not go with `{used_key}`; leave `{key}` out, or name another", key)

    # Values.

    def _path(self, value: Any, field: str) -> Path:
        try:
            return self._source.path(self._text(value, field))
        except RuntimeError:
            raise self._error("it names a user that does not exist", field) from None

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
        text = str(self._expand(str(value), field))
        if not text and field in ("command", *URL_KEYS):
            raise self._error("it must not be empty", field)
        return text

    def _expand(self, value: Any, field: str) -> Any:
        return self._source.expand(value, self._entry.name, field)

    def _take(self, keys: tuple[str, ...]) -> tuple[str, Any]:
        """Remove all spellings of a key, and return the first that has a value."""
        found = [(key, self._unread.pop(key)) for key in keys if key in self._unread]
        return next(((key, value) for key, value in found if value is not None), (keys[0], None))

    def _error(self, message: str, field: str | None) -> ConfigError:
        return self._source.error(message, self._entry.name, field)

    def _warn(self, message: str) -> None:
        _logger.warning("%s", self._error(message, None))

    def _warn_of_unknown(self, keys: Iterable[str], known: Sequence[str]) -> None:
        for key in keys:
            if key not in _IGNORED_KEYS and key not in _KNOWN_KEYS and not key.startswith(("_", "$", "/", "x-")):
                self._warn(f"the key {key!r} is not known{did_you_mean(_FULL_WORDS.get(key, key), known)}")


def _take_names(unread: Json, keys: tuple[str, ...]) -> list[str] | None:
    """Remove and return lists of names; any other value stays among the unknown keys."""
    found: list[str] | None = None
    for key in keys:
        value = unread.get(key)
        names = [value] if isinstance(value, str) else value
        if isinstance(names, list) and all(isinstance(name, str) for name in names):
            found = [*(found or []), *names]
            del unread[key]
    return found


def _login_arguments(login: Json) -> Json:
    for name, value in login.items():
        is_list = name == "scope" and isinstance(value, list) and all(isinstance(one, str) for one in value)
        if not is_list and not isinstance(value, str) and name != "callback_port":
            raise ValueError(f"{name} must be a text")
    port = login.pop("callback_port", None)
    if port is not None:
        if not str(port).isdecimal():
            raise ValueError("callback_port must be a number")
        login.setdefault("redirect_uri", f"http://localhost:{port}/callback")
    name = login.pop("client_name", None)
    return login if name is None else {**login, "client_metadata": {"client_name": name}}


def _authorization(login: Json, *, is_of_program: bool) -> Any:
    """Return the authorization of a person, or of a program that logs in by its own credentials."""
    from dragoman.auth import ClientCredentials, OAuth

    try:
        return ClientCredentials(**login) if is_of_program else OAuth(**login)
    except TypeError:
        raise ValueError("with the grant type client_credentials it takes client_id, client_secret and scope") from None
    except AuthError as error:
        raise ValueError(str(error)) from None


def is_on(value: Any) -> bool:
    """Tell whether a value of a configuration file means yes."""
    return value.strip().lower() in ("true", "yes", "on", "1") if isinstance(value, str) else bool(value)


def read_variables(text: str) -> dict[str, str]:
    """Return the variables of an `.env` file; other lines are skipped."""
    found: dict[str, str] = {}
    for line in text.splitlines():
        name, equals, value = line.strip().removeprefix("export ").partition("=")
        if equals and not name.startswith("#"):
            found[name.strip()] = _unquoted(value.strip())
    return found


def _unquoted(value: str) -> str:
    quote = value[:1]
    if quote in ("'", '"') and value.find(quote, 1) > 0:
        inner = value[1 : value.rindex(quote)]
        return inner.replace("\\n", "\n").replace('\\"', '"') if quote == '"' else inner
    return value.partition(" #")[0].rstrip()
