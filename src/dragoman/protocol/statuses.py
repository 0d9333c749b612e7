"""The HTTP status of each response: one table for the transports, the server and its routes.

Each name is the reason of a response, and its value is the status. The two functions map JSON-RPC errors to statuses.
"""

from __future__ import annotations

from dragoman.errors import HeaderMismatch, MethodNotFound, MissingCapability, RpcError, StoreUnavailable

OK = 200
ACCEPTED = 202
"""A notification or a response of the client."""
NO_CONTENT = 204
NOT_MODIFIED = 304
MALFORMED = 400
"""Bytes, a header or a message that cannot be read, or a session id that is missing."""
HOST_MALFORMED = 400
"""RFC 9112, 3.2 requires this status for an invalid Host."""
STREAM_UNKNOWN = 400
"""Not 404: the client would conclude that its session has ended."""
ORIGIN_REFUSED = SCOPE_MISSING = 403
NOT_FOUND = 404
"""A path that is not served, and a session that does not exist."""
METHOD_NOT_SERVED = 405
NOT_ACCEPTABLE = 406
BODY_TOO_SLOW = 408
ID_IN_USE = 409
LENGTH_MISSING = 411
BODY_TOO_LARGE = 413
UNSUPPORTED_MEDIA_TYPE = 415
HOST_NOT_SERVED = 421
HEADERS_TOO_LARGE = 431
CLIENT_CLOSED = 499
"""The client is gone: nobody receives this response, but logs and frameworks see it."""
FAILED = 500
UNAVAILABLE = 503
"""There are too many sessions or subscriptions, the store is away, or the server ends."""


def rejection_status(error: RpcError) -> int:
    """Return the status of an error that occurs before a handler runs."""
    return NOT_FOUND if isinstance(error, MethodNotFound) else MALFORMED


def handler_status(error: RpcError, *, is_stateless: bool = False) -> int:
    """Return the status of an error that a handler raises: 200, with few exceptions.

    A missing capability has the status 400. An error because of the store has the status 503, so that the client may
    send the request again. A proxy learns only from its target that a stateless request has an unknown method (404) or
    wrong headers (400).
    """
    if is_stateless and isinstance(error, MethodNotFound | HeaderMismatch):
        return rejection_status(error)
    if error.label == StoreUnavailable.label:
        return UNAVAILABLE
    return MALFORMED if isinstance(error, MissingCapability) else OK
