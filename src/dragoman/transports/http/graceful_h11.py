"""HTTP/1.1 connections for uvicorn without httptools; they end gracefully as in `graceful_http1`."""

from __future__ import annotations

from uvicorn.protocols.http.h11_impl import H11Protocol

from dragoman.transports.http.exchange import LINGER_SECONDS

_CLOSE = (b"connection", b"close")


class GracefulH11Connection(H11Protocol):
    """A connection that ends gracefully when the server shuts down."""

    _is_ending = False

    def shutdown(self) -> None:
        """Answer requests that arrive within LINGER_SECONDS, with `Connection: close`, and then end."""
        if not self._is_ending:
            self._is_ending = True
            headers = self.server_state.default_headers
            if _CLOSE not in headers:
                self.server_state.default_headers = [*headers, _CLOSE]
            self.loop.call_later(LINGER_SECONDS, self.end)

    def end(self) -> None:
        """Accept no further request; finish the current one."""
        if not self.transport.is_closing():
            super().shutdown()

    def abort(self) -> None:
        """Close at once, and drop unwritten output."""
        self.transport.abort()
