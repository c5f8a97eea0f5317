"""The tree of a query over the events at hand: the cheapest by their rates, or of a shape."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from engines.columns.evaluate import evaluate
from engines.columns.vectors import Vector, truth
from engines.trees.compile import plain_tree
from engines.trees.picked import Picked
from optimizer.cost.trees import Model
from optimizer.ir.pattern import Event, Symbol, parts_of
from optimizer.ir.query import Query
from optimizer.statistics import Defaults, KeyStatistics, Statistics
from optimizer.trees import Shape, Tree, best_tree
from workloads import expressions as ex
from workloads.errors import UnsupportedError

# What the kernels do: equalities are looked up, and only what is in a window is tried.
MODEL = Model(equality="hash", arrivals="poisson")
SAMPLE = 512  # combinations of events that a condition is tried on


def choose_tree(asked: Query, statistics: Statistics, shape: Shape) -> Tree:
    """The tree of a query without ORs."""
    pattern = asked.pattern
    parts = parts_of(pattern)
    if isinstance(pattern, Event) or (
        len(parts) == 2 and all(isinstance(part, Event) for part in parts)
    ):
        return plain_tree(pattern)
    return best_tree(asked, statistics, model=MODEL, shape=shape).tree


@dataclass(frozen=True)
class _Measured(Statistics):
    """The statistics of picked events, measured when they are asked for."""

    picked: Picked | None = None
    seconds: float = 1.0
    tried: dict[tuple[ex.Expression, tuple[Symbol, ...]], float] = field(default_factory=dict)

    def rate(self, symbol: Symbol) -> float:
        assert self.picked is not None
        return max(len(self.picked.of(symbol)), 1e-6) / self.seconds

    def key(self, attributes: tuple[str, ...]) -> KeyStatistics:
        assert self.picked is not None
        return self.picked.spread

    def selectivity(self, condition: ex.Expression, symbols: Mapping[str, Symbol]) -> float:
        assert self.picked is not None
        names = sorted(ex.aliases(condition))
        known = (condition, tuple(symbols[name] for name in names))
        if known not in self.tried:
            self.tried[known] = _try(self.picked, condition, symbols)
        return self.tried[known]


def _try(picked: Picked, condition: ex.Expression, symbols: Mapping[str, Symbol]) -> float:
    """The share of random combinations of events that satisfy a condition.

    They need not stand in one window: that costs more to draw than a better tree saves.
    """
    random = np.random.default_rng(0)
    drawn = {}
    for alias in sorted(ex.aliases(condition)):
        places = picked.of(symbols[alias])
        if not len(places):
            return Defaults().selectivity(condition)
        drawn[alias] = places[random.integers(0, len(places), SAMPLE)].astype(np.int64)

    def attribute(node: ex.Attribute) -> Vector:
        return picked.vector(node.name).take(drawn[node.alias])

    try:
        found = truth(evaluate(condition, attribute, picked.columns.text_code))
    except UnsupportedError:
        return Defaults().selectivity(condition)
    hits = int(np.count_nonzero(np.broadcast_to(found, SAMPLE)))
    return (hits or 0.5) / SAMPLE


def statistics_of(picked: Picked) -> Statistics:
    """What a batch says of its own rates, keys and conditions."""
    events = picked.columns.events
    span = int(events.ticks[-1] - events.ticks[0]) * events.tick / 1e9 if len(events) else 0.0
    seconds = span or 1.0
    return _Measured(events=len(events), span=seconds, picked=picked, seconds=seconds)
