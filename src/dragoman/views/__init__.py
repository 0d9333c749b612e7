"""Views: tools, prompts and resources of another server, shown to clients in another form.

The room stands below `client` and `server`, because both use it, and neither may import the other or `forward`.
"""

from typing import TYPE_CHECKING

from dragoman.runtime.lazy import lazy

if TYPE_CHECKING:
    from dragoman.views.catalog import ViewCatalog as ViewCatalog
    from dragoman.views.findings import ViewFinding as ViewFinding
    from dragoman.views.selection import Views as Views
    from dragoman.views.view import Argument as Argument
    from dragoman.views.view import View as View
    from dragoman.views.viewed_tool import ViewedTool as ViewedTool
else:
    __getattr__, __dir__ = lazy()
