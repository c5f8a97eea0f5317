"""Elementary operations of the engines, and what each takes on a machine.

Counts are per second of stream; unit costs are nanoseconds. Both have the same fields, one for each
kind of operation that the engines' kernels are made of.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields
from operator import attrgetter
from typing import Any

from workloads.errors import SheafError

VERSION = 3


class UnitCostsError(SheafError):
    """A document that holds no unit costs; says what is wrong with it."""


@dataclass(frozen=True, slots=True)
class Operations:
    """How often each kind of operation happens in a second of stream."""

    # Common to all: events of the stream, and those that a query speaks of, made into letters.
    seen: float = 0.0
    keyed: float = 0.0  # events that stand in the order of a partition key
    spoken: float = 0.0
    watched: float = 0.0  # those again, where negations look at all that occurs at one time
    # The product whose events can be taken back (kernels/reversible.py).
    reversible_events: float = 0.0  # that arrive, and leave later
    reversible_adds: float = 0.0  # one counter to another, or taken off again
    reversible_reads: float = 0.0  # of a query's counter
    # The product of two stacks (kernels/product.py).
    stack_events: float = 0.0
    stack_adds: float = 0.0  # to counters of the back
    stack_front: float = 0.0  # to counters of the front, looked at for the log first
    stack_logged: float = 0.0  # written to the log, and taken back from it
    stack_reads: float = 0.0
    stack_pairs: float = 0.0  # front times back
    stack_floats: float = 0.0  # adds and pairs again, in floating point
    stack_values: float = 0.0  # the same of values
    product_rows: float = 0.0  # result rows, written query by query
    # Panes: products of stretches, combined at each evaluation.
    pane_events: float = 0.0
    pane_adds: float = 0.0
    pane_cells: float = 0.0  # counters of a new pane
    pane_pairs: float = 0.0  # a counter of one stretch times one of the next
    pane_windows: float = 0.0  # evaluations of a query
    # Prefix counters for every active START (kernels/aseq.py).
    tree_events: float = 0.0  # looked at, once by each tree
    tree_nodes: float = 0.0  # that an event extends or clears
    tree_laden: float = 0.0  # of these, nodes that carry more than one count for each START
    tree_counters: float = 0.0  # added: a node's, one for each START
    tree_cells: float = 0.0  # set to zero for a new START
    tree_reads: float = 0.0
    tree_totals: float = 0.0  # counters summed up
    tree_floats: float = 0.0  # counters, again in floating point, and values
    # Segments, connected by snapshots (kernels/chopconnect.py).
    chop_events: float = 0.0
    chop_windows: float = 0.0  # segments whose STARTs are looked through, at events that slide
    chop_nodes: float = 0.0
    chop_laden: float = 0.0
    chop_counters: float = 0.0
    chop_cells: float = 0.0
    chop_snapshots: float = 0.0  # one for each link at each CNET
    chop_rows: float = 0.0  # of snapshots over one segment
    chop_products: float = 0.0  # rows of earlier snapshots, multiplied into later ones
    chop_reads: float = 0.0
    chop_totals: float = 0.0
    chop_connected: float = 0.0  # STARTs looked up in their snapshots
    chop_floats: float = 0.0
    sorted_rows: float = 0.0  # result rows, written as they come and sorted by query
    # Trees of joins: events touched by their cost model (optimizer/cost/trees.py).
    joined: float = 0.0
    node_rows: float = 0.0  # that come to a node of a tree
    group_rows: float = 0.0  # that come to a node that makes groups
    # Reading events, from Parquet (optimizer/cost/stages.py).
    read_rows: float = 0.0
    read_numbers: float = 0.0  # values
    read_texts: float = 0.0
    # Testing events against symbols; looking up the symbols of an event is `seen`.
    text_columns: float = 0.0  # values of columns of texts, made into numbers
    tested: float = 0.0  # predicates, on an event each
    numbered: float = 0.0  # symbols that are tested, put into an event's set of symbols
    # Putting events in order by key.
    key_columns: float = 0.0  # values of keys, made into numbers
    key_pairs: float = 0.0  # values of further columns of a key, joined to those before
    arranged: float = 0.0  # events, for counting
    picked: float = 0.0  # events that trees read
    # Making rows, sorting and writing them.
    aggregate_rows: float = 0.0
    output_events: float = 0.0  # whose columns are at hand for the matches of a query
    match_rows: float = 0.0
    match_values: float = 0.0  # written as JSON
    sunk_aggregates: float = 0.0
    sunk_matches: float = 0.0
    sunk_values: float = 0.0  # of match rows

    def __add__(self, other: Operations) -> Operations:
        return Operations(*(a + b for a, b in zip(_numbers(self), _numbers(other), strict=True)))

    def times(self, factor: float) -> Operations:
        """All of them so many times."""
        return Operations(*(factor * number for number in _numbers(self)))


NAMES = tuple(field.name for field in fields(Operations))
STAGES = NAMES[NAMES.index("node_rows") :]  # what whole runs do besides counting and joining
DEFAULT = "defaults"


@dataclass(frozen=True, slots=True)
class UnitCosts:
    """Nanoseconds for each kind of operation; `source` says where they were measured."""

    each: Operations
    source: str = DEFAULT

    @property
    def is_default(self) -> bool:
        """Was nothing measured on this machine?"""
        return self.source == DEFAULT

    def to_document(self) -> dict[str, Any]:
        """Plain values, `version` first."""
        return {"version": VERSION, "source": self.source, "nanoseconds": asdict(self.each)}

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> UnitCosts:
        """What `to_document` made these values from."""
        if not isinstance(document, Mapping) or document.get("version") != VERSION:
            raise UnitCostsError(
                f"these are not unit costs of version {VERSION}; run 'sheaf calibrate'"
            )
        source, costs = document.get("source"), document.get("nanoseconds")
        if not isinstance(source, str) or not isinstance(costs, Mapping):
            raise UnitCostsError("these are not unit costs: source or nanoseconds is missing")
        if costs.keys() != set(NAMES):
            wrong = ", ".join(sorted(set(NAMES) ^ costs.keys()))
            raise UnitCostsError(f"these are not unit costs: {wrong} is missing or not known")
        for name, cost in costs.items():
            is_number = isinstance(cost, (int, float)) and not isinstance(cost, bool)
            if not is_number or not (cost >= 0 and math.isfinite(cost)):
                raise UnitCostsError(f"these are not unit costs: {name} is {cost}")
        return cls(Operations(**{name: float(costs[name]) for name in NAMES}), source)


# What an operation takes where nobody has calibrated: fitted as `sheaf calibrate` does, but to 159
# workloads, on one core of an x86-64 server (AMD EPYC, Linux, Python 3.11, numba 0.68). What the
# fit put at nothing has a twentieth or a tenth of a nanosecond, from where a calibration can move.
# From `joined` on they are rounded from whole runs on a machine of that kind: of the
# trials of `engines/stage_trials.py`, over 300,000 events, and of the bundled workloads, over up to
# a million, whose longer sorts and texts take up to twice as much for a row as those of the trials.
DEFAULTS = UnitCosts(
    Operations(
        seen=10.6,
        keyed=3.39,
        spoken=40.1,
        watched=19.7,
        reversible_events=71.9,
        reversible_adds=0.933,
        reversible_reads=3.54,
        stack_events=245,
        stack_adds=1.48,
        stack_front=0.1,
        stack_logged=4.48,
        stack_reads=88,
        stack_pairs=3.25,
        stack_floats=1.44,
        stack_values=2.16,
        product_rows=21.1,
        pane_events=59.1,
        pane_adds=1.72,
        pane_cells=2.16,
        pane_pairs=1.32,
        pane_windows=53,
        tree_events=27.8,
        tree_nodes=20.9,
        tree_laden=78.6,
        tree_counters=0.1,
        tree_cells=21.6,
        tree_reads=0.14,
        tree_totals=0.05,
        tree_floats=0.307,
        chop_events=7.62,
        chop_windows=6.9,
        chop_nodes=51.6,
        chop_laden=51.6,
        chop_counters=0.05,
        chop_cells=27.9,
        chop_snapshots=130,
        chop_rows=3.34,
        chop_products=1.61,
        chop_reads=2.83,
        chop_totals=0.146,
        chop_connected=6.72,
        chop_floats=0.666,
        sorted_rows=63.8,
        joined=8.0,
        node_rows=10.0,
        group_rows=70.0,
        read_rows=15.0,
        read_numbers=12.0,
        read_texts=25.0,
        text_columns=30.0,
        tested=15.0,
        numbered=5.0,
        key_columns=28.0,
        key_pairs=89.0,
        arranged=55.0,
        picked=30.0,
        aggregate_rows=90.0,
        output_events=12.0,
        match_rows=500.0,
        match_values=50.0,
        sunk_aggregates=500.0,
        sunk_matches=550.0,
        sunk_values=100.0,
    )
)


def nanoseconds(operations: Operations, unit_costs: UnitCosts) -> float:
    """What operations take: in a second of stream, nanoseconds of one core."""
    each = zip(_numbers(operations), _numbers(unit_costs.each), strict=True)
    return math.fsum(number * cost for number, cost in each)


_numbers: Callable[[Operations], tuple[float, ...]] = attrgetter(*NAMES)
