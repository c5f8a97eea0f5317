"""Which events are joined: all of them, or those that the last component of a match can follow.

The propagation plans of the Odense thesis, sections 4.1 to 4.4, over columns. `push`: every event
is joined. `pull`: only those that an event of the last component follows within the window, so
that nothing is built where no match can end. `pass-down`: of these only such as satisfy the
conditions that tie them to that event. Both are semi-joins of a component's events with the last
one's; the joins above see fewer rows and give the same matches.

By the cost model: of `m` last events in a window, of one key and independent, an event has one
behind it that satisfies conditions of selectivity `f` with the chance `1 - exp(-m f)`. What does
not hold the last component yet is built from events that have; what holds it is as it was.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal as OneOf

from engines.trees.compile import Reach
from engines.trees.planning import MODEL
from optimizer.ir.pattern import Event, Neg, Seq, Symbol, positive_events
from optimizer.ir.query import Query
from optimizer.statistics import KeyStatistics, Statistics
from optimizer.statistics.predicates import symbols_of
from optimizer.trees import Leaf, Tree, best_tree
from optimizer.trees.compile import compile_query
from optimizer.trees.costing import Step, walk_cost
from optimizer.trees.tree import bound
from workloads import expressions as ex
from workloads.syntax import One

Propagation = OneOf["push", "pull", "pass-down"]

LOOK = 6.0  # events touched: what it costs to look for what follows an event
SAVING = 0.2  # of the cost, which passing down must save, as the estimate is a rough one
# Events that a query must touch for it to be worth to look for another plan.
WORTH = 500_000
FREQUENT = 3.0  # last events in a window: hardly any event is without one


@dataclass(frozen=True)
class Passing:
    """A query without ORs, and how its events are propagated."""

    asked: Query
    propagation: Propagation

    @property
    def reach(self) -> Reach | None:
        """What is passed down; None where all events are joined."""
        last = last_component(self.asked)
        if self.propagation == "push" or last is None:
            return None
        return Reach(last.alias, self.propagation == "pass-down")


@dataclass(frozen=True)
class Estimate:
    """What each node of a tree costs, the root first, in events touched in a window's length."""

    costs: tuple[float, ...]
    seconds: float

    @property
    def per_second(self) -> float:
        return sum(self.costs) / self.seconds


def last_component(asked: Query) -> Event | None:
    """The component that every match ends with, if it is a single event and not the only one."""
    if not isinstance(asked.pattern, Seq):
        return None
    parts = [part for part in asked.pattern.parts if not isinstance(part, Neg)]
    last = parts[-1]
    alone = len(parts) == 1
    if alone or not isinstance(last, Event) or not isinstance(last.quantifier, One):
        return None
    return last


def estimate(passing: Passing, tree: Tree, statistics: Statistics) -> Estimate:
    """What a tree costs with the events that are passed to it."""
    problem = compile_query(passing.asked, statistics, (), MODEL)
    steps = walk_cost(problem, tree)
    reach = passing.reach
    if reach is None:
        return Estimate(tuple(step.own for step in steps), problem.seconds)
    last = next(step for step in steps if step.node == Leaf(reach.last))
    shares = _Shares(passing.asked, reach, last.rows * problem.key.together(2), statistics)
    own = problem.root.aliases
    return Estimate(tuple(_passed(step, shares, own) for step in steps), problem.seconds)


def _passed(step: Step, shares: _Shares, own: frozenset[str]) -> float:
    aliases = bound(step.node)
    if shares.reach.last in aliases or not aliases <= own:  # what is negated is not passed to
        return step.own
    if isinstance(step.node, Leaf):
        return step.rows * shares.looking(step.node.alias)
    return step.own * shares.of(aliases)


class _Shares:
    """How many of the events have a last one behind them; `ends` is how many a window has."""

    def __init__(self, asked: Query, reach: Reach, ends: float, statistics: Statistics) -> None:
        self.reach, self._ends = reach, ends
        symbols = symbols_of(asked.pattern)
        self._selectivity: dict[str, float] = {}
        self._tests: dict[str, int] = {}
        for condition in asked.conditions if reach.passing else ():
            others = ex.aliases(condition) - {reach.last}
            if len(others) == 1 and reach.last in ex.aliases(condition):
                (alias,) = others
                share = statistics.selectivity(condition, symbols)
                self._selectivity[alias] = self._selectivity.get(alias, 1.0) * share
                self._tests[alias] = self._tests.get(alias, 0) + 1

    def looking(self, alias: str) -> float:
        """What it costs to look for what follows an event."""
        tries = min(self._ends, 1 / max(self._selectivity.get(alias, 1.0), 1e-9))
        return LOOK + tries * (1 + MODEL.predicate * self._tests.get(alias, 0))

    def of(self, aliases: frozenset[str]) -> float:
        """The share of the rows of some components that are left.

        Events of one row are near each other and mostly have the same last event behind them.
        """
        near = self._share(1.0)
        found = near
        for alias in aliases & self._selectivity.keys():
            found *= self._share(self._selectivity[alias]) / near
        return found

    def _share(self, selectivity: float) -> float:
        return max(-math.expm1(-self._ends * selectivity), 1e-9)


def best_passing(
    asked: Query, tree: Tree, statistics: Statistics
) -> tuple[Tree, Propagation] | None:
    """A tree and what is passed down to it, where that is cheaper by far than the given tree.

    None where it is not, or where there is too little to do to find out.
    """
    last = last_component(asked)
    if last is None or len(list(positive_events(asked.pattern))) < 3:
        return None
    pushed = estimate(Passing(asked, "push"), tree, statistics)
    if pushed.per_second * (statistics.span or 1.0) < WORTH:
        return None
    tied = any(last.alias in ex.aliases(condition) for condition in asked.conditions)
    key = statistics.key(asked.key)
    often = statistics.rate(last.symbol) * pushed.seconds * key.together(2) > FREQUENT
    if often and not tied:
        return None
    ways: list[Propagation] = ["pass-down"] if tied else ["pull"]
    trees = [tree, *_ending_late(asked, last, statistics)]
    options = [
        (estimate(Passing(asked, way), t, statistics), t, way) for t in trees for way in ways
    ]
    cost, found, way = min(options, key=lambda option: option[0].per_second)
    return (found, way) if cost.per_second < (1 - SAVING) * pushed.per_second else None


def _ending_late(asked: Query, last: Event, statistics: Statistics) -> Iterator[Tree]:
    """The best tree that joins the last component as late as it can."""
    others = [event.symbol for event in positive_events(asked.pattern) if event != last]
    if last.symbol not in others:
        frequent = _Frequent(
            statistics.rates,
            events=statistics.events,
            span=statistics.span,
            known=statistics,
            symbol=last.symbol,
            often=100 * max(map(statistics.rate, others)),
        )
        yield best_tree(asked, frequent, model=MODEL).tree


@dataclass(frozen=True)
class _Frequent(Statistics):
    """Statistics, but that a symbol comes very often."""

    known: Statistics | None = None
    symbol: Symbol | None = None
    often: float = 1.0

    def rate(self, symbol: Symbol) -> float:
        assert self.known is not None
        return self.often if symbol == self.symbol else self.known.rate(symbol)

    def key(self, attributes: tuple[str, ...]) -> KeyStatistics:
        assert self.known is not None
        return self.known.key(attributes)

    def selectivity(self, condition: ex.Expression, symbols: Mapping[str, Symbol]) -> float:
        assert self.known is not None
        return self.known.selectivity(condition, symbols)
