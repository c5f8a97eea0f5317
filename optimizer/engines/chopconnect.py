"""Chop-Connect: segments that several queries have are counted once, and connected (4.2)."""

from __future__ import annotations

from collections.abc import Mapping

from optimizer.cost.counting import CountedQueries, Lengths
from optimizer.cost.counting import chopconnect as operations_of
from optimizer.cost.unit_costs import Operations
from optimizer.engines.aseq import has_counter as has_counter
from optimizer.engines.aseq import refusal as refusal
from optimizer.engines.aseq import refusal_together as refusal_together
from optimizer.engines.spec import Device, Segments, Steps, Stretch, equal_segments

NAME = "chopconnect"
LABEL = "Chop-Connect"
MEANING = (
    "Chops patterns into segments: a segment that several queries have is counted once, and the "
    "counts of segments are connected to those of whole patterns."
)
PHRASES: tuple[str, ...] = ()
DEVICES: tuple[Device, ...] = ("cpu",)
TOGETHER = (
    "counted together: they have one key, and segments that they share are counted once and "
    "connected, whatever their windows and slides"
)
FEWEST = 2
CHOPPED = True
ANY_PIECE = False
BY_WINDOW = False
ROBUST = False
APART = False


def operations(group: CountedQueries, lengths: Lengths | None) -> Operations:
    """What it does in a second of stream, with queries chopped into segments of these lengths."""
    return operations_of(group, lengths)


def computed_once(segments: Segments) -> dict[Steps, tuple[str, ...]]:
    """The segments that several queries are made of."""
    return equal_segments(segments)


def counts_once(piece: Steps, words: Mapping[str, Steps]) -> tuple[str, ...]:
    """Any of them, as it is chosen."""
    return tuple(words)


def counter(stretch: Stretch, group: CountedQueries, each: Operations) -> float:
    """One addition for each active START, at each event that extends or clears the prefix."""
    arrivals, first = group.arrivals, stretch[0][0]
    extended = arrivals.rate(stretch[-1][0]) if len(stretch) > 1 else 0.0
    touched = extended + sum(map(arrivals.rate, stretch[-1][1]))
    per_node = each.chop_nodes + each.chop_counters * arrivals.met(first)
    return touched * per_node + each.chop_cells * arrivals.rate(first)
