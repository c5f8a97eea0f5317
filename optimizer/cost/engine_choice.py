"""Which counting engine is the cheapest for a group, and what each fragment of a pattern costs
it.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from optimizer.cost.counting import CountedQueries, Lengths
from optimizer.cost.substrings import PieceNumbers
from optimizer.cost.unit_costs import NAMES, Operations, UnitCosts, nanoseconds
from optimizer.engines import COUNTING, CountingEngine, counting_engine, label, takes
from optimizer.ir.automaton import Symbols
from optimizer.ir.chain import Chain, chain_of
from optimizer.ir.pattern import Symbol
from optimizer.ir.query import Query
from optimizer.statistics.statistics import Statistics

# What takes the time, in words, for each kind of operation.
_SAID = {
    "seen": "looking up symbols",
    "keyed": "preparing events",
    "watched": "preparing events",
    "spoken": "preparing events",
    "reversible_events": "visiting events",
    "reversible_adds": "adding to the counters of shared pieces",
    "reversible_reads": "reading counts",
    "stack_events": "visiting events",
    "stack_adds": "adding to the counters of shared pieces",
    "stack_front": "adding to the counters of shared pieces",
    "stack_logged": "logging changes, as negations or values cannot be taken back",
    "stack_reads": "reading counts",
    "stack_pairs": "multiplying fronts and backs of windows",
    "stack_floats": "counting in floating point too",
    "stack_values": "carrying values",
    "product_rows": "writing results",
    "pane_events": "visiting events",
    "pane_adds": "adding to the counters of panes",
    "pane_cells": "opening panes",
    "pane_pairs": "putting windows together from panes",
    "pane_windows": "reading counts",
    "fold_events": "visiting events",
    "fold_values": "folding columns",
    "fold_panes": "putting windows together from panes",
    "fold_rows": "writing results",
    "run_events": "visiting events",
    "run_steps": "following runs",
    "tree_events": "visiting events once for each tree",
    "tree_nodes": "finding the prefixes that an event extends",
    "tree_laden": "carrying values or floating-point counts",
    "tree_counters": "adding to counters of events that began a match",
    "tree_cells": "opening counters for events that begin a match",
    "tree_reads": "reading counts",
    "tree_totals": "summing up over events that began a match",
    "tree_floats": "carrying values or floating-point counts",
    "sem_events": "visiting events",
    "sem_rows": "finding the states that an event extends",
    "sem_laden": "carrying values or floating-point counts",
    "sem_counters": "adding to counters of events that began a match",
    "sem_cells": "opening counters for events that begin a match",
    "sem_reads": "reading counts",
    "sem_totals": "summing up over events that began a match",
    "sem_values": "carrying values or floating-point counts",
    "chop_events": "visiting events",
    "chop_windows": "visiting events",
    "chop_nodes": "finding the segments that an event extends",
    "chop_laden": "carrying values or floating-point counts",
    "chop_counters": "adding to counters of events that began a match",
    "chop_cells": "opening counters for events that begin a match",
    "chop_snapshots": "taking snapshots",
    "chop_rows": "writing snapshots",
    "chop_products": "multiplying snapshots",
    "chop_reads": "reading counts",
    "chop_totals": "summing up over events that began a match",
    "chop_connected": "connecting segments by their snapshots",
    "chop_floats": "carrying values or floating-point counts",
    "sorted_rows": "writing and sorting results",
}


@dataclass(frozen=True)
class RankedEngine:
    """An engine, and what it takes for a second of stream; `costs` are those of all engines."""

    engine: str
    operations: Operations
    costs: Mapping[str, float]
    unit_costs: UnitCosts
    rate: float  # of the events that are looked at

    @property
    def nanoseconds(self) -> float:
        return self.costs[self.engine]

    @property
    def per_event(self) -> float:
        return self.nanoseconds / self.rate

    @cached_property
    def why(self) -> str:
        """A sentence that says why."""
        mine, each = self.nanoseconds, self.unit_costs.each
        parts: dict[str, float] = {}
        for name in NAMES:
            if number := getattr(self.operations, name):
                parts[_SAID[name]] = parts.get(_SAID[name], 0.0) + number * getattr(each, name)
        largest = max(parts, key=lambda said: parts[said], default="nothing")
        share = parts[largest] / mine if mine else 0.0
        measured = (
            "by default costs" if self.unit_costs.is_default else "as measured on this machine"
        )
        text = (
            f"{label(self.engine)} takes {self.per_event:,.0f} ns per event {measured}, "
            f"{share:.0%} of it {largest}"
        )
        others = {other: cost for other, cost in self.costs.items() if other != self.engine}
        if not others:
            return text
        best = min(others, key=lambda other: others[other])
        if mine <= others[best]:
            times = others[best] / mine if mine else 1.0
            much = "about as long" if times < 1.05 else f"{times:.2g} times as long"
            return f"{text}; {label(best)} would take {much}"
        return f"{text}; {label(best)} takes {others[best] / mine:.0%} of that"


def cheapest(
    queries: Sequence[Query],
    statistics: Statistics,
    unit_costs: UnitCosts,
    allowed: Sequence[CountingEngine] = COUNTING,
    lengths: Lengths | None = None,
) -> list[RankedEngine]:
    """The engines that may count queries as one group, the cheapest first.

    Of the `allowed` ones, those that can take all of them. `lengths` are the segments for
    Chop-Connect, which is left out without any. Equal costs come in the order of `allowed`.
    """
    group = CountedQueries(tuple(queries), statistics)
    found = [
        (engine.NAME, engine.operations(group, lengths))
        for engine in allowed
        if len(queries) >= engine.FEWEST
        and (lengths or not engine.CHOPPED)
        and takes(engine, queries)
    ]
    costs = {engine: nanoseconds(operations, unit_costs) for engine, operations in found}
    ranked = sorted(found, key=lambda pair: costs[pair[0]])
    rate = group.spoken or 1.0
    return [
        RankedEngine(engine, operations, costs, unit_costs, rate) for engine, operations in ranked
    ]


PatternSteps = Sequence[tuple[Symbol, Symbols]]  # symbols, and what is negated after each


def step_texts(queries: Sequence[Query]) -> dict[str, tuple[Symbol, Symbols]]:
    """The steps of queries that are chains, by their text as segments and candidates have it."""
    found = {}
    for query in queries:
        chain = chain_of(query)
        if isinstance(chain, Chain):
            for component, gap in zip(chain.components, chain.gaps, strict=True):
                text = " ".join([str(component.symbol), *sorted(f"!{s}" for s in gap)])
                found[text] = (component.symbol, gap)
    return found


class Costs:
    """The costs of pieces of one group, each counter once."""

    def __init__(self, group: CountedQueries, engine: str, unit_costs: UnitCosts) -> None:
        self._group, self._unit_costs = group, unit_costs
        self._engine = counting_engine(engine)
        self._counted: set[tuple[int, int]] = set()
        self._steps: dict[Hashable, int] = {}

    def of(self, steps: PatternSteps) -> float:
        """What the counters of a piece take, but for those of pieces that were asked for before."""
        pieces = PieceNumbers(steps, self._steps)
        found = 0.0
        for start in range(len(steps)):
            for end in range(start + 1, len(steps) + 1):
                part = pieces.of(start, end)
                if part not in self._counted and self._engine.has_counter(start, end):
                    self._counted.add(part)
                    ends = steps[start:end] if end - start < 3 else (steps[start], steps[end - 1])
                    found += self.counter(ends)
        return found

    def counter(self, stretch: PatternSteps) -> float:
        """What the counter of all of a stretch takes, without those of its parts.

        No engine looks at more of it than its first and its last step.
        """
        return self._engine.counter(stretch, self._group, self._unit_costs.each)
