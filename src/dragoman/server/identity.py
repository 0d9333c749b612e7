"""`ServerIdentity`: the name, the version and the other texts by which a server describes itself to its clients."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from msgspec import Raw

from dragoman import types
from dragoman.errors import DefinitionError
from dragoman.protocol.jsonrpc import encode
from dragoman.server.wire_objects import wire_objects

Icons = Iterable[types.Icon | types.Json]
_FIELDS = ("name", "version", "title", "description", "website_url", "icons")
_EXAMPLES = {
    "name": "weather",
    "version": "1.0",
    "title": "Weather",
    "description": "Weather for every city.",
    "website_url": "https://example.com",
    "instructions": "Ask for one city at a time.",
}


class ServerIdentity:
    """How one server describes itself.

    Example:
        identity = ServerIdentity(implementation("weather", "1.0", ()), instructions="Ask for one city at a time.")
        identity.describe(title="Weather")
    """

    def __init__(self, info: types.Implementation, instructions: str | None = None) -> None:
        self.on_change: Callable[[], None] | None = None
        """Called after a change; if it raises a DefinitionError, the earlier values stay."""
        self._info = info
        self.info_bytes = Raw(encode(info))
        self.instructions = instructions

    @property
    def info(self) -> types.Implementation:
        """The identity as clients receive it."""
        return self._info

    @property
    def instructions(self) -> str | None:
        """The text that tells the model how to use the server."""
        return self._instructions

    @instructions.setter
    def instructions(self, instructions: str | None) -> None:
        require_text("instructions", instructions)
        self._instructions = instructions

    @property
    def name(self) -> str:
        """The name of the server."""
        return self._info.name

    def describe(self, **changes: Any) -> None:
        """Change fields of the identity.

        Raises:
            DefinitionError: a value is invalid, or the pinned version cannot carry it.
        """
        before = self._info
        current = {name: getattr(before, name) for name in _FIELDS}
        current["icons"] = before.icons or ()
        self._info = implementation(**{**current, **changes})
        try:
            if self.on_change is not None:
                self.on_change()
        except DefinitionError:
            self._info = before
            raise
        self.info_bytes = Raw(encode(self._info))


def implementation(name: str, version: str, icons: Icons, **texts: str | None) -> types.Implementation:
    """Return the identity of a server.

    Raises:
        DefinitionError: a value is not text, or the name or version is empty; the message names the remedy.
    """
    for option, value in {"name": name, "version": version, **texts}.items():
        require_text(option, value, optional=option in texts)
    return types.Implementation(name, version, icons=wire_objects(icons, types.Icon, "A server's icon"), **texts)


def require_text(option: str, value: Any, *, optional: bool = True) -> None:
    """Check that the value of a server's option is text; an optional value may be None or empty.

    Raises:
        DefinitionError: the value is not text, or a required value is None or empty.
    """
    if (optional and value is None) or (isinstance(value, str) and (optional or value)):
        return
    expected = "text" if optional else "text that is not empty"
    raise DefinitionError(f"The {option} of a server must be {expected}, such as {_EXAMPLES[option]!r}, not {value!r}")
