"""Fenwick trees: sequences whose neighbours are compared, counted without making matches."""

from __future__ import annotations

from collections.abc import Sequence

from optimizer.cost.counting import CountedQueries, Lengths
from optimizer.cost.starts import fenwick as operations_of
from optimizer.cost.unit_costs import Operations
from optimizer.engines.folds import computed_once as computed_once  # comparisons are no steps
from optimizer.engines.folds import counter as counter
from optimizer.engines.folds import counts_once as counts_once
from optimizer.engines.folds import has_counter as has_counter
from optimizer.engines.spec import Device, one_setting
from optimizer.ir.chain import compared_chain_of
from optimizer.ir.query import Query

NAME = "fenwick"
LABEL = "a Fenwick tree"
MEANING = (
    "Counts sequences whose conditions compare neighbours, such as a.x < b.x, with counters for "
    "each event that can begin a match, kept in the order of what is compared: an event finds the "
    "partial matches that it continues by its rank, and no match is made. Queries that begin with "
    "the same components and comparisons share the counters of that beginning."
)
PHRASES: tuple[str, ...] = ("Fenwick tree",)
DEVICES: tuple[Device, ...] = ("cpu",)
TOGETHER = (
    "counted together: they have one key, and what they begin with is counted once, whatever their "
    "windows and slides"
)
FEWEST = 1
CHOPPED = False
ANY_PIECE = False
BY_WINDOW = False
ROBUST = True
APART = True


def refusal(query: Query) -> str | None:
    """Why it is no sequence whose conditions compare neighbours."""
    found = compared_chain_of(query)
    return found if isinstance(found, str) else None


def refusal_together(queries: Sequence[Query]) -> str | None:
    """What the queries of a group differ in."""
    return one_setting(queries)


def operations(group: CountedQueries, lengths: Lengths | None) -> Operations:
    """What it does in a second of stream."""
    return operations_of(group)
