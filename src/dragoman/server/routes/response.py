"""`Response`: what the function of a route returns, and the response for its other return values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from http import HTTPStatus

from dragoman.protocol.jsonrpc import encode
from dragoman.transports.http.exchange import Header

_TEXT = "text/plain; charset=utf-8"
_SET_BY_SERVER = frozenset({"content-length", "transfer-encoding", "connection"})
_MIN_STATUS, _MAX_STATUS = 200, 599


class Response:
    """The response of a route.

    Example:
        return Response("<h1>Hello</h1>", media_type="text/html")

    `body` is text, bytes, or a value that JSON can say. `status` is the HTTP status. `headers` is a mapping, or pairs
    if a header is repeated. `media_type` is the `Content-Type`; by default it follows from the kind of the body.

    Raises:
        ValueError: the status is not one of a final response, or a header has a line end.
        ValidationError: JSON cannot say the body.
    """

    __slots__ = ("body", "headers", "status")

    def __init__(
        self,
        body: object = b"",
        status: int = HTTPStatus.OK,
        headers: Mapping[str, str] | Iterable[tuple[str, str]] = (),
        media_type: str | None = None,
    ) -> None:
        if not _MIN_STATUS <= status <= _MAX_STATUS:
            raise ValueError(f"status must be from {_MIN_STATUS} to {_MAX_STATUS}, not {status!r}")
        self.status = int(status)
        content, kind = _content(body)
        self.body = content
        """The bytes of the body."""
        pairs = list(headers.items() if isinstance(headers, Mapping) else headers)
        chosen = media_type or kind
        if chosen is not None and not any(name.lower() == "content-type" for name, _ in pairs):
            pairs.append(("content-type", chosen))
        self.headers: tuple[Header, ...] = tuple(
            _encoded(name, value) for name, value in pairs if name.lower() not in _SET_BY_SERVER
        )
        """The headers as they are sent."""

    def __repr__(self) -> str:
        # The headers are left out, because they may hold a cookie.
        return f"<Response {self.status}: {len(self.body)} bytes>"

    @staticmethod
    def of(value: object) -> Response:
        """Return the response for a return value: a `Response`, None, text, bytes, or a value that JSON can say."""
        if isinstance(value, Response):
            return value
        return Response(status=HTTPStatus.NO_CONTENT) if value is None else Response(value)


def _content(body: object) -> tuple[bytes, str | None]:
    if isinstance(body, str):
        return body.encode(), _TEXT
    if isinstance(body, bytes | bytearray | memoryview):
        return bytes(body), "application/octet-stream" if body else None
    if isinstance(body, tuple):  # as in Flask, which reads a tuple as a body with its status
        raise TypeError("A route returned a tuple; return Response(body, status) instead, or a list")
    return encode(body), "application/json"


def _encoded(name: str, value: str) -> Header:
    if not name or any(letter in "\r\n\0" for letter in name + value):
        raise ValueError(f"The header {name!r} has a line end, or no name")
    return name.lower().encode("latin-1"), value.encode("latin-1")
