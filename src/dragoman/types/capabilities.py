"""What each side declares that it can do. Both sets are open: what has no field here travels in `experimental` or
`extensions`."""

from __future__ import annotations

from dragoman.types.wire import Json, Wire

_ALIASES = {"io.modelcontextprotocol/apps": "io.modelcontextprotocol/ui"}


def canonical_extension(id: str) -> str:
    """Return the id of an extension that some implementations write otherwise."""
    return _ALIASES.get(id, id)


def _settings(extensions: dict[str, Json] | None, id: str) -> Json | None:
    wanted = canonical_extension(id)
    return next((settings for key, settings in (extensions or {}).items() if canonical_extension(key) == wanted), None)


class ListChangedCapability(Wire):
    """Tools or prompts are offered; with `list_changed`, changes are announced."""

    list_changed: bool | None = None


class ResourcesCapability(Wire):
    """Resources are offered; with `subscribe`, one may ask to be told of updates."""

    subscribe: bool | None = None
    list_changed: bool | None = None


class ServerCapabilities(Wire):
    """What a server offers: in `initialize`, and in `server/discover` from 2026-07-28 on."""

    tools: ListChangedCapability | None = None
    prompts: ListChangedCapability | None = None
    resources: ResourcesCapability | None = None
    completions: Json | None = None
    logging: Json | None = None
    tasks: Json | None = None
    extensions: dict[str, Json] | None = None
    experimental: dict[str, Json] | None = None

    def extension(self, id: str) -> Json | None:
        """Return the settings with which the server declared an extension; None if it did not.

        An id and its alias are the same extension.
        """
        return _settings(self.extensions, id)


class RootsCapability(Wire):
    """The client has roots; `list_changed` until 2025-11-25."""

    list_changed: bool | None = None


class SamplingCapability(Wire):
    """The client samples from a model; with `tools`, a request may offer the model tools."""

    context: Json | None = None
    tools: Json | None = None


class ElicitationCapability(Wire):
    """The client asks its user; an empty object means form mode."""

    form: Json | None = None
    url: Json | None = None


class ClientCapabilities(Wire):
    """What a client can do for a server: in `initialize`, and in every request from 2026-07-28 on."""

    sampling: SamplingCapability | None = None
    elicitation: ElicitationCapability | None = None
    roots: RootsCapability | None = None
    tasks: Json | None = None
    extensions: dict[str, Json] | None = None
    experimental: dict[str, Json] | None = None

    def extension(self, id: str) -> Json | None:
        """Return the settings with which the client declared an extension; None if it did not.

        An id and its alias are the same extension.
        """
        return _settings(self.extensions, id)
