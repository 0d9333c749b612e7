"""MCP Apps (`io.modelcontextprotocol/ui`): the row of the extension, and how `_meta.ui` is written and read.

A server shows an app: an HTML document at a `ui://` URI, which a host renders in a sandbox. A tool names the app that
shows its results. All of it is in `_meta`, so the row adds no method and no field. Older hosts read the URI of a tool's
app from the key `ui/resourceUri` beside `ui`, so both are written.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar, get_args

import msgspec

from dragoman import types
from dragoman.errors import DefinitionError
from dragoman.protocol.extensions import ExtensionRow
from dragoman.types.apps import AppPermissions, Csp, ResourceUi, ToolUi, UiVisibility

ID = "io.modelcontextprotocol/ui"
MIME_TYPE = "text/html;profile=mcp-app"
SCHEME = "ui://"
LEGACY_KEY = "ui/resourceUri"
_URIS = ("_meta.ui.resourceUri", f"_meta.{LEGACY_KEY}")
ROW = ExtensionRow(id=ID, settings={"mimeTypes": [MIME_TYPE]}, uris=dict.fromkeys(("tools/list", "tools/call"), _URIS))
NOT_SETTINGS = ("resourceUri", "resource_uri", "visibility", "ui")
"""The keys of `_meta` that a caller may give as settings by mistake."""
T = TypeVar("T")


def capability(mime_types: Iterable[str] = (MIME_TYPE,)) -> types.Json:
    """Return the settings with which a client or a server declares apps.

    Example:
        dragoman.configure(extensions={apps.ID: apps.capability()})

    Raises:
        DefinitionError: `mime_types` is not a list of MIME types.
    """
    return checked_settings({"mimeTypes": mime_types if isinstance(mime_types, str) else list(mime_types)})


def checked_settings(settings: Mapping[str, Any]) -> types.Json:
    """Return the settings of the extension if they are well-formed.

    Raises:
        DefinitionError: a key belongs to `_meta`, or `mimeTypes` is not a list of MIME types.
    """
    misplaced = [key for key in settings if key in NOT_SETTINGS]
    if misplaced:
        raise DefinitionError(
            f"{misplaced[0]!r} is no setting of {ID}: a server writes it into the `_meta` of a tool, by"
            " @server.tool(ui=..., ui_visibility=...)"
        )
    given = settings.get("mimeTypes", [MIME_TYPE])
    if not isinstance(given, list) or not given or not all(isinstance(one, str) and "/" in one for one in given):
        raise DefinitionError(f"mimeTypes must be a list of MIME types, such as [{MIME_TYPE!r}], not {given!r}")
    return dict(settings)


def client_supports(
    capabilities: types.ClientCapabilities | Mapping[str, Any] | None, mime_type: str = MIME_TYPE
) -> bool:
    """Tell whether a client declared that it shows apps of a MIME type; one that names no types shows all.

    Example:
        apps.client_supports(ctx.client.capabilities)
    """
    if not isinstance(capabilities, types.ClientCapabilities):
        extensions = (capabilities or {}).get("extensions")
        capabilities = types.ClientCapabilities(extensions=extensions if isinstance(extensions, dict) else None)
    settings = capabilities.extension(ID)
    if not isinstance(settings, Mapping):
        return False
    declared = settings.get("mimeTypes")
    return declared is None or (isinstance(declared, list) and mime_type in declared)


def require_ui_uri(uri: object) -> str:
    """Return the URI of an app.

    Raises:
        DefinitionError: the URI does not begin with `ui://`.
    """
    if not isinstance(uri, str) or not uri.startswith(SCHEME) or uri == SCHEME:
        raise DefinitionError(f"The URI of an app begins with {SCHEME}, as in 'ui://clock/app.html', not {uri!r}")
    return uri


def tool_meta(
    resource_uri: str | None = None,
    visibility: Sequence[UiVisibility] | UiVisibility | None = None,
    meta: Mapping[str, Any] | None = None,
    *,
    legacy: bool = True,
) -> types.Json:
    """Return the `_meta` of a tool with the app that shows its results; `meta` is kept.

    Example:
        apps.tool_meta("ui://clock/app.html", ["app"], meta={"com.example/price": 3})

    `visibility` says who may call the tool: "model", "app" or both. `legacy` writes the URI also under the key that
    older hosts read.

    Raises:
        DefinitionError: the URI does not begin with `ui://`, or `visibility` has another word.
    """
    ui: types.Json = dict((meta or {}).get("ui") or {})
    added: types.Json = {"ui": ui}
    if resource_uri is not None:
        ui["resourceUri"] = require_ui_uri(resource_uri)
        added |= {LEGACY_KEY: resource_uri} if legacy else {}
    if visibility is not None:
        ui["visibility"] = _checked_visibility([visibility] if isinstance(visibility, str) else list(visibility))
    return {**(meta or {}), **added}


def _checked_visibility(given: list[Any]) -> list[str]:
    words = get_args(UiVisibility)
    if not given or any(one not in words for one in given):
        raise DefinitionError(f"The visibility of a tool is a list of {' and '.join(map(repr, words))}, not {given!r}")
    return given


def tool_ui(meta: Mapping[str, Any] | None) -> ToolUi:
    """Return what the `_meta` of a tool says about apps; a malformed visibility lets nobody call the tool."""
    found = _member(meta, "ui")
    uri = _converted(found.get("resourceUri"), str) or _converted((meta or {}).get(LEGACY_KEY), str)
    given = found.get("visibility")
    if given is None:
        return ToolUi(resource_uri=uri)
    words = [given] if isinstance(given, str) else given if isinstance(given, list) else []
    return ToolUi(resource_uri=uri, visibility=tuple(word for word in words if isinstance(word, str)))


def resource_ui(meta: Mapping[str, Any] | None) -> ResourceUi:
    """Return what the `_meta` of a resource says about its app; a malformed part is left out."""
    found = _member(meta, "ui")
    border = found.get("prefersBorder", found.get("prefers_border"))
    return ResourceUi(
        csp=_converted(found.get("csp"), Csp),
        permissions=_converted(found.get("permissions"), AppPermissions),
        domain=_converted(found.get("domain"), str),
        prefers_border=border if isinstance(border, bool) else None,
    )


def _member(meta: Mapping[str, Any] | None, key: str) -> Mapping[str, Any]:
    found = (meta or {}).get(key)
    return found if isinstance(found, Mapping) else {}


def _converted(value: Any, kind: type[T]) -> T | None:
    try:
        return None if value is None else msgspec.convert(value, kind)
    except msgspec.ValidationError:
        return None
