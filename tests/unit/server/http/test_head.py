"""What the headers of a request say, and which hosts and origins are served."""

import asyncio

import pytest

from dragoman import DefinitionError
from dragoman.server.http.head import MAX_CACHED_BYTES, MAX_CACHED_HEADS, Guard, HeadReader
from dragoman.transports.http.asgi import AsgiExchange

HEADERS = [(b"host", b"localhost"), (b"accept", b"application/json"), (b"mcp-name", b"add")]
LOCAL, PUBLIC = "127.0.0.1", "192.0.2.7"


def status(guard: Guard, host: str | None, origin: str | None = None, bound_to: str | None = LOCAL) -> int:
    lines = [(b"accept", b"*/*")]
    lines += [(name, value.encode()) for name, value in ((b"host", host), (b"origin", origin)) if value is not None]
    refused = guard.refuse(lines, bound_to)
    return 200 if refused is None else refused.status


@pytest.fixture(autouse=True)
def no_environment(monkeypatch):
    monkeypatch.delenv("DRAGOMAN_ALLOWED_HOSTS", raising=False)
    monkeypatch.delenv("DRAGOMAN_ALLOWED_ORIGINS", raising=False)


@pytest.mark.covers("SHT-31")
@pytest.mark.parametrize(
    "host", ["localhost", "localhost:8000", "LOCALHOST:8000", "127.0.0.1", "127.0.0.1:1", "[::1]", "[::1]:8000", None]
)
@pytest.mark.parametrize("bound_to", [LOCAL, "127.0.0.53", "::1", "::ffff:127.0.0.1", "localhost"])
def test_a_local_server_serves_local_names_on_any_port(host, bound_to):
    assert status(Guard(), host, bound_to=bound_to) == 200


@pytest.mark.covers("SHT-31")
@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:8000", "127.evil.example", "localhost.evil.example", "", "[::2]", ":80"]
)
@pytest.mark.parametrize("bound_to", [LOCAL, "::1", "::ffff:127.0.0.1"])
def test_a_local_server_serves_no_other_name(host, bound_to):
    assert status(Guard(), host, bound_to=bound_to) == 421


@pytest.mark.covers("SHT-53")
@pytest.mark.parametrize(
    "host",
    [
        "[::1].evil.example",
        "[::1]evil.example:80",
        "[::1]:evil",
        "localhost:evil",
        "localhost:80:80",
        "localhost:80@evil.example",
        "localhost, evil.example",
        "localhost/",
        "localhost?",
        "localhost evil",
        "[localhost",
        "[",
        "]",
        "[]",
        "::1",
    ],
)
@pytest.mark.parametrize("bound_to", [LOCAL, "::1", PUBLIC, None])
@pytest.mark.parametrize("allowed", [None, ["*"], ["localhost"]])
def test_a_host_that_is_malformed_is_served_nowhere(host, bound_to, allowed):
    assert status(Guard(allowed_hosts=allowed), host, bound_to=bound_to) == 400


@pytest.mark.covers("SHT-53")
def test_a_host_that_is_repeated_or_missing_in_http_1_1_is_refused():
    for lines in ([(b"host", b"localhost"), (b"host", b"localhost")], [(b"host", b"localhost"), (b"host", b"evil")]):
        assert Guard().refuse(lines, LOCAL).status == 400
    assert Guard().refuse([], LOCAL, "1.1").status == 400
    for version in ("1.0", "2", None):
        assert Guard().refuse([], LOCAL, version) is None


@pytest.mark.covers("SHT-53")
@pytest.mark.parametrize("allowed", [None, ["*"], ["http://localhost"]])
def test_two_origins_are_refused(allowed):
    lines = [(b"host", b"localhost"), (b"origin", b"http://localhost"), (b"origin", b"http://localhost")]
    refused = Guard(allowed_origins=allowed).refuse(lines, LOCAL)
    assert refused.status == 403
    assert "The header Origin is repeated" in refused.error.message


@pytest.mark.parametrize("bound_to", [PUBLIC, None, "2001:db8::1"])
def test_a_server_that_is_not_local_serves_any_name_unless_some_are_allowed(bound_to):
    assert status(Guard(), "mcp.example.com", bound_to=bound_to) == 200
    guard = Guard(allowed_hosts=["mcp.example.com"])
    assert status(guard, "mcp.example.com:443", bound_to=bound_to) == 200
    assert status(guard, "evil.example", bound_to=bound_to) == 421
    assert status(guard, "localhost", bound_to=bound_to) == 421


@pytest.mark.parametrize(
    ("allowed", "host", "expected"),
    [
        ("mcp.example.com", "MCP.example.com", 200),
        ("mcp.example.com", "mcp.example.com:8443", 200),
        ("mcp.example.com:8443", "mcp.example.com:8443", 200),
        ("mcp.example.com:8443", "mcp.example.com:9000", 421),
        ("mcp.example.com:8443", "mcp.example.com", 421),
        ("[2001:db8::1]", "[2001:db8::1]:80", 200),
        ("2001:db8::1", "[2001:db8::1]:80", 200),
        ("[2001:db8::1]:80", "[2001:db8::1]:80", 200),
        ("*", "anything", 200),
        ("mcp.example.com", "localhost:8000", 200),
    ],
)
def test_an_allowed_host_without_a_port_is_allowed_on_any(allowed, host, expected):
    assert status(Guard(allowed_hosts=[allowed]), host) == expected


@pytest.mark.covers("SHT-31")
@pytest.mark.parametrize(
    ("origin", "host", "expected"),
    [
        ("http://localhost:8000", "localhost:8000", 200),
        ("http://localhost", "localhost:80", 200),
        ("https://localhost", "localhost:443", 200),
        ("http://[::1]:8000", "[::1]:8000", 200),
        ("http://localhost:3000", "localhost:8000", 403),
        ("http://evil.example", "localhost:8000", 403),
        ("null", "localhost", 403),
        ("", "localhost", 403),
        ("http://[::1", "localhost", 403),
        ("http://localhost:8000", None, 403),
        ("http://[::1].evil.example", "[::1]", 403),
        ("http://localhost:evil", "localhost", 403),
        (None, "localhost", 200),
    ],
)
def test_a_page_is_served_if_it_came_from_here(origin, host, expected):
    assert status(Guard(), host, origin) == expected


@pytest.mark.parametrize(
    ("allowed", "expected"),
    [("https://app.example.com", 200), ("HTTPS://app.example.com/", 200), ("*", 200), ("https://other.example", 403)],
)
def test_a_page_of_an_allowed_origin_is_served(allowed, expected):
    assert status(Guard(allowed_origins=[allowed]), "localhost", "https://app.example.com") == expected


@pytest.mark.covers("SHT-31")
@pytest.mark.parametrize(
    "origin",
    [
        "app.example.com",
        "//app.example.com",
        "https://app.example.com/page",
        "https://*.example.com",
        "https://",
        "a b",
    ],
)
def test_origins_that_no_page_has_are_refused(origin, monkeypatch):
    with pytest.raises(DefinitionError, match="must be an origin with its scheme, such as"):
        Guard(allowed_origins=[origin])
    monkeypatch.setenv("DRAGOMAN_ALLOWED_ORIGINS", origin)
    with pytest.raises(DefinitionError, match="in allowed_origins, or in DRAGOMAN_ALLOWED_ORIGINS"):
        Guard()


@pytest.mark.parametrize(
    "origin", ["*", "null", "http://localhost:3000", "https://[::1]:8000", "vscode-webview://abc", "HTTPS://A.example/"]
)
def test_origins_of_pages_are_accepted(origin):
    Guard(allowed_origins=[origin])


@pytest.mark.covers("SHT-31")
@pytest.mark.parametrize("host", ["https://mcp.example.com", "mcp.example.com/mcp", "*.example.com", "ada@example.com"])
def test_hosts_that_no_request_has_are_refused(host):
    with pytest.raises(DefinitionError, match="must be a host, such as"):
        Guard(allowed_hosts=[host])


@pytest.mark.covers("SHT-31")
def test_the_environment_says_what_the_author_did_not(monkeypatch):
    monkeypatch.setenv("DRAGOMAN_ALLOWED_HOSTS", " a.example, b.example:1 ,")
    monkeypatch.setenv("DRAGOMAN_ALLOWED_ORIGINS", "https://app.example")
    guard = Guard()
    assert status(guard, "a.example:9", "https://app.example") == 200
    assert status(guard, "b.example:1") == 200
    assert status(guard, "c.example") == 421
    assert status(Guard(allowed_hosts=["c.example"]), "a.example") == 421
    assert status(Guard(allowed_origins=[]), "a.example", "https://app.example") == 403


@pytest.mark.covers("SHT-31")
def test_a_refusal_says_what_to_set():
    guard = Guard()
    host = guard.refuse([(b"host", b"evil.example")], LOCAL)
    origin = guard.refuse([(b"host", b"localhost"), (b"origin", b"http://evil.example")], LOCAL)
    assert "'evil.example'" in host.error.message
    assert "allowed_hosts or DRAGOMAN_ALLOWED_HOSTS" in host.error.message
    assert "allowed_origins or DRAGOMAN_ALLOWED_ORIGINS" in origin.error.message


def head_of(reader, headers):
    async def read():
        scope = {"method": "POST", "headers": headers, "server": ("127.0.0.1", 8000)}
        return reader.read(AsgiExchange(scope, None, None))

    return asyncio.run(read())


def test_the_same_headers_are_read_once_and_others_for_themselves():
    reader = HeadReader(Guard())
    first = head_of(reader, list(HEADERS))
    assert (first.headers.name, first.acceptable.json, first.acceptable.sse, first.refused) == (
        "add",
        True,
        False,
        None,
    )
    assert head_of(reader, list(HEADERS)) is first
    assert head_of(reader, [*HEADERS[:2], (b"mcp-name", b"other")]).headers.name == "other"
    assert head_of(reader, [(b"host", b"evil.example")]).refused.status == 421


def test_what_is_kept_is_bounded_in_number_and_length():
    reader = HeadReader(Guard())
    for number in range(MAX_CACHED_HEADS + 1):
        head_of(reader, [*HEADERS, (b"x", b"%d" % number)])
    assert len(reader._cache) == 1
    head_of(reader, [*HEADERS, (b"x", b"y" * MAX_CACHED_BYTES)])
    assert len(reader._cache) == 1
