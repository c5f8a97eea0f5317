"""What counting one piece of pattern takes in a group of queries, by the group's engine.

Unit: nanoseconds of one core for a second of stream. A piece that lies within another is counted
with the first of the two that is asked for.
"""

from __future__ import annotations

from collections.abc import Sequence

from optimizer.automaton import Symbols
from optimizer.chains import Chain, chain_of
from optimizer.cost.counting import Counting
from optimizer.cost.operations import UnitCosts
from optimizer.ir.pattern import Symbol
from optimizer.ir.query import Query

Steps = Sequence[tuple[Symbol, Symbols]]  # symbols, and what is negated after each


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

    def __init__(self, group: Counting, engine: str, unit_costs: UnitCosts) -> None:
        self._group, self._engine, self._unit_costs = group, engine, unit_costs
        self._counted: set[tuple[tuple[Symbol, Symbols], ...]] = set()

    def of(self, steps: Steps) -> float:
        """What the counters of a piece take, but for those of pieces that were asked for before."""
        whole = tuple(steps)
        found = 0.0
        for start in range(len(whole)):
            for end in range(start + 1, len(whole) + 1):
                part = whole[start:end]
                if part not in self._counted and self._has(start, end, len(whole)):
                    self._counted.add(part)
                    found += self._counter(part)
        return found

    def alone(self, steps: Steps) -> float:
        """What all counters of a piece take, whatever was asked for before."""
        before, self._counted = self._counted, set()
        try:
            return self.of(steps)
        finally:
            self._counted = before

    def _has(self, start: int, end: int, size: int) -> bool:
        """Does the engine keep a counter for that stretch of a piece?"""
        match self._engine:
            case "product" | "panes":
                return end - start > 1  # single symbols are counted for all queries alike
            case "pretree":
                return start == 0
            case _:
                return start == 0 and end <= size

    def _counter(self, part: Steps) -> float:
        each, arrivals = self._unit_costs.each, self._group.arrivals
        first, last, gap = part[0][0], part[-1][0], part[-1][1]
        arriving, leaving = arrivals.rate(last), arrivals.rate(first)
        cleared = sum(map(arrivals.rate, gap))
        match self._engine:
            case "product":
                add = each.stack_adds if self._group.dual or cleared else each.reversible_adds
                return add * (arriving + leaving + cleared)
            case "panes":
                return each.pane_adds * (arriving + cleared)
            case "pretree":
                touched = (arriving if len(part) > 1 else 0.0) + cleared
                per_node = each.tree_nodes + each.tree_counters * arrivals.met(first)
                return touched * per_node + each.tree_cells * leaving
            case _:
                touched = (arriving if len(part) > 1 else 0.0) + cleared
                per_node = each.chop_nodes + each.chop_counters * arrivals.met(first)
                return touched * per_node + each.chop_cells * leaving
