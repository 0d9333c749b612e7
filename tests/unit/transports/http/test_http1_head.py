"""Heads of HTTP/1.1 requests: which are accepted, and why the others are refused."""

import pytest

from dragoman.transports.http.http1_head import MalformedRequest, parse_head, path_and_query

LINE = "The request line must be a method, a target and HTTP/1.1 or HTTP/1.0, with one space between them"
MISSING, REPEATED = "The header Host is missing", "The header Host is repeated; send it once"
FOREIGN = "The request line names another host than the header Host"
GET = b"GET /mcp HTTP/1.1\r\nHost: a"
REFUSED = [
    (b"POST  /mcp HTTP/1.1\r\nHost: a", LINE),
    (b"POST /mcp  HTTP/1.1\r\nHost: a", LINE),
    (b"POST /mcp HTTP/1.2\r\nHost: a", LINE),
    (b"POST /mcp HTTP/2.0\r\nHost: a", LINE),
    (b"POST /mcp HTTP/0.9\r\nHost: a", LINE),
    (b"POST /mcp\r\nHost: a", LINE),
    (b"SOURCE /mcp ICE/1.0\r\nHost: a", LINE),
    (b"GET /mcp HTTP/1.1", MISSING),
    (b"GET /mcp HTTP/1.1\r\nX-Host: a", MISSING),
    (b"GET /mcp HTTP/1.1\r\nHost: a\r\nHOST: a", REPEATED),
    (b"GET /mcp HTTP/1.0\r\nHost: a\r\nHost: b", REPEATED),
    (b"GET http://evil.example/mcp HTTP/1.1\r\nHost: a", FOREIGN),
    (b"GET http://a@evil.example/mcp HTTP/1.1\r\nHost: a", FOREIGN),
    (b"GET http://a:1/mcp HTTP/1.1\r\nHost: a", FOREIGN),
    (b"GET http:///mcp HTTP/1.1\r\nHost: a", FOREIGN),
    (b"GET http://a/mcp HTTP/1.0", FOREIGN),
    (GET + b"\r\nContent-Length: 1\r\nContent-Length: 1", ""),
    (GET + b"\r\nContent-Length: 1, 1", ""),
    (GET + b"\r\nContent-Length: +1", ""),
    (GET + b"\r\nContent-Length: -1", ""),
    (GET + b"\r\nContent-Length: 0x1", ""),
    (GET + b"\r\nContent-Length:", ""),
    (GET + b"\r\nContent-Length: 1" + b"0" * 18, ""),
    (GET + b"\r\nContent-Length: 1\r\nTransfer-Encoding: chunked", ""),
    (GET + b"\r\nTransfer-Encoding: gzip", ""),
    (GET + b"\r\nTransfer-Encoding: identity", ""),
    (GET + b"\r\nTransfer-Encoding: chunked, gzip", ""),
    (GET + b"\r\nTransfer-Encoding: gzip, chunked", ""),
    (GET + b"\r\nTransfer-Encoding: identity, chunked", ""),
    (GET + b"\r\nTransfer-Encoding: , chunked", ""),
    (GET + b'\r\nTransfer-Encoding: x y "z, chunked', ""),
    (GET + b"\r\nTransfer-Encoding:\r\nTransfer-Encoding: chunked", ""),
    (b"GET /mcp HTTP/1.0\r\nTransfer-Encoding: chunked", ""),
    (GET + b"\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked", ""),
    (GET + b"\r\nTransfer-Encoding:", ""),
    (GET + b"\r\nX : space before the colon", ""),
    (GET + b"\r\n : no name", ""),
    (GET + b"\r\n: no name", ""),
    (GET + b"\r\nno colon", ""),
    (GET + b"\r\nX: folded\r\n value", ""),
    (GET + b"\r\nX: a bare\rreturn", ""),
    (GET + b"\r\nX: a bare\nline end", ""),
    (GET + b"\r\nX: a zero\0", ""),
    (GET + b"\nTransfer-Encoding: chunked", ""),
    (b"GET /mcp\x80 HTTP/1.1\r\nHost: a", LINE),
]
ACCEPTED = [
    GET,
    b"GET /mcp HTTP/1.1\r\nX: POST  /mcp  HTTP/1.1\r\nhOST:a ",
    b"GET /mcp HTTP/1.0",
    b"GET HTTP://A:80/mcp HTTP/1.1\r\nHost: a:80",
    b"OPTIONS * HTTP/1.1\r\nHost: a",
    b"GET /mcp?to=http://b/ HTTP/1.1\r\nHost: a",
]


@pytest.mark.covers("SHT-53")
@pytest.mark.parametrize(("head", "problem"), REFUSED)
def test_malformed_or_ambiguous_head_is_refused(head, problem):
    with pytest.raises(MalformedRequest) as refused:
        parse_head(head)
    assert (refused.value.status, str(refused.value)) == (400, problem)


@pytest.mark.parametrize("head", ACCEPTED)
def test_head_with_one_host_and_single_spaces_is_accepted(head):
    assert parse_head(head).body_size == 0


@pytest.mark.parametrize(
    ("header", "size"),
    [
        (b"Content-Length: 12", 12),
        (b"Content-Length:\t012 ", 12),
        (b"Transfer-Encoding:\t Chunked ", None),
    ],
)
def test_headers_say_how_the_body_is_framed(header, size):
    assert parse_head(GET + b"\r\n" + header).body_size == size


@pytest.mark.parametrize(
    ("head", "keeps_alive"),
    [
        (GET, True),
        (GET + b"\r\nConnection: keep-alive", True),
        (GET + b"\r\nConnection: Upgrade, Close", False),
        (b"GET /mcp HTTP/1.0\r\nConnection: keep-alive", False),
    ],
)
def test_connection_is_kept_unless_the_client_or_its_version_closes_it(head, keeps_alive):
    assert parse_head(head).keeps_alive is keeps_alive


def test_header_names_are_lower_case_and_values_have_no_outer_space():
    assert parse_head(GET + b"\r\nX-Name: \t a \xe9 b\t").headers == ((b"host", b"a"), (b"x-name", b"a \xe9 b"))


@pytest.mark.parametrize(
    ("target", "parts"),
    [
        (b"/a?b", (b"/a", b"b")),
        (b"/a?b#c", (b"/a", b"b")),
        (b"//a", (b"//a", b"")),
        (b"http://a", (b"/", b"")),
        (b"http://a?b", (b"/", b"b")),
        (b"http://a/b?c", (b"/b", b"c")),
        (b"*", (b"*", b"")),
        (b"a:80", (b"*", b"")),
        (b"?a", (b"*", b"")),
    ],
)
def test_target_has_a_path_and_a_query(target, parts):
    assert path_and_query(target) == parts
