"""HTTP/1.1 connections that end gracefully when their server shuts down.

A client may send a request at the moment in which the server closes the kept-alive connection. The client then cannot
tell whether the request was served. So an idle connection stays open for LINGER_SECONDS. The server serves a request
that arrives in this time, and its response is the last one (`Connection: close`).
"""

from __future__ import annotations

import select
from contextlib import suppress

from dragoman.transports.http.exchange import LINGER_SECONDS
from dragoman.transports.http.http1 import Http1Connection

UNREAD_SECONDS = 0.01
_UNAVAILABLE = 503


class GracefulHttp1Connection(Http1Connection):
    """A connection that ends gracefully when the server shuts down."""

    def shutdown(self) -> None:
        """Answer requests that arrived, or arrive within LINGER_SECONDS, and then end."""
        if not self.is_ending:
            self.is_ending = True
            self._keep_alive_seconds = LINGER_SECONDS
            if self._is_idle():
                self._set_idle_deadline(LINGER_SECONDS)

    def end(self) -> None:
        """Accept no further request; refuse an incomplete one, and finish the current one."""
        self.is_ending = True
        if self._is_idle():
            self._close()
            return
        self._stop_parsing(_UNAVAILABLE)
        self._queue.clear()
        if self._current is not None:
            self._current.keeps_alive = False

    def _is_idle(self) -> bool:
        has_input = self._unparsed or self._queue or self._incoming is not None
        return not has_input and self._current is None and self._answered is None

    def _linger(self) -> None:
        super()._linger()
        if self.is_ending:
            self._set_idle_deadline(LINGER_SECONDS)

    def _on_timer(self) -> None:
        is_over = self._is_idle() and self.loop.time() >= self._idle_until
        if is_over and not self._is_closing and self._has_unread():
            self._timer = None
            self._set_idle_deadline(UNREAD_SECONDS)
        else:
            super()._on_timer()

    def _has_unread(self) -> bool:
        """Tell whether the socket has unread bytes. They may be a request, which a close would lose."""
        connection = self._transport.get_extra_info("socket")
        if connection is None or not hasattr(select, "poll"):
            return False
        waiting = select.poll()
        with suppress(OSError, ValueError):
            waiting.register(connection.fileno(), select.POLLIN)
            return bool(waiting.poll(0))
        return False
