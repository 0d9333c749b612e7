"""`AppView`: an app of a server, as a host shows it, and what the app may ask of its server.

The document of an app is not trusted. A host renders it in a sandbox, and passes on its tool calls with
`client.call_from_app`. An app calls only tools of its own server, and only those that are visible to apps.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dragoman import types
from dragoman.client.options import tool_name
from dragoman.client.results import contents_bytes
from dragoman.errors import AppRefused, NotFound, ValidationError
from dragoman.protocol.official.apps import MIME_TYPE, SCHEME, resource_ui, tool_ui
from dragoman.types.apps import ResourceUi

if TYPE_CHECKING:
    from dragoman.client.client import AsyncClient, ToolLike


class AppView:
    """An app of a server.

    Example:
        view = client.view("forecast")
        page.show(view.html, csp=view.ui.csp)
    """

    def __init__(self, client: AsyncClient, uri: str, html: str, ui: ResourceUi) -> None:
        self._client = client
        self.uri = uri
        self.html = html
        """The document; do not trust it."""
        self.ui = ui
        """What the document needs: its origins, permissions, domain and border."""

    def __repr__(self) -> str:
        return f"<AppView {self.uri!r}: {len(self.html)} characters>"

    def require_client(self, client: AsyncClient) -> None:
        """Refuse a client of another server.

        Raises:
            AppRefused: the app belongs to another server.
        """
        if client is not self._client:
            raise AppRefused(f"The app {self.uri} belongs to another server, and calls only the tools of its own")


async def open_view(client: AsyncClient, app: ToolLike) -> AppView:
    """Read an app, by its URI or by a tool whose results it shows.

    Raises:
        NotFound: the tool has no app.
        ValidationError: the resource is not the document of an app.
    """
    uri = app if isinstance(app, str) and app.startswith(SCHEME) else await _uri_of(client, app)
    [contents, *more] = (await client.read_resource(uri)).contents or [types.ResourceContents(uri)]
    if more or contents.mime_type != MIME_TYPE:
        raise ValidationError(f"{uri} is not an app: an app is one document of the type {MIME_TYPE}")
    meta = contents.meta
    if "ui" not in (meta or {}):  # servers of the stable specification say it here, later ones also where they list
        meta = next((one.meta for one in await client.resources() if one.uri == uri), None)
    return AppView(client, uri, _document(contents), resource_ui(meta))


async def _uri_of(client: AsyncClient, tool: ToolLike) -> str:
    name = tool_name(tool)
    uri = (await client.tool(name)).ui.resource_uri
    if uri is None or not uri.startswith(SCHEME):
        raise NotFound("app of the tool", name)
    return uri


def _document(contents: types.ResourceContents) -> str:
    try:
        return contents_bytes(contents).decode()
    except UnicodeDecodeError:
        raise ValidationError(f"The document of {contents.uri} is not UTF-8") from None


async def require_app_visible(client: AsyncClient, view: AppView, name: str) -> None:
    """Check that an app may call a tool.

    Raises:
        AppRefused: the tool belongs to another server, does not exist, or is not visible to apps.
    """
    view.require_client(client)
    tool = next((one for one in await client.tools() if one.name == name), None)
    if tool is None or not tool_ui(tool.meta).app_visible:
        raise AppRefused(f"The app {view.uri} may not call the tool {name!r}")
