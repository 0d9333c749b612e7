"""Connections that end in good order when their server ends.

A client may send a request at the very moment in which the server closes the connection that the client kept alive.
The client then cannot tell whether the request was served. So a connection on which nothing is asked for stays open for
a moment: what is asked for meanwhile is served, and its response says that it is the last one (`Connection: close`).
"""

from __future__ import annotations

import select
from contextlib import suppress

from dragoman.transports.http.exchange import LINGER_SECONDS
from dragoman.transports.http.http1 import Http1Connection

UNREAD_SECONDS = 0.01
_UNAVAILABLE = 503


class EndingConnection(Http1Connection):
    """A connection of HTTP/1.1 that can be ended while it is used."""

    def shutdown(self) -> None:
        """Answer what was sent, and what still comes within a moment, and then end."""
        if not self.is_ending:
            self.is_ending = True
            self._keep_alive_seconds = LINGER_SECONDS
            if self._is_idle():
                self._rest(LINGER_SECONDS)

    def end(self) -> None:
        """Take no further request; one that did not come whole is refused, and one that is served is answered."""
        self.is_ending = True
        if self._is_idle():
            self._close()
            return
        self._hear_no_more(_UNAVAILABLE)
        self._in_line.clear()
        if self._current is not None:
            self._current.keeps_alive = False

    def _is_idle(self) -> bool:
        has_begun = self._begun or self._in_line or self._incoming is not None
        return not has_begun and self._current is None and self._answered is None

    def _linger(self) -> None:
        super()._linger()
        if self.is_ending:
            self._rest(LINGER_SECONDS)

    def _look(self) -> None:
        is_over = self._is_idle() and self.loop.time() >= self._idle_until
        if is_over and not self._is_closing and self._has_unread():
            self._timer = None
            self._rest(UNREAD_SECONDS)
        else:
            super()._look()

    def _has_unread(self) -> bool:
        """Tell whether the client sent something that was not read yet: closing would lose a request."""
        connection = self._transport.get_extra_info("socket")
        if connection is None or not hasattr(select, "poll"):
            return False
        waiting = select.poll()
        with suppress(OSError, ValueError):
            waiting.register(connection.fileno(), select.POLLIN)
            return bool(waiting.poll(0))
        return False
