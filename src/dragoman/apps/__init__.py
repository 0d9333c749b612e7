"""MCP Apps: names for authors of servers with apps, and for hosts that show apps. Each is imported on first use.

Example:
    from dragoman import Server, apps

    server = Server("clock")
    server.add_app("ui://clock/app.html", Path("clock.html"), csp=apps.Csp(connect=["https://time.example.com"]))
"""

from typing import TYPE_CHECKING

from dragoman.runtime.lazy import lazy

if TYPE_CHECKING:
    from dragoman.client.extensions.apps import AppView as AppView
    from dragoman.protocol.official.apps import ID as ID
    from dragoman.protocol.official.apps import MIME_TYPE as MIME_TYPE
    from dragoman.protocol.official.apps import capability as capability
    from dragoman.protocol.official.apps import client_supports as client_supports
    from dragoman.protocol.official.apps import tool_meta as tool_meta
    from dragoman.server.extensions.apps import AppOptions as AppOptions
    from dragoman.server.extensions.apps import supported as supported
    from dragoman.server.extensions.apps import ui_resource as ui_resource
    from dragoman.types.apps import AppPermissions as AppPermissions
    from dragoman.types.apps import Csp as Csp
    from dragoman.types.apps import ResourceUi as ResourceUi
    from dragoman.types.apps import ToolUi as ToolUi
else:
    __getattr__, __dir__ = lazy()
