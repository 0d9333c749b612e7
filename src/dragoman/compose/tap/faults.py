"""`Faults`: what a tap does wrong on purpose, so that a host can be tried against it.

A fault meets messages of the server, because a host must survive its servers. `delay` meets the messages of both sides.
"""

from __future__ import annotations

from typing import NamedTuple

GARBAGE = b"\xff{this is no message"


class Faults(NamedTuple):
    """The faults of a tap; `at` is the number of the message that they meet, counted from 1, and None means all.

    Example:
        Faults(duplicate=True, at=3)     # the third message of the server is sent twice
    """

    delay: float = 0.0
    cut: bool = False
    duplicate: bool = False
    garbage: bool = False
    status: int | None = None
    """The status of HTTP responses; `at` counts the requests then."""
    at: int | None = None

    @property
    def change_messages(self) -> bool:
        """Whether the tap must find the end of each message."""
        return bool(self.delay or self.cut or self.duplicate or self.garbage)

    def meet(self, number: int) -> bool:
        """Tell whether the message or request with this number is met."""
        return self.at is None or self.at == number

    def apply(self, message: bytes, number: int, garbage: bytes) -> tuple[bytes, bool]:
        """Return the bytes to send in the place of a message of the server, and whether the connection ends then."""
        if not self.meet(number):
            return message, False
        message = message * (2 if self.duplicate else 1)
        if self.garbage:
            message = garbage + message
        return (message[: len(message) // 2], True) if self.cut else (message, False)
