"""`HttpRefusal`: the exception for an HTTP request that is not served.

Every check of `server/http` raises it. `HttpService.serve` catches it, and `PostService.refuse` sends the response.
"""

from __future__ import annotations

from dragoman import types
from dragoman.auth.server.identity import Denial
from dragoman.errors import DragomanError, InvalidRequest
from dragoman.protocol import statuses
from dragoman.protocol.inbound import Rejection
from dragoman.server.request.call import Call
from dragoman.transports.http.exchange import Header


class HttpRefusal(DragomanError):
    """A request that is not served: the HTTP status, the error and additional headers of the response.

    If `reason` is text, the error is the JSON-RPC error -32600 (InvalidRequest).
    """

    def __init__(
        self,
        status: int,
        reason: Exception | str,
        call: Call | None = None,
        *,
        id: types.RequestId | None = None,
        null_id: bool = False,
        headers: tuple[Header, ...] = (),
        place: str | None = None,
    ) -> None:
        super().__init__(str(reason))
        self.status = status
        self.error = InvalidRequest(reason) if isinstance(reason, str) else reason
        self.id = id
        self.call = call
        """The call of the request; if it is set, middleware runs for the refusal."""
        self.null_id = null_id
        self.headers = headers
        self.place = place
        """The part of the server that failed; the error is then reported, and the client does not receive its text."""

    @classmethod
    def of(cls, rejection: Rejection, call: Call | None = None) -> HttpRefusal:
        """Return the refusal for a rejection of `protocol.inbound` or of a `Guard`."""
        return cls(rejection.status, rejection.error, call, id=rejection.id, null_id=rejection.null_id)

    @classmethod
    def repeated(cls, header: str) -> HttpRefusal:
        """Return the refusal for a repeated header that may occur only once."""
        return cls(statuses.MALFORMED, f"The header {header} is repeated; send it once")


def challenge(denial: Denial) -> Header:
    """Return the `WWW-Authenticate` header for a denial."""
    return b"www-authenticate", denial.challenge.encode("latin-1", "replace")
