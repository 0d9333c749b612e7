"""HTTP/1.1 by uvicorn's connection in plain Python, where httptools is absent; it ends as those of `ending` do."""

from __future__ import annotations

from uvicorn.protocols.http.h11_impl import H11Protocol

from dragoman.transports.http.exchange import LINGER_SECONDS

_CLOSE = (b"connection", b"close")


class EndingH11(H11Protocol):
    """A connection that can be ended while it is used."""

    _is_ending = False

    def shutdown(self) -> None:
        """Answer what was sent, and what still comes within a moment, and then end."""
        if not self._is_ending:
            self._is_ending = True
            headers = self.server_state.default_headers
            if _CLOSE not in headers:
                self.server_state.default_headers = [*headers, _CLOSE]
            self.loop.call_later(LINGER_SECONDS, self.end)

    def end(self) -> None:
        """Take no further request; one that is served is answered."""
        if not self.transport.is_closing():
            super().shutdown()

    def abort(self) -> None:
        """End at once, though something may be unwritten."""
        self.transport.abort()
