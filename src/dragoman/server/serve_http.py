"""Serving an ASGI application with uvicorn, until a signal ends it quietly."""

from __future__ import annotations

import signal
from typing import Any

import uvicorn

from dragoman.transports.asgi import AsgiApp


class _Uvicorn(uvicorn.Server):
    """Ends our streams before it waits for connections, which would wait for them."""

    def __init__(self, config: uvicorn.Config, app: AsgiApp) -> None:
        super().__init__(config)
        self._app = app

    async def shutdown(self, sockets: Any = None) -> None:
        await self._app.close()
        await super().shutdown(sockets)


def run_http(app: AsgiApp, *, host: str, port: int) -> None:
    """Serve an application; SIGINT and SIGTERM end it, with exit code 0."""
    config = uvicorn.Config(app, host=host, port=port, log_level="warning", lifespan="off", timeout_graceful_shutdown=5)
    server = _Uvicorn(config, app)
    # uvicorn raises the signal again when it has ended, which would end the process with a traceback.
    before = {number: signal.signal(number, signal.SIG_IGN) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        server.run()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
