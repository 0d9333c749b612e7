"""The HTTP statuses of JSON-RPC errors."""

import pytest

from dragoman.errors import (
    HeaderMismatch,
    InternalError,
    InvalidParams,
    InvalidRequest,
    MethodNotFound,
    MissingCapability,
    ResourceNotFound,
    RpcError,
    StoreUnavailable,
    UnsupportedVersion,
)
from dragoman.protocol.statuses import handler_status, rejection_status


@pytest.mark.parametrize(
    ("error", "before", "after", "after_proxied"),
    [
        (MethodNotFound("No"), 404, 200, 404),
        (InvalidParams("No"), 400, 200, 200),
        (InvalidRequest("No"), 400, 200, 200),
        (HeaderMismatch("No"), 400, 200, 400),
        (UnsupportedVersion("1999-01-01", []), 400, 200, 200),
        (MissingCapability({"roots": {}}), 400, 400, 400),
        (ResourceNotFound("note://1"), 400, 200, 200),
        (InternalError("No"), 400, 200, 200),
        (RpcError(-31999, "No"), 400, 200, 200),
    ],
)
def test_status_of_an_error_depends_on_who_raised_it(
    error: RpcError, before: int, after: int, after_proxied: int
) -> None:
    assert rejection_status(error) == before
    assert handler_status(error) == after
    assert handler_status(error, is_stateless=True) == after_proxied


def test_unavailable_store_returns_503() -> None:
    error = InternalError("The store is away")
    error.label = StoreUnavailable.label
    assert handler_status(error) == 503
