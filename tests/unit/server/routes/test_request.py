"""`RouteRequest`: what the function of a route reads of a request."""

from dataclasses import dataclass

import pytest

from dragoman.errors import ParseError
from dragoman.server import RouteRequest


@dataclass
class Order:
    id: int


def request(content: bytes = b"", query: bytes = b"") -> RouteRequest:
    headers = [(b"x-tenant", b"acme"), (b"authorization", b"Bearer secret")]
    scope = {"method": "PUT", "headers": headers, "query_string": query}
    return RouteRequest.of(scope, "/orders/7", {"id": "7"}, content, "alice")


def test_a_request_has_its_parts():
    made = request(b'{"id":3}', b"a=1&b=&a=2&c=%C3%A9")
    assert (made.method, made.path, made.path_params, made.principal) == ("PUT", "/orders/7", {"id": "7"}, "alice")
    assert made.query == {"a": "2", "b": "", "c": "é"}
    assert made.headers["X-Tenant"] == "acme"
    assert (made.body(), made.text(), made.json()) == (b'{"id":3}', '{"id":3}', {"id": 3})
    assert made.json(Order) == Order(3)


def test_the_representation_has_no_credentials():
    assert repr(request(b"secret", b"token=secret")) == "<RouteRequest PUT /orders/7>"


@pytest.mark.parametrize("content", [b"", b"{", b"[1]", b'"\xff"', b"\xff", b"[" * 100_000])
def test_a_body_that_is_no_json_object_is_refused_with_an_error_for_the_client(content):
    with pytest.raises(ParseError, match="not the expected JSON"):
        request(content).json()


def test_a_body_of_another_shape_is_refused():
    with pytest.raises(ParseError, match="id"):
        request(b'{"id":"three"}').json(Order)
    assert request(b"[1,2]").json(list[int]) == [1, 2]


def test_a_body_that_is_not_utf_8_is_no_text():
    with pytest.raises(ParseError, match="UTF-8"):
        request(b"\xff").text()


def test_a_query_has_a_bound():
    with pytest.raises(ParseError, match="1000 fields"):
        request(query=b"a&" * 2000)
