"""The capabilities that clients and servers declare. `experimental` and `extensions` hold further capabilities."""

from __future__ import annotations

from dragoman.types.wire import Json, Wire

_ALIASES = {"io.modelcontextprotocol/apps": "io.modelcontextprotocol/ui"}


def canonical_extension(id: str) -> str:
    """Return the id that the specification gives an extension, for that id or for a known alias."""
    return _ALIASES.get(id, id)


class Capabilities(Wire, kw_only=True):
    """The capabilities that clients and servers share."""

    tasks: Json | None = None
    extensions: dict[str, Json] | None = None
    experimental: dict[str, Json] | None = None

    def extension(self, id: str) -> Json | None:
        """Return the settings with which an extension was declared, None if it was not declared.

        An id and its alias are the same extension.
        """
        canonical, declared = canonical_extension(id), self.extensions or {}
        return next((settings for key, settings in declared.items() if canonical_extension(key) == canonical), None)


class ListChangedCapability(Wire):
    """The server offers tools or prompts; with `list_changed` it notifies of changes."""

    list_changed: bool | None = None


class ResourcesCapability(Wire):
    """The server offers resources; with `subscribe` clients may subscribe to updates."""

    subscribe: bool | None = None
    list_changed: bool | None = None


class ServerCapabilities(Capabilities):
    """What a server offers; sent in the results of `initialize` and, from 2026-07-28 on, of `server/discover`."""

    tools: ListChangedCapability | None = None
    prompts: ListChangedCapability | None = None
    resources: ResourcesCapability | None = None
    completions: Json | None = None
    logging: Json | None = None


class RootsCapability(Wire):
    """The client has roots; `list_changed` until 2025-11-25."""

    list_changed: bool | None = None


class SamplingCapability(Wire):
    """The client can sample from a model; with `tools` a request may offer tools to the model."""

    context: Json | None = None
    tools: Json | None = None


class ElicitationCapability(Wire):
    """The client can ask its user; an empty object means form mode."""

    form: Json | None = None
    url: Json | None = None


class ClientCapabilities(Capabilities):
    """What a client can do for a server; sent in `initialize` and, from 2026-07-28 on, in every request."""

    sampling: SamplingCapability | None = None
    elicitation: ElicitationCapability | None = None
    roots: RootsCapability | None = None
