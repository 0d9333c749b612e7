"""`WithRoutes`: the part of a `Server` that registers routes, and ASGI applications beside MCP."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, TypeVar

from dragoman.runtime.callables import at_caller, raise_at_caller

if TYPE_CHECKING:
    from dragoman.server.routes.table import AsgiApplication, RouteTable

Handler = TypeVar("Handler", bound=Callable[..., Any])


@raise_at_caller("mount_asgi")
class WithRoutes:
    """The routes of a `Server`: HTTP paths beside that of MCP."""

    route_table: RouteTable | None = None
    """The routes of the server; None if it has none."""

    def _routes(self) -> RouteTable:
        if self.route_table is None:
            from dragoman.server.routes.table import RouteTable

            self.route_table = RouteTable()
        return self.route_table

    def route(
        self, path: str, methods: str | Iterable[str] = ("GET",), *, auth: bool = False
    ) -> Callable[[Handler], Handler]:
        """Register a function that answers HTTP requests to a path beside MCP, for `run("http")` and `asgi()`.

        Example:
            @server.route("/orders/{id}")
            def order(request: RouteRequest) -> dict[str, str]:
                return {"id": request.path_params["id"]}

        The function takes a `RouteRequest`, or nothing. It returns a `Response`, text, bytes, a value that JSON can
        say, or None for an empty response. A `def` runs in a thread. `methods` are the HTTP methods; GET includes
        HEAD. A route is public. With `auth=True` it serves only senders that the `auth` of `run` or `asgi` admits.

        Raises:
            DefinitionError: the path, a method or the function cannot be a route, or the route exists.
        """

        def register(function: Handler) -> Handler:
            self._routes().add(path, methods, function, needs_auth=auth)
            return function

        return at_caller(register)

    def mount_asgi(self, path: str, app: AsgiApplication) -> None:
        """Serve an ASGI application at a path and below it, beside MCP, for `run("http")` and `asgi()`.

        Example:
            server.mount_asgi("/admin", FastAPI())

        The application gets HTTP requests with `root_path` set, and neither lifespan events nor WebSockets. It is
        public, unless it authenticates its requests itself.

        Raises:
            DefinitionError: the path is invalid or taken, or the application is not callable.
        """
        self._routes().mount(path, app)
