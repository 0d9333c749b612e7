"""`ServerTarget`: where a server is; and the targets that the page names.

The page names a URL, a command line, a script, an entry of a configuration, or a whole file.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from msgspec import Struct, field

from dragoman.errors import ConfigError, DragomanError, InspectorError

if TYPE_CHECKING:
    from dragoman.client.group.entry import ServerEntry

FILES = frozenset({".json", ".jsonc", ".toml", ".yaml", ".yml"})
_SERVERS = ("mcpServers", "servers", "mcp_servers", "mcp")


class ServerTarget(Struct, kw_only=True):
    """The target of a server, and the options of its client."""

    name: str
    target: Any
    shown: str = ""
    """The text that the page shows; by default the name."""
    url: str | None = None
    source: str = "page"
    """The configuration file that names the server, or who named it."""
    options: dict[str, Any] = field(default_factory=dict)
    login: dict[str, Any] = field(default_factory=dict)
    """The arguments of `OAuth` from a configuration file."""
    is_authorized: bool = False
    """Whether the options authorize the requests, by a header or a token."""
    problem: DragomanError | None = None
    """Why the entry of a configuration file cannot be used."""
    is_own: bool = False
    """Whether the target is a script of the command line, which the user can change."""


def targets_of(
    given: str | dict[str, Any],
    name: str | None = None,
    *,
    headers: Mapping[str, str] | None = None,
    token: str | None = None,
    env: Mapping[str, str] | None = None,
) -> list[ServerTarget]:
    """Return the servers that a target names.

    Raises:
        InspectorError: the target is empty, or the configuration cannot be read.
    """
    try:
        found = _found(given, name)
    except (ConfigError, ValueError) as error:  # ValueError: a URL such as `http://[`
        raise InspectorError(str(error)) from None
    for target in found:
        if headers:
            target.options["headers"] = dict(headers)
        if token:
            target.options["auth"] = token
        target.is_authorized |= bool(token) or _names_authorization(headers)
        if env:
            target.options["env"] = {**target.options.get("env", {}), **env}
        if name is not None and len(found) == 1:
            target.name = name
    return found


def _found(given: str | dict[str, Any], name: str | None) -> list[ServerTarget]:
    from dragoman.client.group.config import load

    if isinstance(given, dict):
        configuration = given if any(key in given for key in _SERVERS) else {"mcpServers": {name or "server": given}}
        return [target_of_entry(entry, "page") for entry in load(configuration)]
    word = given.strip()
    if not word:
        raise InspectorError("Give a URL, a command, a script, or a configuration file")
    if "://" in word.partition(" ")[0]:
        return [ServerTarget(name=urlsplit(word).netloc.rpartition("@")[2], target=word, shown=word, url=word)]
    path = Path(word).expanduser()
    if " " not in word and path.suffix in FILES and path.is_file():
        return [target_of_entry(entry, str(path.absolute())) for entry in load(path)]
    is_file = " " not in word and path.is_file()
    return [ServerTarget(name=path.name if is_file else word, target=path.absolute() if is_file else word, shown=word)]


def _names_authorization(headers: Iterable[str] | None) -> bool:
    return "authorization" in {name.lower() for name in headers or ()}


def target_of_entry(entry: ServerEntry, source: str) -> ServerTarget:
    """Return the server of an entry; an entry that cannot be used has its problem."""
    options, url = dict(entry.options), entry.target.get("url")
    if entry.login is not None:
        options.pop("auth", None)  # a login begins when the person asks for it
    words = [str(entry.target.get("command", "")), *map(str, entry.target.get("args", ()))]
    return ServerTarget(
        name=entry.name,
        target=entry.target,
        shown=url if isinstance(url, str) else " ".join(words),
        url=url if isinstance(url, str) else None,
        source=source,
        options=options,
        login=entry.login or {},
        is_authorized="auth" in options or _names_authorization(entry.target.get("headers")),
        problem=entry.error,
    )
