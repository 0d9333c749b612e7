"""Secrets: removes secrets from texts of authorization servers and MCP servers, before an error or a log quotes them.

An authorization server may repeat a secret of the client: plain or encoded, whole or in part, at once or later.
So each text is compared with every secret of the flow, piece by piece and after decoding. A text that shares a piece
with a secret is replaced as a whole.
"""

from __future__ import annotations

import re
from base64 import urlsafe_b64decode
from collections import deque
from collections.abc import Iterator
from urllib.parse import unquote_plus

MAX_QUOTE = 200
MAX_SECRETS = 100
LEFT_OUT = "(left out, because it repeats a secret)"
_MIN_SECRET, _PIECE = 4, 8
_BASE64 = re.compile(r"[A-Za-z0-9+/_-]{8,}")


class Secrets:
    """The latest secrets that were sent to or received from an authorization server.

    Example:
        secrets = Secrets()
        secrets.add(client_secret)
        raise AuthError(f"The server refuses: {secrets.quoted(description)}")
    """

    def __init__(self) -> None:
        self._known: deque[str] = deque(maxlen=MAX_SECRETS)

    def __repr__(self) -> str:
        return "Secrets(...)"

    def add(self, *values: str | None) -> None:
        """Add secrets; one of less than four characters is ignored, because ordinary words may contain it."""
        for value in values:
            if value is not None and len(value) >= _MIN_SECRET and value not in self._known:
                self._known.append(value)

    def are_in(self, text: str) -> bool:
        """Tell whether a text contains a secret, or eight consecutive letters and digits of a secret."""
        for decoded in _decodings(text):
            folded = _folded(decoded)
            pieces = {folded[start : start + _PIECE] for start in range(len(folded) - _PIECE + 1)}
            if any(secret in decoded or _shares(_folded(secret), folded, pieces) for secret in self._known):
                return True
        return False

    def quoted(self, text: str) -> str:
        """Return a text for use in an error: short, printable, and replaced if it contains a secret."""
        cut = text[:MAX_QUOTE]
        if self.are_in(cut):
            return LEFT_OUT
        return "".join(character if character.isprintable() else " " for character in cut)


def _decodings(text: str) -> Iterator[str]:
    """Yield a text as it is, URL-decoded, and base64-decoded from each of four offsets."""
    for plain in dict.fromkeys((text, unquote_plus(text))):
        yield plain
        for run in _BASE64.findall(plain):
            for start in range(4):
                decoded = _base64_decoded(run[start:])
                yield decoded
                yield unquote_plus(decoded)


def _base64_decoded(run: str) -> str:
    if len(run) % 4 == 1:  # a single last character cannot be decoded
        run = run[:-1]
    padded = run.replace("+", "-").replace("/", "_") + "=" * (-len(run) % 4)
    return urlsafe_b64decode(padded).decode("utf-8", "replace")


def _folded(text: str) -> str:
    return "".join(character for character in text.casefold() if character.isalnum())


def _shares(secret: str, text: str, pieces: set[str]) -> bool:
    if len(secret) < _PIECE:
        return len(secret) >= _MIN_SECRET and secret in text
    return any(piece in secret for piece in pieces)
