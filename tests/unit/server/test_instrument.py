import pytest
from msgspec import Raw

from dragoman import InvalidParams, ResourceNotFound, RpcError
from dragoman.errors import InternalError, MethodNotFound, UnsupportedVersion
from dragoman.server.instrument import _label, readable


@pytest.mark.parametrize(
    ("error", "label"),
    [
        (InvalidParams("Unknown tool: x"), "tool_not_found"),
        (InvalidParams("Unknown prompt: x"), "prompt_not_found"),
        (InvalidParams("Missing required arguments: a, b"), "missing_required_arguments"),
        (InvalidParams("Invalid cursor: 'x'"), "invalid_params"),
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
    assert _label(error) == label


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
