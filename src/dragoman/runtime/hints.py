"""What somebody may have meant by a name that is not known."""

from __future__ import annotations

from collections.abc import Collection, Iterable


def did_you_mean(name: str, known: Collection[str]) -> str:
    """Return the end of an error, which asks whether the known name was meant that is most like another; or nothing."""
    from difflib import get_close_matches

    close = get_close_matches(name, known, 1)
    return f"; did you mean {close[0]!r}?" if close else ""


def refuse_unknown(owner: str, options: Iterable[str], known: Collection[str]) -> None:
    """Refuse options that there are not.

    Raises:
        TypeError: there is no such option.
    """
    for name in options:
        if name not in known:
            raise TypeError(f"{owner} has no option {name!r}{did_you_mean(name, known)}")
