"""Requests by WSGI, without a server behind them."""

import io
from typing import Any
from wsgiref.util import setup_testing_defaults
from wsgiref.validate import validator

import pytest

from dragoman.transports.http.wsgi import UnreadableBody, WsgiApp, WsgiReply, WsgiRequest


class Echo:
    """Answers with what was sent."""

    def __init__(self, status: int = 200, most: int = 100) -> None:
        self._status = status
        self._most = most
        self.requests: list[WsgiRequest] = []

    def answer(self, request: WsgiRequest) -> WsgiReply:
        self.requests.append(request)
        return WsgiReply(self._status, [("content-type", "text/plain")], request.read(self._most))


def environ(body: bytes = b"", path: str = "/mcp", method: str = "POST", **more: Any) -> dict[str, Any]:
    made: dict[str, Any] = {}
    setup_testing_defaults(made)
    made |= {
        "REQUEST_METHOD": method,
        "PATH_INFO": path,
        "SCRIPT_NAME": "",
        "QUERY_STRING": "",
        "wsgi.input": io.BytesIO(body),
    }
    return made | {"CONTENT_LENGTH": str(len(body))} | more


def call(app: Any, given: dict[str, Any]) -> tuple[str, list[tuple[str, str]], bytes]:
    started: list[Any] = []

    def start_response(status: str, headers: list[tuple[str, str]], exc_info: Any = None) -> Any:
        started.append((status, headers))
        return lambda data: None

    answered = app(given, start_response)
    try:
        body = b"".join(answered)
    finally:
        getattr(answered, "close", lambda: None)()
    ((status, headers),) = started
    return status, headers, body


class Broken(io.RawIOBase):
    """The body of a client that went away."""

    def read(self, size: int = -1) -> bytes:
        raise ConnectionResetError


@pytest.mark.covers("SHV-03")
def test_an_application_keeps_to_the_letter_of_pep_3333():
    app = validator(WsgiApp(Echo().answer))
    assert call(app, environ(b"hello")) == ("200 OK", [("content-type", "text/plain")], b"hello")


@pytest.mark.parametrize(
    ("script", "path", "status"),
    [
        ("", "/mcp", "200 OK"),
        ("", "/mcp/", "200 OK"),
        ("", "/", "404 Not Found"),
        ("", "", "404 Not Found"),
        ("", "/mcp/more", "404 Not Found"),
        ("", "/mcpx", "404 Not Found"),
        ("/tools", "", "200 OK"),
        ("/tools", "/", "200 OK"),
        ("/tools", "/mcp", "200 OK"),
        ("/tools", "/other", "404 Not Found"),
        ("/", "/", "404 Not Found"),
        ("", "/\xff\xfe", "404 Not Found"),
    ],
)
@pytest.mark.covers("SHV-03")
def test_one_path_is_served_with_or_without_a_slash_alone_or_below_a_mount(script, path, status):
    echo = Echo()
    given = environ(b"body", path, SCRIPT_NAME=script)
    assert call(WsgiApp(echo.answer), given)[0] == status
    assert len(echo.requests) == (status == "200 OK")


@pytest.mark.parametrize(("path", "asked"), [("/", "/"), ("", ""), ("wörter", "/w\xc3\xb6rter"), ("/a/b/", "/a/b")])
def test_the_path_may_be_any(path, asked):
    assert call(WsgiApp(Echo().answer, path=path), environ(path=asked))[0] == "200 OK"


def test_a_path_that_is_not_served_has_an_empty_answer_of_known_length():
    assert call(WsgiApp(Echo().answer), environ(path="/elsewhere")) == ("404 Not Found", [("content-length", "0")], b"")


def test_headers_have_their_names_back_and_the_media_type_among_them():
    request = WsgiRequest(
        environ(HTTP_MCP_METHOD="ping", CONTENT_TYPE="application/json", HTTP_CONTENT_TYPE="text/plain")
    )
    headers = dict(request.headers)
    assert headers["mcp-method"] == "ping"
    assert headers["content-type"] == "application/json"
    assert (request.method, request.bound_to) == ("POST", "127.0.0.1")
    assert "content-type" not in dict(WsgiRequest(environ()).headers)


@pytest.mark.covers("SHV-04")
def test_no_more_of_a_body_is_read_than_is_wanted():
    given = environ(b"0123456789")
    assert WsgiRequest(given).read(4) == b"0123"
    assert given["wsgi.input"].read() == b"456789"
    given = environ(b"0123456789", CONTENT_LENGTH="3")
    assert WsgiRequest(given).read(4) == b"012"
    long = bytes(200_000)
    assert WsgiRequest(environ(long)).read(10**6) == long


@pytest.mark.covers("SHV-04")
@pytest.mark.parametrize("missing", [{"CONTENT_LENGTH": ""}, {"CONTENT_LENGTH": " "}, {"CONTENT_LENGTH": None}])
def test_a_body_without_a_length_is_no_body(missing):
    given = environ(b"not read") | missing
    assert WsgiRequest(given).read(100) == b""
    assert given["wsgi.input"].tell() == 0


@pytest.mark.covers("SHV-04")
def test_a_chunked_body_is_read_where_the_server_ends_it():
    given = environ(b"in pieces", HTTP_TRANSFER_ENCODING="Chunked", CONTENT_LENGTH="")
    assert WsgiRequest(given | {"wsgi.input_terminated": True}).read(100) == b"in pieces"
    assert WsgiRequest(environ(b"pieces", **{"wsgi.input_terminated": True})).read(100) == b"pieces"


@pytest.mark.covers("SHV-04")
@pytest.mark.parametrize(
    ("more", "status", "message"),
    [
        ({"CONTENT_LENGTH": "ten"}, 400, "The Content-Length is not a number of bytes"),
        ({"CONTENT_LENGTH": "-1"}, 400, "The Content-Length is not a number of bytes"),
        ({"CONTENT_LENGTH": "1e3"}, 400, "The Content-Length is not a number of bytes"),
        ({"CONTENT_LENGTH": "²"}, 400, "The Content-Length is not a number of bytes"),
        ({"CONTENT_LENGTH": "9" * 5000}, 400, "The Content-Length is not a number of bytes"),
        ({"CONTENT_LENGTH": "20"}, 400, "The body ended after 4 of 20 bytes"),
        ({"wsgi.input": Broken()}, 400, "The body could not be read to its end"),
        (
            {"HTTP_TRANSFER_ENCODING": "chunked"},
            411,
            "This server reads no chunked bodies; send the body with a Content-Length",
        ),
    ],
)
def test_a_body_that_cannot_be_read_says_why_and_what_to_answer(more, status, message):
    with pytest.raises(UnreadableBody) as raised:
        WsgiRequest(environ(b"body", **more)).read(100)
    assert (raised.value.status, str(raised.value)) == (status, message)


def test_an_answer_to_head_has_no_body():
    assert call(validator(WsgiApp(Echo().answer)), environ(method="HEAD"))[2] == b""


@pytest.mark.parametrize(("status", "line"), [(421, "421 Misdirected Request"), (499, "499 Unknown")])
def test_a_status_has_its_phrase(status, line):
    assert call(WsgiApp(Echo(status).answer), environ())[0] == line
