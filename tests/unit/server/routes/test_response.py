"""`Response`: bodies, statuses and headers."""

import pytest

from dragoman.errors import ValidationError
from dragoman.server import Response

TEXT, BINARY, JSON = b"text/plain; charset=utf-8", b"application/octet-stream", b"application/json"


@pytest.mark.parametrize(
    ("value", "status", "body", "kind"),
    [
        ("é", 200, "é".encode(), TEXT),
        (b"\x00", 200, b"\x00", BINARY),
        (bytearray(b"a"), 200, b"a", BINARY),
        ({"a": [1, None]}, 200, b'{"a":[1,null]}', JSON),
        ([1], 200, b"[1]", JSON),
        (3, 200, b"3", JSON),
        (None, 204, b"", None),
        (b"", 200, b"", None),
        (Response("gone", 410), 410, b"gone", TEXT),
    ],
)
def test_a_return_value_becomes_a_response(value, status, body, kind):
    made = Response.of(value)
    assert (made.status, made.body, dict(made.headers).get(b"content-type")) == (status, body, kind)


def test_headers_may_be_repeated_and_those_of_the_framing_are_the_servers():
    pairs = [("Set-Cookie", "a=1"), ("Set-Cookie", "b=2"), ("Content-Length", "9"), ("Connection", "upgrade")]
    made = Response("x", headers=pairs, media_type="text/html")
    assert made.headers == ((b"set-cookie", b"a=1"), (b"set-cookie", b"b=2"), (b"content-type", b"text/html"))


def test_a_content_type_among_the_headers_is_kept():
    made = Response("x", headers={"Content-Type": "text/csv"})
    assert made.headers == ((b"content-type", b"text/csv"),)


@pytest.mark.parametrize("status", [0, 100, 199, 600])
def test_a_status_that_ends_no_exchange_is_refused(status):
    with pytest.raises(ValueError, match="status must be"):
        Response(status=status)


@pytest.mark.parametrize(("name", "value"), [("x", "a\r\nset-cookie: b"), ("x\n", "a"), ("", "a"), ("x", "\0")])
def test_a_header_cannot_hold_another_one(name, value):
    with pytest.raises(ValueError, match="line end"):
        Response(headers={name: value})


def test_a_tuple_and_what_json_cannot_say_are_refused():
    with pytest.raises(TypeError, match=r"return Response\(body, status\)"):
        Response.of(("body", 404))
    with pytest.raises(ValidationError):
        Response.of(object())


def test_the_representation_has_no_headers():
    assert repr(Response("abc", headers={"set-cookie": "secret"})) == "<Response 200: 3 bytes>"
