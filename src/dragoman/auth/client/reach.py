"""Connections that lead inside a private network only where the MCP server itself is.

A name says nothing about where it leads. So each address is checked when its socket is made, and the socket connects to
that very address: a name server that answers differently a moment later gains nothing. Where a proxy makes the
connection, the proxy decides.
"""

from __future__ import annotations

import socket
from contextvars import ContextVar
from typing import Any

import aiohttp
from msgspec import Struct

from dragoman.auth.urls import is_private


class Trip(Struct):
    """One request: where it may go, and where it went."""

    may_go_inside: bool
    was_refused: bool = False
    """Whether one of the addresses of the host is inside a private network, and was not connected to."""
    peer: str | None = None
    """The address that the request was sent to; with https, after the host has proved its name."""


trip: ContextVar[Trip | None] = ContextVar("trip", default=None)


class GuardedConnector(aiohttp.TCPConnector):
    """Makes the connections that the trip of the current context allows."""

    def __init__(self) -> None:
        super().__init__(socket_factory=_checked_socket)

    async def connect(self, *request: Any, **around: Any) -> aiohttp.connector.Connection:
        """Return a connection, and note where it leads."""
        connection = await super().connect(*request, **around)
        current, transport = trip.get(), connection.transport
        peer = None if transport is None else transport.get_extra_info("peername")
        if current is not None and peer:
            current.peer = peer[0]
        return connection


def _checked_socket(address: tuple[Any, ...]) -> socket.socket:
    family, kind, protocol, _, (host, *_) = address
    current = trip.get()
    if current is not None and not current.may_go_inside and is_private(host):
        current.was_refused = True
        raise PermissionError("The address is inside a private network")
    return socket.socket(family, kind, protocol)
