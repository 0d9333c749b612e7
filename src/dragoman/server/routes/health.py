"""`Health`: answers `/healthz` and `/readyz`, for probes of load balancers and of Kubernetes.

`/healthz` answers as long as the process does. `/readyz` answers 200 if the server can serve requests: its lifespan and
its extensions have begun, its store can be reached, and it does not drain. Otherwise it answers 503 with the reason.

Every client may ask, and asking the store costs something, so the answer of the store is kept for `KEEP_SECONDS`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from dragoman.protocol import statuses
from dragoman.protocol.jsonrpc import encode
from dragoman.transports.http.exchange import JSON_HEADERS, Exchange

if TYPE_CHECKING:
    from dragoman.server.dispatch.dispatcher import Dispatcher

LIVE_PATH, READY_PATH = "/healthz", "/readyz"
CHECK_SECONDS = 2.0
"""The seconds that the lifespan and the store have to answer."""
KEEP_SECONDS = 0.5
_HEADERS = (*JSON_HEADERS, (b"cache-control", b"no-store"))


class Health:
    """The health of one application; `start` begins to serve, and `is_draining` tells whether the application ends."""

    def __init__(
        self, server: Dispatcher, *, start: Callable[[], Awaitable[None]], is_draining: Callable[[], bool]
    ) -> None:
        self._server = server
        self._start = start
        self._is_draining = is_draining
        self._checked_at = float("-inf")
        self._problem: str | None = None

    async def serve(self, exchange: Exchange, path: str) -> bool:
        """Answer a probe; return False if the path is not one of the health."""
        asked = path.rstrip("/")
        if asked not in (LIVE_PATH, READY_PATH):
            return False
        if exchange.method not in ("GET", "HEAD"):
            await exchange.reply(statuses.METHOD_NOT_SERVED, headers=((b"allow", b"GET, HEAD"),))
            return True
        problem = None if asked == LIVE_PATH else await self._why_not_ready(exchange)
        status = statuses.OK if problem is None else statuses.UNAVAILABLE
        body = {"status": "ok"} if problem is None else {"status": "unavailable", "reason": problem}
        await exchange.reply(status, encode(body), _HEADERS)
        return True

    async def _why_not_ready(self, exchange: Exchange) -> str | None:
        if self._is_draining() or exchange.is_ending:
            return "draining"
        if exchange.loop.time() - self._checked_at >= KEEP_SECONDS:
            self._problem = await self._check()
            self._checked_at = exchange.loop.time()
        return self._problem

    async def _check(self) -> str | None:
        try:
            async with asyncio.timeout(CHECK_SECONDS):
                await self._start()
        except TimeoutError:
            return "starting"
        except Exception as error:
            self._server.report(error, None, {"place": "the start of the server"})
            return "not started"
        try:
            async with asyncio.timeout(CHECK_SECONDS):
                await self._server.storage.store.state("ready").get("ready")
        except Exception:  # the contract has StoreUnavailable; an engine of an author may raise anything
            return "store unreachable"
        return None
