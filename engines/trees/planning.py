"""The tree of a query over the events at hand: the cheapest by their rates, or of a shape."""

from __future__ import annotations

from optimizer.physical.compile_tree import plain_tree
from engines.trees.observed import Running, look
from engines.trees.picked import Picked
from optimizer.cost.trees import COMPILED
from optimizer.ir.pattern import Event, parts_of
from optimizer.ir.query import Query
from optimizer.statistics import Statistics
from optimizer.trees import Shape, Tree, best_tree


def choose_tree(asked: Query, statistics: Statistics, shape: Shape) -> Tree:
    """The tree of a query without ORs."""
    pattern = asked.pattern
    parts = parts_of(pattern)
    if isinstance(pattern, Event) or (
        len(parts) == 2 and all(isinstance(part, Event) for part in parts)
    ):
        return plain_tree(pattern)
    return best_tree(asked, statistics, model=COMPILED, shape=shape).tree


def statistics_of(picked: Picked) -> Statistics:
    """What a batch says of its own rates, keys and conditions, measured when it is asked."""
    return Running.of(look(picked, ()), picked)
