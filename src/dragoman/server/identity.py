"""Who a server is, as clients are told: its name, version and what else describes it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from msgspec import Raw

from dragoman import types
from dragoman.errors import DefinitionError
from dragoman.protocol.jsonrpc import encode
from dragoman.server.define.results import wire_objects

Icons = Iterable[types.Icon | types.Json]


def implementation(name: str, version: str, icons: Icons, **texts: str | None) -> types.Implementation:
    """Return who a server is.

    Raises:
        DefinitionError: something is missing or no text; the message names the remedy.
    """
    for option, value in {"name": name, "version": version, **texts}.items():
        require_text(option, value, optional=option in texts)
    return types.Implementation(name, version, icons=wire_objects(icons, types.Icon, "A server's icon"), **texts)


def require_text(option: str, value: Any, *, optional: bool = True) -> None:
    """Refuse an option of a server that must be text and is not.

    Raises:
        DefinitionError: it is something else, or missing, or empty where it must not be.
    """
    if (optional and value is None) or (isinstance(value, str) and (optional or value)):
        return
    wanted = "text" if optional else "text that is not empty"
    raise DefinitionError(f"The {option} of a server must be {wanted}, such as {_EXAMPLES[option]!r}, not {value!r}")


_EXAMPLES = {
    "name": "weather",
    "version": "1.0",
    "title": "Weather",
    "description": "Weather for every city.",
    "website_url": "https://example.com",
    "instructions": "Ask for one city at a time.",
}


class ServerIdentity:
    """The part of a Server that says who it is; what is assigned is told to clients from then on."""

    def __init__(self, info: types.Implementation) -> None:
        self._info = info
        self.info_bytes = Raw(encode(info))

    def _identity_changed(self) -> None:
        """Check a changed identity and forget what was made of the earlier one; a server that keeps it says how."""

    def _describe(self, **changes: Any) -> None:
        texts = {name: getattr(self._info, name) for name in ("title", "description", "website_url")}
        own = {"name": self._info.name, "version": self._info.version, "icons": self._info.icons or ()}
        before = self._info
        self._info = implementation(**{**own, **texts, **changes})
        try:
            self._identity_changed()
        except DefinitionError:
            self._info = before
            raise
        self.info_bytes = Raw(encode(self._info))

    @property
    def info(self) -> types.Implementation:
        """Who the server is, as clients are told."""
        return self._info

    @property
    def name(self) -> str:
        """The server's name."""
        return self._info.name

    @name.setter
    def name(self, name: str) -> None:
        self._describe(name=name)

    @property
    def version(self) -> str:
        """The server's own version."""
        return self._info.version

    @version.setter
    def version(self, version: str) -> None:
        self._describe(version=version)

    @property
    def title(self) -> str | None:
        """The server's name as people read it."""
        return self._info.title

    @title.setter
    def title(self, title: str | None) -> None:
        self._describe(title=title)

    @property
    def description(self) -> str | None:
        """What the server is for."""
        return self._info.description

    @description.setter
    def description(self, description: str | None) -> None:
        self._describe(description=description)

    @property
    def website_url(self) -> str | None:
        """Where people read more of the server."""
        return self._info.website_url

    @website_url.setter
    def website_url(self, url: str | None) -> None:
        self._describe(website_url=url)

    @property
    def icons(self) -> list[types.Icon]:
        """The server's icons."""
        return list(self._info.icons or ())

    @icons.setter
    def icons(self, icons: Icons) -> None:
        self._describe(icons=icons)
