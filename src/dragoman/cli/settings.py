"""CommandSettings: the options that all verbs share."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass
class CommandSettings:
    """The options that may stand before the verb and after it."""

    json: bool = False
    verbose: bool = False
    no_color: bool = False
    timeout: float | None = None
    mode: str | None = None
    protocol_version: str | None = None
    header: list[tuple[str, str]] = field(default_factory=list)
    token: str | None = None
    config: str | None = None
    input: list[tuple[str, str]] = field(default_factory=list)
    raw: bool = False
    trust: bool = False
    command: list[str] | None = None
    """The words after `--`: the command of a server."""

    def client_options(self) -> dict[str, Any]:
        """Return the options for a client."""
        given: dict[str, Any] = {
            "timeout": self.timeout,
            "connect_timeout": self.timeout,
            "mode": self.mode,
            "protocol_version": self.protocol_version,
            "headers": dict(self.header) or None,
            "auth": self.token,
        }
        return {name: value for name, value in given.items() if value is not None}

    @property
    def is_authorized(self) -> bool:
        """Whether the options hold a token or an Authorization header."""
        return self.token is not None or any(name.lower() == "authorization" for name, _ in self.header)
