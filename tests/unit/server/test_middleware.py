import pytest
from msgspec import Raw

from dragoman.errors import (
    HeaderMismatch,
    InsufficientScope,
    InternalError,
    InvalidParams,
    InvalidRequest,
    MethodNotFound,
    MissingCapability,
    ResourceNotFound,
    RpcError,
    ToolError,
    UnsupportedVersion,
)
from dragoman.schema.python.shapes import Problem
from dragoman.schema.python.signature import ArgumentsRejected
from dragoman.server.dispatch.runner import label_of
from dragoman.server.request.context import readable


@pytest.mark.parametrize(
    ("error", "label"),
    [
        (InvalidParams("Unknown tool: x"), "invalid_params"),
        (ArgumentsRejected((Problem("a", "", missing=True),)).refusal(), "missing_required_arguments"),
        (ArgumentsRejected((Problem("a", "no"),)).refusal(), "invalid_params"),
        (InsufficientScope(["a"]), "insufficient_scope"),
        (MissingCapability({"roots": {}}), "missing_capability"),
        (HeaderMismatch("x"), "header_mismatch"),
        (InvalidRequest("x"), "invalid_request"),
        (ToolError("x"), "tool_error"),
        (ResourceNotFound("docs://x"), "resource_not_found"),
        (MethodNotFound("Method not found: x"), "method_not_found"),
        (InternalError("x"), "rpc_error"),
        (RpcError(-31999, "Unknown tool: x"), "rpc_error"),
        (UnsupportedVersion("x", []), "unsupported_version"),
        (LookupError("Unknown tool: x"), "internal_error"),
        (SystemExit(1), "internal_error"),
    ],
)
def test_an_error_has_one_label(error, label):
    assert label_of(error) == label


@pytest.mark.parametrize(
    ("raw", "value"),
    [
        (b'{"a":[1,2.5,null]}', {"a": [1, 2.5, None]}),
        (b"null", None),
        (b'{"a":1e999}', '{"a":1e999}'),
        (b'"\xff"', '"\ufffd"'),
    ],
)
def test_what_a_client_sent_is_readable_whatever_it_is(raw, value):
    assert readable(Raw(raw)) == value
