"""The types of MCP Apps: the `_meta.ui` of tools and resources."""

from __future__ import annotations

from typing import Literal

from msgspec import field

from dragoman.types.wire import Json, Wire

UiVisibility = Literal["model", "app"]


class Csp(Wire):
    """The origins that an app may use; the host lets the app use no others."""

    connect: list[str] | None = field(default=None, name="connectDomains")
    """Origins of requests and web sockets."""
    resources: list[str] | None = field(default=None, name="resourceDomains")
    """Origins of scripts, styles, fonts, images and media."""
    frames: list[str] | None = field(default=None, name="frameDomains")
    """Origins of nested frames."""
    base_uris: list[str] | None = field(default=None, name="baseUriDomains")
    """Origins that the document may have as its base URI."""


class AppPermissions(Wire):
    """The abilities of the browser that an app asks for; an empty object asks for one."""

    camera: Json | None = None
    microphone: Json | None = None
    geolocation: Json | None = None
    clipboard_write: Json | None = None


class ResourceUi(Wire):
    """The `_meta.ui` of a resource: what the document of an app needs of the host."""

    csp: Csp | None = None
    permissions: AppPermissions | None = None
    domain: str | None = None
    prefers_border: bool | None = None


class ToolUi(Wire):
    """The `_meta.ui` of a tool: the app that shows its results, and who may call the tool."""

    resource_uri: str | None = None
    visibility: tuple[str, ...] = ("model", "app")

    @property
    def model_visible(self) -> bool:
        """Whether a model may see and call the tool."""
        return "model" in self.visibility

    @property
    def app_visible(self) -> bool:
        """Whether the apps of the tool's server may call it."""
        return "app" in self.visibility
