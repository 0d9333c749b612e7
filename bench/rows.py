"""What a workload gives: a row of samples, side by side, and what we hold ourselves to."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

OURS = "dragoman"
SIDES = (OURS, "typescript", "mcp", "fastmcp", "bare")
Samples = dict[str, list[float]]
Wanted = Callable[[str], bool]


@dataclass(frozen=True)
class Effort:
    """How long to measure."""

    rounds: int
    seconds: float
    """How long one side runs in one round."""
    calls: int
    """How many calls one side is asked in one round, where calls are counted."""


# Many short rounds: what a machine does for others changes within seconds, and is to hit every side alike.
FULL = Effort(rounds=15, seconds=0.2, calls=100)
QUICK = Effort(rounds=2, seconds=0.1, calls=40)


@dataclass(frozen=True)
class Held:
    """What we hold: our ratio to another side is at least, or at most, so much."""

    relation: str
    bound: float
    other: str

    def reached(self, ratio: float) -> bool:
        """Tell whether a ratio keeps it."""
        return ratio >= self.bound if self.relation == ">=" else ratio <= self.bound

    def __str__(self) -> str:
        return f"{self.relation} {self.bound:g} x {self.other}"


def at_least(bound: float, other: str) -> Held:
    """Hold that we are so many times as much as another side."""
    return Held(">=", bound, other)


def at_most(bound: float, other: str) -> Held:
    """Hold that we are no more than so many times as much as another side."""
    return Held("<=", bound, other)


@dataclass(frozen=True)
class Row:
    """One workload: what every side did, in each round."""

    name: str
    title: str
    unit: str
    samples: Samples
    held: tuple[Held, ...] = ()
    more_is_better: bool = True
    notes: dict[str, float] = field(default_factory=dict)

    def median(self, side: str) -> float:
        """Return what a side did in the middle round."""
        return statistics.median(self.samples[side])

    def spread(self, side: str) -> float:
        """Return how far apart the rounds of a side were: half of their range, as a share of the median."""
        values = self.samples[side]
        return (max(values) - min(values)) / 2 / self.median(side)

    def ratio(self, other: str) -> float:
        """Return how many times another side's we did, each compared within a round: the median of the rounds."""
        rounds = zip(self.samples[OURS], self.samples[other], strict=True)
        return statistics.median(ours / theirs for ours, theirs in rounds)

    def others(self) -> list[str]:
        """Return every side but ours, the known ones first."""
        others = [side for side in self.samples if side != OURS]
        return sorted(others, key=lambda side: SIDES.index(side) if side in SIDES else len(SIDES))


def alternate(rounds: int, sides: Iterable[str], measure: Callable[[str], float]) -> Samples:
    """Measure every side in turn, to and fro, in each round after one that warms up."""
    samples: Samples = {side: [] for side in sides}
    for number in range(rounds + 1):
        for side in samples if number % 2 else reversed(samples):
            value = measure(side)
            if number > 0:
                samples[side].append(value)
    return samples


Workloads = Callable[[Effort, Wanted], Iterator[Row]]
