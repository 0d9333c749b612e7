import copy
import pickle
import re

import pytest
from msgspec import UNSET

import dragoman
from dragoman import errors
from dragoman.errors import (
    DefinitionError,
    DragomanError,
    InvalidParams,
    MissingCapability,
    ResourceNotFound,
    RpcError,
    TokenRefused,
    UnsupportedVersion,
    UrlElicitationRequired,
    ValidationError,
)


def test_a_coded_error_knows_its_code_and_carries_its_data():
    error = InvalidParams("No such tool", {"name": "add"})
    assert (error.code, error.message, error.data) == (-32602, "No such tool", {"name": "add"})
    assert str(error) == "No such tool"


def test_an_error_without_data_is_told_from_one_whose_data_is_null():
    assert RpcError(-1, "x").data is UNSET
    assert RpcError(-1, "x", None).data is None


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (-32700, errors.ParseError),
        (-32600, errors.InvalidRequest),
        (-32601, errors.MethodNotFound),
        (-32602, errors.InvalidParams),
        (-32603, errors.InternalError),
        (-32002, errors.ResourceNotFound),
        (-32042, errors.UrlElicitationRequired),
        (-32020, errors.HeaderMismatch),
        (-32021, errors.MissingCapability),
        (-32022, errors.UnsupportedVersion),
        (-31999, errors.RpcError),
    ],
)
def test_an_error_that_a_peer_sent_becomes_its_most_precise_class_with_code_and_data_kept(code, kind):
    error = RpcError.of(code, "said so", {"why": 1})
    assert type(error) is kind
    assert (error.code, error.message, error.data) == (code, "said so", {"why": 1})


def test_a_missing_capability_names_every_path():
    error = MissingCapability({"sampling": {"tools": {}}, "roots": {}})
    assert "sampling.tools, roots" in error.message
    assert error.data == {"requiredCapabilities": {"sampling": {"tools": {}}, "roots": {}}}


def test_an_unsupported_version_says_which_to_use():
    error = UnsupportedVersion("1999-01-01", ["2026-07-28", "2025-11-25"])
    assert error.data == {"supported": ["2026-07-28", "2025-11-25"], "requested": "1999-01-01"}
    assert "use one of 2026-07-28, 2025-11-25" in error.message


@pytest.mark.parametrize(
    "error",
    [
        InvalidParams("a", [1]),
        RpcError(7, "b"),
        ResourceNotFound("file:///x"),
        MissingCapability({"roots": {}}),
        UnsupportedVersion("x", ["y"]),
        UrlElicitationRequired([{"url": "https://example.com"}]),
    ],
)
def test_rpc_errors_survive_pickling_and_copying(error):
    for again in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert type(again) is type(error)
        assert (again.code, again.message) == (error.code, error.message)


def test_a_validation_error_keeps_its_path_when_pickled():
    again = pickle.loads(pickle.dumps(ValidationError("wrong", "$.tools[3]")))
    assert (str(again), again.path) == ("wrong", "$.tools[3]")


def test_every_error_is_a_dragoman_error_and_definition_errors_are_value_errors_too():
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, Exception)]
    assert all(issubclass(kind, DragomanError) for kind in kinds)
    assert issubclass(DefinitionError, ValueError)


def public_errors():
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, DragomanError)]
    return [kind for kind in kinds if not kind.__name__.startswith("_")]


@pytest.mark.parametrize("kind", public_errors(), ids=lambda kind: kind.__name__)
def test_every_error_is_drawn_under_its_parent(kind):
    lines = errors.__doc__.splitlines()
    [place] = [number for number, line in enumerate(lines) if re.match(rf" *{kind.__name__}\b", line)]
    depth = indent(lines[place])
    above = [line for line in lines[:place] if line.strip() and indent(line) < depth]
    parent = next((base for base in kind.__mro__[1:] if not base.__name__.startswith("_")), None)
    assert kind is DragomanError or re.match(rf" *{parent.__name__}\b", above[-1])


def test_errors_at_the_top_are_those_of_the_tree():
    names = {kind.__name__ for kind in public_errors()} & set(dragoman.__all__)
    assert {"DragomanError", "RpcError", "ToolError", "TransportError", "Timeout", "ConfigError"} < names
    assert all(getattr(dragoman, name) is getattr(errors, name) for name in names)


def indent(line):
    return len(line) - len(line.lstrip())


def test_a_refusal_of_tokens_keeps_its_code_when_pickled():
    again = pickle.loads(pickle.dumps(TokenRefused("no", "invalid_grant")))
    assert (str(again), again.error) == ("no", "invalid_grant")
