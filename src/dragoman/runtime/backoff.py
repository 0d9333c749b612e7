"""Exponential backoff with jitter."""

from __future__ import annotations

import random


def backoff(attempt: int, first: float, longest: float) -> float:
    """Return how many seconds to wait before an attempt: `first` before attempt 0, then twice as long each time.

    The wait grows up to `longest`. It is never shorter than `first`, because a server may have asked for that pause. Up
    to one half of the wait is added at random, so that the clients of a restarted server do not all return at once.
    """
    return min(first * 2.0 ** min(attempt, 20), max(first, longest)) * random.uniform(1.0, 1.5)  # noqa: S311
