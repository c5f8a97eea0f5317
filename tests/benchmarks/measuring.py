"""How benchmarks measure: the variants in turn, several rounds, the best of each.

Variants that should find the same are held to it: a benchmark of wrong results is an error.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias, TypeVar
from typing import Literal as OneOf

from tests.benchmarks.found import Found
from workloads.errors import SheafError

Result = TypeVar("Result")
Size = OneOf["small", "full"]
Clock = Callable[[], float]  # seconds since some moment
ROUNDS = 3
MOST_ROUNDS = 20  # of variants that are quick, for these are disturbed the most
ENOUGH = 1.5  # seconds of rounds
LONG = 3.0  # seconds: what takes longer is measured once


class BenchmarkError(SheafError):
    """Variants that should have found the same did not."""


@dataclass(frozen=True)
class Variant:
    """A way to do it: what is timed, and what it found, which is not.

    Those of equal `question` must find the same. `seconds` are those of the result that count,
    where some of what was done to get it does not.
    """

    run: Callable[[], Any]
    found: Callable[[Any], Found]
    question: str = ""
    seconds: Callable[[Any], float] | None = None

    def about(self, question: str) -> Variant:
        """The same as the answer to another question."""
        return replace(self, question=question)

    def timed(self, clock: Clock) -> tuple[Any, float]:
        """What it gives, and in how many seconds."""
        result, seconds = timed(self.run, clock)
        return result, seconds if self.seconds is None else self.seconds(result)


@dataclass(frozen=True)
class Measured:
    """A line of a benchmark: seconds of each variant for the same events.

    Lines of one `table` have the same columns. Ratios are to the first variant. `memory` is in
    bytes, at the peak, above what the process held before; a variant left out has a reason in
    `skipped`.
    """

    benchmark: str
    table: str
    case: str
    events: int
    seconds: Mapping[str, float]
    skipped: Mapping[str, str] = field(default_factory=dict)
    memory: Mapping[str, int] = field(default_factory=dict)

    @property
    def events_per_second(self) -> dict[str, float]:
        """The speed of each variant."""
        return {name: self.events / seconds for name, seconds in self.seconds.items()}

    @property
    def ratios(self) -> dict[str, float]:
        """How many times as fast as each of the others the first variant is."""
        if not self.seconds:
            return {}
        first, *others = self.seconds
        return {name: self.seconds[name] / self.seconds[first] for name in others}


@dataclass(frozen=True)
class Said:
    """What follows from the lines before it, in a sentence and in numbers."""

    benchmark: str
    text: str
    numbers: Mapping[str, float | None]


@dataclass(frozen=True)
class Goal:
    """What a workload is to reach, and what was measured: both are ratios.

    `numbers` are what the ratio follows from.
    """

    benchmark: str
    workload: str
    text: str
    target: float
    measured: float
    at_least: bool = True
    numbers: Mapping[str, float] = field(default_factory=dict)

    @property
    def holds(self) -> bool:
        """Is it reached?"""
        return self.measured >= self.target if self.at_least else self.measured <= self.target


Row: TypeAlias = Measured | Said | Goal


def measure(
    variants: Mapping[str, Variant], size: Size = "full", clock: Clock = time.perf_counter
) -> dict[str, float]:
    """The best seconds of each variant.

    Each runs once, which compiles and fills caches and is compared; then those that are not long
    run in turn, so that a disturbance of the machine meets all of them alike. A `clock` of the
    thread's own time sees less of others' work, but nothing of other threads'.
    """
    best: dict[str, float] = {}
    found: dict[str, tuple[str, Found]] = {}
    for name, variant in variants.items():
        result, best[name] = variant.timed(clock)
        _compare(name, variant.question, variant.found(result), found)
        del result
    again = {name: v for name, v in variants.items() if best[name] < LONG}
    best.update(dict.fromkeys(again, float("inf")))
    start = time.perf_counter()
    for done in range(1, MOST_ROUNDS + 1):
        for name, variant in again.items():
            best[name] = min(best[name], variant.timed(clock)[1])
        if size == "small" or (done >= ROUNDS and time.perf_counter() - start > ENOUGH):
            break
    return best


def timed(run: Callable[[], Result], clock: Clock = time.perf_counter) -> tuple[Result, float]:
    """What it gives, and in how many seconds."""
    start = clock()
    return run(), clock() - start


def _compare(name: str, question: str, found: Found, before: dict[str, tuple[str, Found]]) -> None:
    other, expected = before.setdefault(question, (name, found))
    if not found.agrees_with(expected):
        raise BenchmarkError(f"{name} found {found}, but {other} found {expected}")
