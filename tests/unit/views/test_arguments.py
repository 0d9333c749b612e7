import pytest
from msgspec import Raw

from dragoman import Argument, ToolError
from dragoman.views.arguments import ArgumentNames, decode_arguments

ARGUMENTS = {
    "q": Argument(name="org"),
    "org": Argument(fixed="acme"),
    "user_id": Argument(fixed=print),
    "page": Argument(hidden=True),
    "n": Argument(default=1),
}


def names(*, is_open=False):
    return ArgumentNames(["q", "org", "user_id", "page", "n", "other"], ARGUMENTS, is_open=is_open)


def plain(arguments):
    return {name: bytes(value) for name, value in arguments.items()}


def test_the_names_of_both_sides_are_known():
    both = names()
    assert both.shown == {"q": "org", "n": "n", "other": "other"}
    assert both.gone == ["q", "org", "user_id", "page"]
    assert both.always_present == {"org", "user_id", "n"}
    assert both.is_closed
    assert not names(is_open=True).is_closed
    assert not ArgumentNames(["a"], {"a": Argument(description="x")}, is_open=False).is_closed


def test_a_shown_name_may_be_that_of_a_fixed_argument():
    both = names()
    both.check("find", ["org"])
    inner = both.inner({"org": Raw(b'"words"')}, {"user_id": 3})
    assert plain(inner) == {"q": b'"words"', "n": b"1", "org": b'"acme"', "user_id": b"3"}


@pytest.mark.parametrize(
    "name", ["user_id", "USER_ID", "userId", "user-id", "user id", "\uff55ser_id", "ORG", "page", "Page", "q", "Q"]
)
@pytest.mark.parametrize("is_open", [False, True])
def test_a_name_that_the_upstream_may_read_as_one_that_clients_may_not_send_is_refused(name, is_open):
    with pytest.raises(ToolError, match="has no argument"):
        names(is_open=is_open).check("find", [name])


def test_further_arguments_pass_where_the_tool_takes_them():
    names(is_open=True).check("find", ["x"])
    with pytest.raises(ToolError, match="'find' has no argument 'x'"):
        names().check("find", ["x"])
    names().check("find", ["sessionId"])
    assert names().known({"sessionId": Raw(b"1"), "n": Raw(b"2")}).keys() == {"n"}
    assert names(is_open=True).known({"sessionId": Raw(b"1")}).keys() == {"sessionId"}


def test_arguments_are_decoded_and_stay_as_they_were_sent():
    raw, decoded = decode_arguments(b'{"a": 1.0, "b": {"c": [2]}}')
    assert plain(raw) == {"a": b"1.0", "b": b'{"c": [2]}'}
    assert decoded == {"a": 1.0, "b": {"c": [2]}}
    assert decode_arguments({"a": 1})[1] == {"a": 1}
    assert decode_arguments(b"null") == ({}, {})
