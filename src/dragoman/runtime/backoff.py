"""How long to wait before something that failed is tried again."""

from __future__ import annotations

import random


def backoff(attempt: int, first: float, longest: float) -> float:
    """Return how many seconds to wait before an attempt: twice as long as before the last one, up to `longest`.

    `attempt` counts from 0, before which `first` is waited: never less, because a server may have asked for that long.
    Up to half as much is added at random, so that the clients of a server that restarts do not come back all at once.
    """
    return min(first * 2.0 ** min(attempt, 20), max(first, longest)) * random.uniform(1.0, 1.5)  # noqa: S311
