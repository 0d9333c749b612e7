"""A server at its seams: what ASGI servers may do."""

import asyncio

import pytest

from dragoman.server.http.head import Guard, HeadReader
from dragoman.transports.http.asgi import AsgiExchange

FOREIGN = [(b"host", b"evil.example"), (b"accept", b"*/*")]


async def never() -> None:
    await asyncio.Event().wait()


def exchange(headers, bound_to: str = "127.0.0.1") -> AsgiExchange:
    return AsgiExchange({"method": "POST", "headers": headers, "server": (bound_to, 80)}, never, never)


@pytest.mark.parametrize("kind", [list, tuple, iter, lambda given: [list(pair) for pair in given]])
async def test_a_host_is_refused_however_the_headers_are_given_and_each_time(kind):
    heads = HeadReader(Guard(allowed_hosts=(), allowed_origins=()))
    for _ in range(2):
        assert heads.read(exchange(kind(FOREIGN))).refused is not None
        assert heads.read(exchange(kind(FOREIGN), "192.0.2.1")).refused is None
