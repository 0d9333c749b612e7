"""Requests of a server to its client, and whoever waits for the answers: on a duplex connection and in a session."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from msgspec import Raw

from dragoman.errors import Timeout
from dragoman.protocol.peer import Peer


async def ask(peer: Peer, send: Callable[[bytes], None], method: str, params: Any, timeout: float) -> Raw:
    """Ask the client and return what it answers; a request that nobody waits for any more is withdrawn.

    Raises:
        RpcError: the client refused.
        Timeout: it did not answer in time.
        TransportError: it is gone.
    """
    answered: asyncio.Future[Raw] = asyncio.get_running_loop().create_future()
    id = peer.next_id()
    send(peer.send_request(id, method, params, answered))
    reason = "The request that asked was cancelled"
    try:
        async with asyncio.timeout(timeout):
            return await answered
    except TimeoutError:
        reason = f"Timed out after {timeout:g} seconds"
        raise Timeout(f"The client did not answer {method} within {timeout:g} seconds", id) from None
    finally:
        if (notice := peer.cancel(id, reason)) is not None:  # it was not answered
            send(notice)


def settle(waiter: asyncio.Future[Any], outcome: Any) -> None:
    """Let whoever waits go on with an outcome, or with the exception that it is."""
    if not waiter.done():
        finish = waiter.set_exception if isinstance(outcome, Exception) else waiter.set_result
        finish(outcome)
