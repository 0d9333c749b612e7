"""`Apps`: MCP Apps on a server. An app is a resource at a `ui://` URI; a tool names the app that shows its results.

The extension has no methods. It writes `_meta.ui` into the entries of tools and apps, and refuses to serve a tool whose
app is not registered.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypedDict, Unpack, get_args

import msgspec

from dragoman import types
from dragoman.errors import DefinitionError
from dragoman.protocol.official.apps import MIME_TYPE, ROW, client_supports, require_ui_uri, tool_meta
from dragoman.server.define.resources import Resource, ResourceTemplate, resource
from dragoman.server.define.tools import Tool
from dragoman.server.extensions.contract import ServerExtension
from dragoman.server.request.context import BlockingContext, Context
from dragoman.server.wire_objects import optional_wire_object
from dragoman.types.apps import AppPermissions, Csp, ResourceUi

if TYPE_CHECKING:
    from dragoman.server.server import Server

Html = str | Path | Callable[..., object]
"""An HTML document, a file that has it, or a function that returns it."""
AppPermission = Literal["camera", "microphone", "geolocation", "clipboard_write"]


class AppOptions(TypedDict, total=False):
    """The options of an app."""

    name: str | None
    """The name in lists; by default the last part of the URI."""
    title: str | None
    """The name to show to people."""
    description: str | None
    """The description in lists."""
    csp: Csp | types.Json | None
    """The origins that the document may use; by default none."""
    permissions: Iterable[AppPermission]
    """The abilities of the browser that the document asks for."""
    border: bool | None
    """Whether the host should draw a border; None leaves it to the host."""
    domain: str | None
    """An origin of the app's own, in the form that the host documents."""
    mime_type: str
    """The MIME type; hosts support only `text/html;profile=mcp-app`."""
    meta: types.Json | None
    """Further `_meta`, which is kept."""


class Apps(ServerExtension):
    """The apps of a server; `server.add_app` and the option `ui` of a tool install it."""

    rows = (ROW,)
    tool_options: ClassVar[Mapping[str, Any]] = {"ui": str, "ui_visibility": str | list | tuple}

    def bind(self, server: Server) -> None:
        """Keep the server, whose tools and resources are checked."""
        self._server = server

    def define_tool(self, tool: Tool[..., Any], options: Mapping[str, Any]) -> None:
        """Write the app of a tool, and who may call the tool, into its entry."""
        meta = tool_meta(options.get("ui"), options.get("ui_visibility"), tool.definition.meta)
        tool.definition = msgspec.structs.replace(tool.definition, meta=meta)

    def check(self) -> None:
        """Refuse a tool whose app is not registered."""
        registry = self._server.registry
        if "on_read_resource" in self._server.registry.hooks:
            return  # the author's function may read any URI
        for tool in list(registry.tools.values()):
            uri = getattr(tool, "ui", None)
            if uri is None or uri in registry.resources:
                continue
            if all(template.match(uri) is None for template in list(registry.templates.values())):
                raise DefinitionError(
                    f"The tool {tool.name!r} names the app {uri!r}, which the server does not have: register it before"
                    f" the server is served, as in server.add_app({uri!r}, Path('app.html'))"
                )


def ui_resource(
    uri: str, html: Html | None = None, **options: Unpack[AppOptions]
) -> Resource[..., object] | ResourceTemplate[..., object]:
    """Return the resource of an app, for `Server(resources=[...])`; `server.add_app` makes and registers one.

    Example:
        clock = apps.ui_resource("ui://clock/app.html", Path("clock.html"), border=True)

    Without `html` the resource is only listed, for a server whose `on_read_resource` reads it.

    Raises:
        DefinitionError: the URI does not begin with `ui://`, an option does not fit, or there is no such file.
    """
    require_ui_uri(uri)
    unknown = options.keys() - AppOptions.__annotations__.keys()
    if unknown:
        raise DefinitionError(f"An app has no option {min(unknown)!r}; it has {', '.join(AppOptions.__annotations__)}")
    make = resource(
        uri,
        name=options.get("name") or uri.rpartition("/")[2],
        title=options.get("title"),
        description=options.get("description"),
        mime_type=options.get("mime_type") or MIME_TYPE,
        meta=_meta(uri, options),
    )
    return make(_reader(uri, html))


def supported(ctx: Context | BlockingContext, mime_type: str = MIME_TYPE) -> bool:
    """Tell whether the client of a request shows apps.

    Example:
        if not apps.supported(ctx):
            return "Open https://example.com/cart to see your cart."
    """
    return client_supports(ctx.client.capabilities, mime_type)


def _meta(uri: str, options: AppOptions) -> types.Json | None:
    given, added = options.get("meta") or {}, _ui(uri, options)
    ui = {**given.get("ui", {}), **msgspec.to_builtins(added)}
    return {**given, "ui": ui} if ui else options.get("meta")


def _ui(uri: str, options: AppOptions) -> ResourceUi:
    csp = optional_wire_object(options.get("csp"), Csp, f"The csp of {uri!r}")
    origins = [one for name in Csp.__struct_fields__ for one in getattr(csp, name, None) or ()]
    for origin in origins:
        # A host writes each origin into a header, where these characters would begin another directive.
        if not origin or any(mark in origin for mark in " ;,'\"\t\r\n"):
            raise DefinitionError(f"The csp of {uri!r} takes origins, such as 'https://example.com', not {origin!r}")
    return ResourceUi(
        csp=csp,
        permissions=_permissions(uri, options.get("permissions") or ()),
        domain=options.get("domain"),
        prefers_border=options.get("border"),
    )


def _permissions(uri: str, given: Iterable[str]) -> AppPermissions | None:
    names = [given] if isinstance(given, str) else list(given)
    for name in names:
        if name not in get_args(AppPermission):
            known = ", ".join(get_args(AppPermission))
            raise DefinitionError(f"The permissions of {uri!r} are some of {known}, not {name!r}")
    return AppPermissions(**{name: {} for name in names}) if names else None


def _reader(uri: str, html: Html | None) -> Callable[..., Any]:
    if isinstance(html, Path):
        if not html.is_file():
            raise DefinitionError(f"The app {uri!r} is read from {html}, and there is no such file")
        return partial(_read_file, html)
    if isinstance(html, str) and "<" not in html:
        raise DefinitionError(f"The app {uri!r} is an HTML document, not {html!r}; give a file as Path({html!r})")
    if html is not None and not isinstance(html, str) and not callable(html):
        raise DefinitionError(f"The app {uri!r} needs HTML text, a Path or a function that returns HTML, not {html!r}")
    return html if callable(html) else partial(_give, html)


def _read_file(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def _give(html: str | None) -> str | None:
    return html
