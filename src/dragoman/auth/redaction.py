"""What others say, as it may stand in an error or a log: never with a secret that they were sent or that they gave.

An authorization server may repeat what it was sent, as it was or encoded, whole or in part, and also later. So what it
says is compared with every secret of the flow, in pieces and after decoding, and is left out if it has any of them.
"""

from __future__ import annotations

import re
from base64 import urlsafe_b64decode
from collections import deque
from collections.abc import Iterable, Iterator
from urllib.parse import unquote_plus

LONGEST_QUOTE = 200
MOST_SECRETS = 100
LEFT_OUT = "(left out, because it repeats a secret)"
_SHORTEST, _PIECE = 4, 8
_ENCODED = re.compile(r"[A-Za-z0-9+/_-]{8,}")


class Secrets:
    """The latest secrets that went to or came from an authorization server.

    Example:
        secrets = Secrets()
        secrets.add(client_secret)
        raise AuthError(f"The server refuses: {secrets.quoted(description)}")
    """

    def __init__(self) -> None:
        self._known: deque[str] = deque(maxlen=MOST_SECRETS)

    def __repr__(self) -> str:
        return "Secrets(...)"

    def add(self, *values: str | None) -> None:
        """Remember secrets; those of less than four characters cannot be told from words, and are not looked for."""
        for value in values:
            if value is not None and len(value) >= _SHORTEST and value not in self._known:
                self._known.append(value)

    def are_in(self, said: str) -> bool:
        """Tell whether a text has a secret, or a piece of eight letters and digits of one."""
        for view in _views(said):
            folded = _folded(view)
            pieces = {folded[start : start + _PIECE] for start in range(len(folded) - _PIECE + 1)}
            if any(secret in view or _shares(_folded(secret), folded, pieces) for secret in self._known):
                return True
        return False

    def quoted(self, said: str) -> str:
        """Return a text as it may stand in an error: short, printable, and left out if it has a secret."""
        cut = said[:LONGEST_QUOTE]
        if self.are_in(cut):
            return LEFT_OUT
        return "".join(character if character.isprintable() else " " for character in cut)


def _views(said: str) -> Iterator[str]:
    """Yield a text as it is, without the encoding of URLs, and what base64 in it stands for."""
    for text in dict.fromkeys((said, unquote_plus(said))):
        yield text
        for run in _ENCODED.findall(text):
            for start in range(4):
                decoded = _decoded(run[start:])
                yield decoded
                yield unquote_plus(decoded)


def _decoded(run: str) -> str:
    whole = run[: len(run) // 4 * 4].replace("+", "-").replace("/", "_")
    rest = run[len(whole) :]
    padded = whole + (rest + "=" * (4 - len(rest)) if len(rest) > 1 else "")
    return urlsafe_b64decode(padded).decode("utf-8", "replace")


def _folded(text: str) -> str:
    return "".join(character for character in text.casefold() if character.isalnum())


def _shares(secret: str, text: str, pieces: Iterable[str]) -> bool:
    if len(secret) < _PIECE:
        return len(secret) >= _SHORTEST and secret in text
    return any(piece in secret for piece in pieces)
