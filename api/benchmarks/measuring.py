"""How benchmarks measure: the variants in turn, several rounds, the best of each."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal as OneOf

Size = OneOf["small", "full"]
ROUNDS = 3
LONG = 10.0  # seconds


@dataclass(frozen=True)
class Measured:
    """One line of a benchmark: a case, events per second of each variant, and ratios to the first.

    A variant that was left out has a reason in `skipped`.
    """

    benchmark: str
    case: str
    events: int
    events_per_second: Mapping[str, float]
    skipped: Mapping[str, str] = field(default_factory=dict)

    @property
    def ratios(self) -> dict[str, float]:
        """How many times faster the first variant is than each of the others."""
        first, *others = self.events_per_second
        return {
            name: self.events_per_second[first] / self.events_per_second[name] for name in others
        }


def measure(
    benchmark: str,
    case: str,
    events: int,
    variants: Mapping[str, Callable[[], object]],
    skipped: Mapping[str, str] | None = None,
) -> Measured:
    """Run each variant once, then those that are not long in turn; the best time counts.

    The rounds take turns so that a disturbance of the machine meets all variants alike.
    """
    best = {name: _seconds(run) for name, run in variants.items()}
    # A first run may compile and fill caches; where it is long, that is little of it.
    again = {name: run for name, run in variants.items() if best[name] < LONG}
    best.update(dict.fromkeys(again, float("inf")))
    for _ in range(ROUNDS):
        for name, run in again.items():
            best[name] = min(best[name], _seconds(run))
    speeds = {name: events / seconds for name, seconds in best.items()}
    return Measured(benchmark, case, events, speeds, skipped or {})


def _seconds(run: Callable[[], object]) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start
