"""How many stretches a stream is cut into, and where.

A stretch is evaluated with what its queries reach of its neighbours, so every cut costs as much
work again as the reach is long. Few cuts leave cores idle, many make the same events be visited
twice: the number with the shortest time is taken.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from engines.local.slices import SliceReach

Int64s = npt.NDArray[np.int64]

# Seconds for a row and core: to read it, to send it through a shuffle, and to run queries over it.
READING, SENDING, RUNNING, PER_QUERY = 1e-7, 1.5e-6, 1e-7, 3e-8

# Time over the shortest that is given for more and shorter tasks: those even out.
EVENNESS = 1.1


def stretches_for(span: int, reach: SliceReach, cores: int, most: int) -> int:
    """The number of stretches for a stream of so many ticks."""
    extra = reach.back + reach.ahead - 1

    def time(number: int) -> float:
        each = span / number + (extra if number > 1 else 0)
        return -(-number // cores) * each  # in rounds, of which the last may leave cores idle

    times = {number: time(number) for number in range(1, max(most, 1) + 1)}
    best = min(times.values())
    return max(number for number, needed in times.items() if needed <= EVENNESS * best)


def cuts_between(times: Int64s, number: int) -> tuple[int, ...]:
    """Times that cut a sample into stretches of about as many events."""
    if number < 2 or not len(times):
        return ()
    ordered = np.sort(times)
    places = [len(ordered) * i // number for i in range(1, number)]
    found = sorted({int(ordered[place]) for place in places})
    return tuple(cut for cut in found if cut > int(ordered[0]))


def bounds(cuts: Sequence[int]) -> list[tuple[int | None, int | None]]:
    """The stretches that cuts make; the first and the last are open."""
    edges: list[int | None] = [None, *cuts, None]
    return list(pairwise(edges))


# --- stored in order -----------------------------------------------------------------------------


@dataclass(frozen=True)
class RowGroup:
    """Rows that are stored together, and the times they are between."""

    split: int
    rows: int
    low: int
    high: int


@dataclass(frozen=True)
class Stretch:
    """The rows decided from `start` to before `stop`, and the groups that they depend on."""

    start: int | None
    stop: int | None
    groups: tuple[RowGroup, ...]  # by their least time

    @property
    def rows(self) -> int:
        """The events that are read for it."""
        return sum(group.rows for group in self.groups)


def stored_stretches(groups: Sequence[RowGroup], reach: SliceReach, number: int) -> list[Stretch]:
    """About so many stretches of a stream whose groups are in the order of time, more or less."""
    ordered = sorted(groups, key=lambda group: group.low)
    cuts = _cuts(ordered, number)
    return [
        Stretch(start, stop, tuple(g for g in ordered if _reaches(g, start, stop, reach)))
        for start, stop in bounds(cuts)
    ]


def _reaches(group: RowGroup, start: int | None, stop: int | None, reach: SliceReach) -> bool:
    return (start is None or group.high > start - reach.back) and (
        stop is None or group.low < stop + reach.ahead
    )


def _cuts(ordered: Sequence[RowGroup], number: int) -> list[int]:
    """At a group's beginning where one is near: then none is read twice but for the reach."""
    ends = np.cumsum([group.rows for group in ordered])
    found = set()
    for i in range(1, number):
        wanted = int(ends[-1]) * i // number
        place = int(np.searchsorted(ends, wanted, side="right"))
        group = ordered[place]
        inside = (wanted - (int(ends[place]) - group.rows)) / group.rows
        if inside < 0.25:
            found.add(group.low)
        elif inside > 0.75 and place + 1 < len(ordered):
            found.add(ordered[place + 1].low)
        else:
            found.add(group.low + round((group.high - group.low) * inside))
    return sorted(cut for cut in found if cut > ordered[0].low)


def held_at_once(groups: Sequence[RowGroup]) -> int:
    """The rows of groups that lie over one another in time, at most: they wait for each other."""
    changes = sorted(
        [(group.low, -group.rows) for group in groups]
        + [(group.high + 1, group.rows) for group in groups],
        key=lambda change: (change[0], -change[1]),
    )
    held = np.cumsum([-rows for _, rows in changes])
    return int(held.max(initial=0))


def cheapest(
    groups: Sequence[RowGroup],
    reach: SliceReach,
    cores: int,
    most: int,
    queries: int,
    exactly: int | None = None,
) -> tuple[list[Stretch], float]:
    """The stretches that take the shortest time, and about how long that is."""
    span, rows = _extent(groups)
    extra = rows / span * (reach.back + reach.ahead - 1)
    running = RUNNING + PER_QUERY * queries
    tried: list[tuple[float, list[Stretch]]] = []
    for number in range(1, max(most, 1) + 1) if exactly is None else (exactly,):
        found = stored_stretches(groups, reach, number)
        own = rows / len(found)
        visited = own + (min(extra, rows) if len(found) > 1 else 0)
        each = [READING * stretch.rows + running * visited for stretch in found]
        rounds = -(-len(found) // cores)
        tried.append((max(rounds * sum(each) / len(each), *each), found))
    best = min(time for time, _ in tried)
    return max(
        ((found, time) for time, found in tried if time <= EVENNESS * best),
        key=lambda choice: len(choice[0]),
    )


def shuffled_time(
    groups: Sequence[RowGroup], reach: SliceReach, cores: int, queries: int, keyed: bool
) -> float:
    """About how long it takes when events are sent to parts, by key or by time."""
    span, rows = _extent(groups)
    running = RUNNING + PER_QUERY * queries
    work = rows * (READING + SENDING) / cores
    if keyed:
        return work + rows * running / cores
    number = stretches_for(span, reach, cores, 4 * cores)
    extra = (rows / span * (reach.back + reach.ahead - 1)) if number > 1 else 0
    each = (rows / number + min(extra, rows)) * running
    return work + -(-number // cores) * each


def _extent(groups: Sequence[RowGroup]) -> tuple[int, int]:
    """The ticks that groups are between, and their rows."""
    span = max(group.high for group in groups) - min(group.low for group in groups) + 1
    return span, sum(group.rows for group in groups)
