"""What a request says before its body."""

import asyncio

import pytest

from dragoman.server.request.http_request import HeaderMapping, HttpRequest, verify

SCOPE = {"method": "POST", "path": "/mcp", "headers": [(b"x-user", b"ann")], "user": "ann"}


def test_headers_are_found_in_whatever_case_and_repeated_ones_are_joined():
    headers = HeaderMapping([(b"X-One", b"1"), (b"x-two", b"2"), (b"x-one", b"\xe9")])
    assert (headers["x-ONE"], headers["X-Two"]) == ("1, \u00e9", "2")
    assert (list(headers), len(headers)) == (["x-one", "x-two"], 2)
    assert headers.get("x-three") is None


def test_headers_are_shown_without_what_may_be_a_credential():
    names = ["Authorization", "Cookie", "X-API-Key", "Proxy-Authorization", "X-Access-Token", "Mcp-Session-Id"]
    headers = HeaderMapping([(name.encode(), b"hunter2") for name in names] + [(b"X-Tenant", b"acme")])
    assert repr(headers) == str(headers)
    assert "hunter2" not in repr(headers)
    assert "'x-tenant': 'acme'" in repr(headers)
    assert [headers[name] for name in names] == ["hunter2"] * len(names)
    with pytest.raises(TypeError):
        headers["x-tenant"] = "other"  # type: ignore[index]


def test_a_request_is_what_its_scope_says():
    request = HttpRequest.of(SCOPE)
    assert (request.method, request.path, request.scope["user"]) == ("POST", "/mcp", "ann")


class Callable:
    """A check that is an object."""

    async def __call__(self, request: HttpRequest) -> str:
        return request.headers["x-user"]


async def later(request: HttpRequest) -> str:
    return request.headers["x-user"]


@pytest.mark.covers("SHT-46")
@pytest.mark.parametrize(
    "check", [later, lambda request: request.headers["x-user"], lambda request: later(request), Callable()]
)
def test_a_check_is_plain_or_asynchronous_or_returns_what_can_be_awaited(check):
    assert asyncio.run(verify(check, SCOPE, "/mcp")).principal == "ann"


def test_white_space_around_header_values_is_removed():
    headers = HeaderMapping([(b"X-Tenant", b" \tacme \t"), (b"x-tenant", b"other ")])
    assert headers["x-tenant"] == "acme, other"
