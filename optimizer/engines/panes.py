"""Products of panes: stretches of stream between the ends of windows, multiplied at each slide."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from optimizer.cost.counting import CountedQueries, Lengths
from optimizer.cost.counting import panes as operations_of
from optimizer.cost.unit_costs import Operations
from optimizer.engines.spec import Device, Segments, Steps, Stretch, longest_common, words_of
from optimizer.ir.automaton import countable_by_counters
from optimizer.ir.query import Query

NAME = "panes"
LABEL = "products of panes"
MEANING = (
    "Cuts the stream where windows begin or end, counts in each of these panes once, and puts "
    "windows together from panes. Queries with different windows can share."
)
PHRASES: tuple[str, ...] = ()
DEVICES: tuple[Device, ...] = ("cpu",)
TOGETHER = (
    "counted together by panes, whatever their windows and slides, so each distinct piece of their "
    "patterns is counted once"
)
FEWEST = 1
CHOPPED = False
ANY_PIECE = True
BY_WINDOW = False
ROBUST = False
APART = False


def refusal(query: Query) -> str | None:
    """Why its matches cannot be counted, or not by panes."""
    if query.slide is None:
        return "it has no slide, and panes are stretches of time between slides"
    if query.window.is_count:
        return "its window counts events, and panes are stretches of time"
    return countable_by_counters(query)


def refusal_together(queries: Sequence[Query]) -> str | None:
    """What the queries of a group differ in: any windows and slides will do."""
    return "its queries differ in key" if len({query.key for query in queries}) > 1 else None


def operations(group: CountedQueries, lengths: Lengths | None) -> Operations:
    """What it does in a second of stream."""
    return operations_of(group.queries, group.statistics)


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
    """One addition for each event that arrives at its end or clears it."""
    arrivals = group.arrivals
    return each.pane_adds * (
        arrivals.rate(stretch[-1][0]) + sum(map(arrivals.rate, stretch[-1][1]))
    )
