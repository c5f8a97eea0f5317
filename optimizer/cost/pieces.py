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
from optimizer.engines import counting_engine
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
        self._group, self._unit_costs = group, unit_costs
        self._engine = counting_engine(engine)
        self._counted: set[tuple[tuple[Symbol, Symbols], ...]] = set()

    def of(self, steps: Steps) -> float:
        """What the counters of a piece take, but for those of pieces that were asked for before."""
        whole = tuple(steps)
        found = 0.0
        for start in range(len(whole)):
            for end in range(start + 1, len(whole) + 1):
                part = whole[start:end]
                if part not in self._counted and self._engine.has_counter(start, end):
                    self._counted.add(part)
                    found += self.counter(part)
        return found

    def counter(self, stretch: Steps) -> float:
        """What the counter of all of a stretch takes, without those of its parts."""
        return self._engine.counter(stretch, self._group, self._unit_costs.each)
