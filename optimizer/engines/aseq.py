"""A-Seq: prefix counters for every active START, one query after the other (Qi's thesis, 3)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from optimizer.cost.counting import CountedQueries, Lengths
from optimizer.cost.counting import aseq as operations_of
from optimizer.cost.unit_costs import Operations
from optimizer.engines.spec import Device, Segments, Steps, Stretch, one_setting
from optimizer.ir.chain import chain_of
from optimizer.ir.query import Query

NAME = "aseq"
LABEL = "A-Seq"
MEANING = (
    "Counts matches with a row of counters for each event that can begin a match. Cheap where such "
    "events are rare. Queries share the preparation of events, and no counters."
)
PHRASES: tuple[str, ...] = ()
DEVICES: tuple[Device, ...] = ("cpu",)
TOGETHER = "counted together: they have one key, and events are prepared once"
FEWEST = 1
CHOPPED = False
ANY_PIECE = False
BY_WINDOW = False
ROBUST = False
APART = False


def refusal(query: Query) -> str | None:
    """Why it is not one sequence of single events that can be counted."""
    found = chain_of(query)
    return found if isinstance(found, str) else None


def refusal_together(queries: Sequence[Query]) -> str | None:
    """What the queries of a group differ in."""
    return one_setting(queries)


def operations(group: CountedQueries, lengths: Lengths | None) -> Operations:
    """What it does in a second of stream."""
    return operations_of(group)


def computed_once(segments: Segments) -> dict[Steps, tuple[str, ...]]:
    """Nothing: each query has its own counters."""
    return {}


def counts_once(piece: Steps, words: Mapping[str, Steps]) -> tuple[str, ...]:
    """None."""
    return ()


def has_counter(start: int, end: int) -> bool:
    """A counter for each prefix."""
    return start == 0


def counter(stretch: Stretch, group: CountedQueries, each: Operations) -> float:
    """One addition for each active START, at each event that extends or clears the prefix."""
    arrivals, first = group.arrivals, stretch[0][0]
    extended = arrivals.rate(stretch[-1][0]) if len(stretch) > 1 else 0.0
    touched = extended + sum(map(arrivals.rate, stretch[-1][1]))
    per_node = each.tree_nodes + each.tree_counters * arrivals.met(first)
    return touched * per_node + each.tree_cells * arrivals.rate(first)
