"""`connected`: a client that is connected to a server for the duration of a test."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Unpack, cast

from dragoman.client.client import AsyncClient
from dragoman.client.connect.endpoint import Target

if TYPE_CHECKING:
    from dragoman.client.options import ClientOptions

ERAS = ("handshake", "stateless")


@asynccontextmanager
async def connected(
    server: Target, era: str | None = None, **options: Unpack[ClientOptions]
) -> AsyncIterator[AsyncClient]:
    """Connect an asynchronous client to a server for the duration of an `async with` block.

    Example:
        async with connected(server, "stateless") as client:
            assert (await client.call_tool("add", {"a": 1, "b": 2})).text == "3"

    `server` is a `Server`, or any other target of a client. `era` is "handshake", "stateless", or the name of a
    protocol version; by default the client negotiates the version. The options are those of `AsyncClient`.

    Raises:
        ValueError: there is no such era or version.
        TransportError: the server cannot be reached.
    """
    async with AsyncClient(server, **cast("ClientOptions", {**era_options(era), **options})) as client:
        yield client


def era_options(era: str | None) -> ClientOptions:
    """Return the options of a client for an era or a protocol version."""
    if era is None:
        return {}
    return cast("ClientOptions", {"mode": era} if era in ERAS else {"protocol_version": era})
