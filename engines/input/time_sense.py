"""Do the times of events make sense? Sentences about those that hardly can be what was meant."""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from workloads.workload import NANOSECONDS, Stream

if TYPE_CHECKING:
    from engines.input.event_table import Faults

_YEAR = 31_556_952 * 10**9  # nanoseconds
_FIRST_YEAR, _LAST_YEAR = 1900, 2200  # of times that make sense
_RECENT = (2000, 2100)  # years that numbers of the right unit lie in


def notes_about_times(
    first: int, last: int, events: int, kind: pa.DataType, stream: Stream
) -> list[str]:
    """What is odd about times from one tick to another; nothing where they make sense.

    `kind` is the type of the time column once it is read; `events` is how many there are.
    """
    name = stream.time
    if pa.types.is_integer(kind):
        odd = _about_numbers(first, last, stream)
    else:
        odd = _about_moments(first, last, kind, name)
    if odd is not None:
        return [odd]
    if events > 1 and first == last:
        unit = "day" if pa.types.is_date(kind) else "time"
        return [
            f"all {events:,} events have the same {unit} in '{name}', so none is after another: "
            "is that the column of their times, and as fine as it was recorded?"
        ]
    return []


def _about_numbers(first: int, last: int, stream: Stream) -> str | None:
    tick = NANOSECONDS[stream.unit]
    fitting = [
        unit
        for unit, size in NANOSECONDS.items()
        if unit != stream.unit and all(_is_recent(ticks * size) for ticks in (first, last))
    ]
    low, high = _year(first * tick), _year(last * tick)
    far = not (low >= _FIRST_YEAR and high < _LAST_YEAR)
    # Numbers that begin near zero count from a moment of their own, whatever their unit.
    early = bool(fitting) and high < _FIRST_YEAR + 71 and first > 0
    if not far and not early:
        return None
    years = _years(low, high)
    text = f"the numbers in '{stream.time}', as {stream.unit} since 1970, lie {years}"
    if fitting:
        size = NANOSECONDS[fitting[0]]
        days = [_day(ticks * size) for ticks in (first, last)]
        when = f"on {days[0]}" if days[0] == days[1] else f"from {days[0]} to {days[1]}"
        return f"{text}; as {fitting[0]} they would lie {when}: write `unit: {fitting[0]}`"
    return f"{text}; is `unit: {stream.unit}` right, and '{stream.time}' the time?"


def _about_moments(first: int, last: int, kind: pa.DataType, name: str) -> str | None:
    tick = 86_400 * 10**9 if pa.types.is_date(kind) else NANOSECONDS[kind.unit]
    low, high = _year(first * tick), _year(last * tick)
    if low >= _FIRST_YEAR and high < _LAST_YEAR:
        return None
    years = _years(low, high)
    return f"the times in '{name}' lie {years}; were they written in another unit?"


def _year(nanoseconds: int) -> int:
    return 1970 + nanoseconds // _YEAR


def _years(low: int, high: int) -> str:
    first, last = (f"{year:,}" if year >= 10_000 else str(year) for year in (low, high))
    return f"in the year {first}" if first == last else f"in the years {first} to {last}"


def _is_recent(nanoseconds: int) -> bool:
    return _RECENT[0] <= _year(nanoseconds) < _RECENT[1]


def _day(nanoseconds: int) -> str:
    return str(datetime.date(1970, 1, 1) + datetime.timedelta(seconds=nanoseconds // 10**9))


class TimeSpan:
    """The first and the last tick of events that come in pieces, and how many they are."""

    def __init__(self) -> None:
        self.events = 0
        self.first = self.last = 0

    def add(self, ticks: npt.NDArray[np.int64]) -> None:
        """Events in any order."""
        if not len(ticks):
            return
        low, high = int(ticks.min()), int(ticks.max())
        if self.events:
            low, high = min(low, self.first), max(high, self.last)
        self.first, self.last = low, high
        self.events += len(ticks)

    def seconds(self, tick: int) -> float | None:
        """The time from the first to the last, in ticks of so many nanoseconds."""
        return (self.last - self.first) * tick / 1e9 if self.events else None

    def notes(self, kind: pa.DataType, stream: Stream) -> list[str]:
        """What is odd about their times."""
        if not self.events:
            return []
        return notes_about_times(self.first, self.last, self.events, kind, stream)


def notes_about_events(path: str, events: int, odd: list[str], faults: Faults) -> list[str]:
    """What is odd about the events of a run: that there are none, or what is odd about times."""
    if events:
        return odd
    left_out = f": all {faults.total:,} rows were left out" if faults.total else ""
    return [f"'{path}' has no events{left_out}"]
