"""Ports for servers that tests start."""

from __future__ import annotations

import random
import socket
from contextlib import suppress

OUTSIDE_OUTGOING = range(10_000, 32_768)
"""Ports that Linux gives to no outgoing connection."""


def free_port() -> int:
    """Return a port of this machine that nobody listens to.

    A port that the system chooses could become the port of an outgoing connection before the server listens, or while a
    test restarts the server. A client that tries again and again could even connect to itself there.
    """
    while True:
        port = random.SystemRandom().choice(OUTSIDE_OUTGOING)
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
