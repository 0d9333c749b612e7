"""Requests that are refused over HTTP.

Whatever finds a reason to refuse raises `HttpRefusal`. `HttpService.serve` catches it, `PostService.refuse` answers.
"""

from __future__ import annotations

from http import HTTPStatus

from msgspec.structs import astuple

from dragoman import types
from dragoman.auth.server.identity import Denial
from dragoman.errors import DragomanError, InvalidRequest
from dragoman.protocol import eras, jsonrpc
from dragoman.protocol.inbound import Rejection
from dragoman.server.request.call import Session
from dragoman.transports.http.exchange import Header


class HttpRefusal(DragomanError):
    """A request that is not served: its HTTP status, the reason, and further headers of the response.

    A reason that is text becomes the JSON-RPC error -32600.
    """

    def __init__(
        self,
        status: int,
        reason: Exception | str,
        request: eras.McpRequest | jsonrpc.Request | None = None,
        *,
        id: types.RequestId | None = None,
        session: Session | None = None,
        null_id: bool = False,
        headers: tuple[Header, ...] = (),
        place: str | None = None,
    ) -> None:
        super().__init__(str(reason))
        self.status = int(status)
        self.error = InvalidRequest(reason) if isinstance(reason, str) else reason
        self.id = id if request is None else request.id
        self.request = request
        """The request, where middleware is to know of it."""
        self.session = session
        """The session of the request, where it is known."""
        self.null_id = null_id
        self.headers = headers
        self.place = place
        """The part of the server that failed, if one did: the error is then reported, and the client is not told it."""

    @classmethod
    def of(cls, rejection: Rejection) -> HttpRefusal:
        """Return the refusal of what the protocol rejects."""
        status, error, id, null_id, request = astuple(rejection)
        return cls(status, error, request, id=id, null_id=null_id)

    @classmethod
    def repeated(cls, header: str) -> HttpRefusal:
        """Return the refusal of a header that must be sent once."""
        return cls(HTTPStatus.BAD_REQUEST, f"The header {header} is repeated; send it once")


def challenge(denial: Denial) -> Header:
    """Return the header that tells a client how to authorize."""
    return b"www-authenticate", denial.challenge.encode("latin-1", "replace")
