"""The sliding product: every distinct piece of the queries' patterns has one counter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from optimizer.cost.counting import CountedQueries, Lengths
from optimizer.cost.counting import product as operations_of
from optimizer.cost.unit_costs import Operations
from optimizer.engines.spec import (
    Device,
    Segments,
    Steps,
    Stretch,
    longest_common,
    one_setting,
    words_of,
)
from optimizer.ir.automaton import countable_by_counters
from optimizer.ir.query import Query

NAME = "product"
LABEL = "the sliding product"
MEANING = (
    "Counts matches with one counter for every distinct stretch of the queries' patterns, and "
    "slides these counters along with the window. Queries of one key share the visit of events "
    "whatever their windows and slides, and those of one window all stretches that they have in "
    "common."
)
PHRASES: tuple[str, ...] = ("sliding product",)
DEVICES: tuple[Device, ...] = ("cpu", "opencl")
TOGETHER = (
    "counted together: they have one key, so events are visited once, and each distinct piece of "
    "their patterns is counted once for each window"
)
FEWEST = 1
CHOPPED = False
ANY_PIECE = True
BY_WINDOW = True
ROBUST = True
APART = False


def refusal(query: Query) -> str | None:
    """Why its matches cannot be counted."""
    return countable_by_counters(query)


def refusal_together(queries: Sequence[Query]) -> str | None:
    """What the queries of a group differ in."""
    return one_setting(queries)


def operations(group: CountedQueries, lengths: Lengths | None) -> Operations:
    """What it does in a second of stream."""
    return operations_of(group)


def computed_once(segments: Segments) -> dict[Steps, tuple[str, ...]]:
    """Every stretch that several queries have, and that is no part of a longer one of theirs."""
    return longest_common(words_of(segments))


def counts_once(piece: Steps, words: Mapping[str, Steps]) -> tuple[str, ...]:
    """All of them."""
    return tuple(words)


def has_counter(start: int, end: int) -> bool:
    """Single symbols are counted for all queries alike."""
    return end - start > 1


def counter(stretch: Stretch, group: CountedQueries, each: Operations) -> float:
    """One addition for each event that arrives at its end, or leaves or clears it."""
    arrivals, gap = group.arrivals, stretch[-1][1]
    cleared = sum(map(arrivals.rate, gap))
    add = each.stack_adds if cleared else each.reversible_adds
    return add * (arrivals.rate(stretch[-1][0]) + arrivals.rate(stretch[0][0]) + cleared)
