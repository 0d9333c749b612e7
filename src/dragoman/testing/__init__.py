"""For tests of servers and clients: a raw wire peer for a Server."""

from dragoman.testing.wire import WirePeer

__all__ = ["WirePeer"]
