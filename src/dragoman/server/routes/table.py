"""`RouteTable`: the routes and the mounted applications of a server, found by path."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable
from inspect import Parameter, signature
from typing import Any, NamedTuple

from dragoman.errors import DefinitionError
from dragoman.server.settings import ServerType

AsgiApplication = Callable[[Any, Any, Any], Awaitable[None]]
"""Any ASGI 3 application."""
_PARAMETER = re.compile(r"\{([^{}]*)\}")
_METHOD = re.compile(r"[A-Z][A-Z-]*")
_POSITIONAL = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)


class Route(NamedTuple):
    """One function, with the path and the methods that it serves."""

    path: str
    methods: frozenset[str]
    function: Callable[..., Any]
    needs_auth: bool
    takes_request: bool
    pattern: re.Pattern[str]

    @property
    def shape(self) -> str:
        """The path without the names of its parameters: two paths of one shape match the same requests."""
        return _PARAMETER.sub("{}", self.path)


class RouteTable:
    """The routes and the mounted applications of one server."""

    def __init__(self) -> None:
        self._routes: list[Route] = []
        self._mounts: dict[str, AsgiApplication] = {}

    def add(self, path: str, methods: str | Iterable[str], function: Callable[..., Any], *, needs_auth: bool) -> None:
        """Add a route.

        Raises:
            DefinitionError: the path, a method or the function cannot be a route, or the route exists.
        """
        served = _methods(methods)
        takes_request = _takes_request(path, function)
        route = Route(path, served, function, needs_auth, takes_request, _pattern(path))
        for other in self._routes:
            if other.shape == route.shape and (twice := other.methods & served):
                raise DefinitionError(f"There is a route for {', '.join(sorted(twice))} {path} already")
        self._routes.append(route)
        self._routes.sort(key=lambda route: "{" in route.path)  # a path without parameters comes first

    def mount(self, path: str, app: AsgiApplication) -> None:
        """Mount an application at a path.

        Raises:
            DefinitionError: the path is invalid or taken, or the application is not callable.
        """
        _require_path(path)
        prefix = path.rstrip("/")
        if "{" in path:
            raise DefinitionError(f"The path {path!r} of a mounted application must not have parameters")
        if prefix in self._mounts:
            raise DefinitionError(f"An application is mounted at {path!r} already")
        if isinstance(type(app), ServerType):
            raise DefinitionError(
                f"mount_asgi() needs an ASGI application: write server.mount_asgi({path!r}, other.asgi())"
            )
        if not callable(app):
            raise DefinitionError(f"mount_asgi() needs an ASGI application, not {app!r}")
        self._mounts[prefix] = app

    def find(self, path: str) -> list[tuple[Route, dict[str, str]]]:
        """Return the routes that match a path, each with its parameters; the best match comes first."""
        found = [(route, route.pattern.fullmatch(path)) for route in self._routes]
        return [(route, match.groupdict()) for route, match in found if match is not None]

    def find_mounted(self, path: str) -> tuple[str, AsgiApplication] | None:
        """Return the application with the longest prefix of a path, and the prefix."""
        prefixes = [prefix for prefix in self._mounts if path == prefix or path.startswith(f"{prefix}/")]
        longest = max(prefixes, key=len, default=None)
        return None if longest is None else (longest, self._mounts[longest])

    def check(self, mcp_path: str, *, has_auth: bool) -> None:
        """Check that the routes can be served beside MCP.

        Raises:
            DefinitionError: a route has the path of MCP, or needs an `auth` that is not there.
        """
        for route in self._routes:
            if route.path.strip("/") == mcp_path.strip("/"):
                raise DefinitionError(f"The route {route.path} has the path of MCP; give one of them another path")
            if route.needs_auth and not has_auth:
                raise DefinitionError(f"The route {route.path} has auth=True, so run() or asgi() needs auth= too")


def _methods(methods: str | Iterable[str]) -> frozenset[str]:
    listed = [methods] if isinstance(methods, str) else list(methods)
    for method in listed:
        if not _METHOD.fullmatch(str(method).upper()):
            raise DefinitionError(f"methods must be names such as GET and POST, not {method!r}")
    if not listed:
        raise DefinitionError("A route needs at least one method")
    served = {method.upper() for method in listed}
    return frozenset(served | {"HEAD"} if "GET" in served else served)


def _takes_request(path: str, function: Callable[..., Any]) -> bool:
    if not callable(function):
        raise DefinitionError(f"The route {path} needs a function, not {function!r}")
    parameters = signature(function).parameters.values()
    required = [one for one in parameters if one.default is Parameter.empty and one.kind not in _VARIADIC]
    if len(required) > 1 or any(one.kind is Parameter.KEYWORD_ONLY for one in required):
        raise DefinitionError(
            f"The function of the route {path} must have one parameter, the RouteRequest, or none;"
            " read the parameters of the path from request.path_params"
        )
    return any(one.kind in _POSITIONAL for one in parameters)


_VARIADIC = (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)


def _require_path(path: object) -> None:
    if not isinstance(path, str) or not path.startswith("/") or "?" in path or "#" in path:
        raise DefinitionError(f"The path of a route must begin with / and have no query, not {path!r}")


def _pattern(path: str) -> re.Pattern[str]:
    """Return the pattern of a path: a parameter is one segment, and a slash at the end does not matter."""
    _require_path(path)
    parts = _PARAMETER.split(path.rstrip("/"))
    names = parts[1::2]
    for name in names:
        if not name.isidentifier():
            raise DefinitionError(
                f"The parameter {{{name}}} of the path {path!r} must be a name, and it is one segment of the path;"
                " mount_asgi() serves all paths below a prefix"
            )
    if len(set(names)) < len(names) or any("{" in part or "}" in part for part in parts[::2]):
        raise DefinitionError(f"The path {path!r} repeats a parameter, or has a brace that is not closed")
    texts = (f"(?P<{part}>[^/]+)" if index % 2 else re.escape(part) for index, part in enumerate(parts))
    return re.compile("".join(texts) + "/?")
