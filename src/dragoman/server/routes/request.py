"""`RouteRequest`: the HTTP request that the function of a route receives."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar, overload
from urllib.parse import parse_qsl

import msgspec
from msgspec import Struct

from dragoman.errors import ParseError
from dragoman.server.request.http_request import HeaderMapping
from dragoman.types import Json

T = TypeVar("T")
MAX_QUERY_FIELDS = 1000


class RouteRequest(Struct, frozen=True, eq=False):
    """One HTTP request to a route.

    Example:
        @server.route("/orders/{id}", methods=["PUT"])
        async def change(request: RouteRequest) -> dict[str, str]:
            return {"id": request.path_params["id"], "state": request.json()["state"]}

    The body is read before the function is called, so that `def` and `async def` read it in the same way.
    """

    method: str
    path: str
    """The path below the place at which the application is mounted."""
    path_params: Mapping[str, str]
    """The values of the parameters of the path, such as `id` of "/orders/{id}"."""
    query: Mapping[str, str]
    """The fields of the query string; the last value of a repeated field."""
    headers: Mapping[str, str]
    """The headers; their names are case-insensitive."""
    principal: str | None
    """The authenticated user of a route with `auth=True`."""
    scope: Mapping[str, Any]
    """The request as an ASGI scope; `scope["query_string"]` has the query as it was sent."""
    content: bytes

    def __repr__(self) -> str:
        # The headers, the query and the body are left out, because they may hold credentials.
        return f"<RouteRequest {self.method} {self.path}>"

    @staticmethod
    def of(
        scope: Mapping[str, Any], path: str, path_params: Mapping[str, str], content: bytes, principal: str | None
    ) -> RouteRequest:
        """Return the request of an ASGI scope.

        Raises:
            ParseError: the query string has too many fields.
        """
        text = scope.get("query_string", b"").decode("latin-1")
        try:
            query = dict(parse_qsl(text, keep_blank_values=True, max_num_fields=MAX_QUERY_FIELDS))
        except ValueError:
            raise ParseError(f"The query string has more than {MAX_QUERY_FIELDS} fields") from None
        headers = HeaderMapping(scope["headers"])
        return RouteRequest(scope["method"], path, path_params, query, headers, principal, scope, content)

    def body(self) -> bytes:
        """Return the body."""
        return self.content

    def text(self) -> str:
        """Return the body as text.

        Raises:
            ParseError: the body is not UTF-8; if the function does not catch it, the response has the status 400.
        """
        try:
            return self.content.decode()
        except UnicodeDecodeError:
            raise ParseError("The body is not UTF-8") from None

    @overload
    def json(self) -> Json: ...
    @overload
    def json(self, kind: type[T]) -> T: ...
    def json(self, kind: type[Any] | None = None) -> object:
        """Return the value of a JSON body: an object, or a value of the type `kind`.

        Example:
            order = request.json(Order)

        Raises:
            ParseError: the body is no such JSON; if the function does not catch it, the response has the status 400.
        """
        try:
            return msgspec.json.decode(self.content, type=Json if kind is None else kind)
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
            raise ParseError(f"The body is not the expected JSON: {error}") from None
