import asyncio

from dragoman.server.http.guard import Guard
from dragoman.server.http.head import LONGEST_KEPT, MOST_KEPT, HeadReader
from dragoman.transports.http.asgi import AsgiExchange

HEADERS = [(b"host", b"localhost"), (b"accept", b"application/json"), (b"mcp-name", b"add")]


def admitted(entrance, headers):
    async def admit():
        scope = {"method": "POST", "headers": headers, "server": ("127.0.0.1", 8000)}
        return entrance.admit(AsgiExchange(scope, None, None))

    return asyncio.run(admit())


def test_the_same_headers_are_read_once():
    entrance = HeadReader(Guard())
    first = admitted(entrance, list(HEADERS))
    assert (first.sent.name, first.taken.json, first.taken.sse, first.barred) == ("add", True, False, None)
    assert admitted(entrance, list(HEADERS)) is first


def test_other_headers_are_read_for_themselves():
    entrance = HeadReader(Guard())
    admitted(entrance, HEADERS)
    assert admitted(entrance, [*HEADERS[:2], (b"mcp-name", b"other")]).sent.name == "other"
    assert admitted(entrance, [(b"host", b"evil.example")]).barred.status == 421


def test_headers_of_a_server_that_gives_lists_are_read_each_time():
    entrance = HeadReader(Guard())
    headers = [list(header) for header in HEADERS]
    assert admitted(entrance, headers).sent.name == "add"
    assert admitted(entrance, headers) is not admitted(entrance, headers)


def test_what_is_kept_is_bounded_in_number_and_length():
    entrance = HeadReader(Guard())
    for number in range(MOST_KEPT + 1):
        admitted(entrance, [*HEADERS, (b"x", b"%d" % number)])
    assert len(entrance._kept) == 1
    admitted(entrance, [*HEADERS, (b"x", b"y" * LONGEST_KEPT)])
    assert len(entrance._kept) == 1
