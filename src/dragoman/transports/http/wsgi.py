"""HTTP over WSGI (PEP 3333): a service answers each request with one body.

A server calls the application from many threads. A body ends after `CONTENT_LENGTH` bytes. A body without a length may
be read only if the server sets `wsgi.input_terminated`: then the input ends with the body.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from msgspec import Struct

from dragoman.errors import TransportError
from dragoman.protocol import statuses
from dragoman.transports.http.exchange import reason_phrase

Environ = dict[str, Any]
StartResponse = Callable[..., Any]

_CHUNK_BYTES = 65_536


class UnreadableBody(TransportError):
    """The body cannot be read; `status` is the status of the answer."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class WsgiReply(Struct, frozen=True):
    """A response."""

    status: int
    headers: list[tuple[str, str]]
    body: bytes


class WsgiRequest:
    """One request, whose body is read on demand."""

    def __init__(self, environ: Environ) -> None:
        self.environ = environ
        self.method: str = environ["REQUEST_METHOD"]
        self.bound_to: str | None = environ.get("SERVER_NAME")
        """The address or name that the server listens on."""
        self.address: str | None = environ.get("REMOTE_ADDR") or None
        """The address of the client, if known."""

    @property
    def headers(self) -> list[tuple[str, str]]:
        """The headers, with lower-case names; WSGI does not tell an underscore in a name from a hyphen."""
        named = [
            (key.removeprefix("HTTP_").replace("_", "-").lower(), value)
            for key, value in self.environ.items()
            if key.startswith("HTTP_") and key not in ("HTTP_CONTENT_TYPE", "HTTP_CONTENT_LENGTH")
        ]
        kind = self.environ.get("CONTENT_TYPE")
        return [*named, ("content-type", kind)] if kind else named

    def read(self, limit: int) -> bytes:
        """Return the body, but at most `limit` bytes of it.

        Raises:
            UnreadableBody: the length is no number, is missing where it is needed, or differs from the bytes that were
                sent.
        """
        length = self._length()
        expected = limit if length is None else min(length, limit)
        try:
            body = _read(self.environ["wsgi.input"], expected)
        except OSError as error:
            raise UnreadableBody(statuses.MALFORMED, "The body could not be read to its end") from error
        if length is not None and len(body) < expected:
            raise UnreadableBody(statuses.MALFORMED, f"The body ended after {len(body)} of {length} bytes")
        return body

    def _length(self) -> int | None:
        """Return the length of the body, or None if the input ends with the body."""
        declared = str(self.environ.get("CONTENT_LENGTH") or "").strip()
        chunked = "chunked" in self.environ.get("HTTP_TRANSFER_ENCODING", "").lower()
        if chunked and self.environ.get("wsgi.input_terminated"):
            return None
        if chunked:
            raise UnreadableBody(
                statuses.LENGTH_MISSING, "This server reads no chunked bodies; send the body with a Content-Length"
            )
        if not declared:
            return 0
        if not (declared.isascii() and declared.isdigit()) or len(declared) > 18:
            raise UnreadableBody(statuses.MALFORMED, "The Content-Length is not a number of bytes")
        return int(declared)


def _read(stream: Any, limit: int) -> bytes:
    chunks: list[bytes] = []
    left = limit
    while left > 0 and (chunk := stream.read(min(left, _CHUNK_BYTES))):
        chunks.append(chunk)
        left -= len(chunk)
    return b"".join(chunks)


class WsgiApp:
    """A WSGI application that serves one path, alone or mounted."""

    def __init__(self, answer: Callable[[WsgiRequest], WsgiReply], *, path: str = "/mcp") -> None:
        self._answer = answer
        """Returns the response to a request; may block, and is called from many threads at once."""
        self._path = "/" + path.strip("/")

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        """Serve one request."""
        if self._is_served(environ):
            reply = self._answer(WsgiRequest(environ))
        else:
            reply = WsgiReply(statuses.NOT_FOUND, [("content-length", "0")], b"")
        start_response(f"{reply.status} {reason_phrase(reply.status) or 'Unknown'}", reply.headers)
        return [] if environ["REQUEST_METHOD"] == "HEAD" else [reply.body]

    def _is_served(self, environ: Environ) -> bool:
        # PEP 3333 decodes the bytes of a path as latin-1.
        path = environ.get("PATH_INFO", "").encode("latin-1").decode(errors="replace")
        mounted_here = bool(environ.get("SCRIPT_NAME", "").strip("/")) and path in ("", "/")
        return mounted_here or path.rstrip("/") == self._path.rstrip("/")
