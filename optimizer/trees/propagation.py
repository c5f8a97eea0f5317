"""Which events are joined: all of them, or those that the last component of a match can follow.

The propagation plans of the Odense thesis, sections 4.1 to 4.4, over columns. `push`: every event
is joined. `pull`: only those that an event of the last component follows within the window, so
that nothing is built where no match can end. `pass-down`: of components that conditions tie to the
last one, only those events that one follows which satisfies them. Both are semi-joins of a
component's events with the last one's; the joins above see fewer rows and give the same matches.

By the cost model: of `m` last events in a window, of one key and independent, an event has one
behind it that satisfies conditions of selectivity `f` with the chance `1 - exp(-m f)`. What does
not hold the last component yet is built from events that have; what holds it is as it was.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from optimizer.cost.unit_costs import COMPILED
from optimizer.ir.pattern import (
    Event,
    Neg,
    Seq,
    Symbol,
    positive_events,
)
from optimizer.ir.query import Query
from optimizer.statistics import KeyStatistics, Statistics
from optimizer.statistics.statistics import symbols_of
from optimizer.trees.cost_walk import CostStep
from optimizer.trees.narrowing import walk_query
from optimizer.trees.search import best_tree
from optimizer.trees.tree import Leaf, Passed, Propagation, SeqJoin, Tree, bound, without_passing
from workloads import expressions as ex
from workloads.syntax import One

LOOKUP_COST = 4.0  # events touched: what it costs to look for what follows an event
SAVING = 0.2  # of the cost, which passing down must save, as the estimate is a rough one
# Events that a query must touch for it to be worth to look for another plan.
MIN_EVENTS = 500_000
FREQUENT = 3.0  # last events in a window: hardly any event is without one


class Reach(NamedTuple):
    """Only such events are joined as the component `last` can follow, which ends every match.

    `passing`: by the conditions that tie the two, besides the window; and only where there are any.
    """

    last: str
    passing: bool


@dataclass(frozen=True)
class EventPassing:
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

    nodes: tuple[Tree, ...]
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


def estimate(passing: EventPassing, tree: Tree, statistics: Statistics) -> Estimate:
    """What a tree costs with the events that are passed to it."""
    problem, steps = walk_query(passing.asked, tree, statistics)
    nodes = tuple(step.node for step in steps)
    reach = passing.reach
    if reach is None:
        return Estimate(nodes, tuple(step.own for step in steps), problem.seconds)
    last = next(step for step in steps if step.node == Leaf(reach.last))
    shares = _Shares(passing.asked, reach, last.rows * problem.key.together(2), statistics)
    own = problem.root.aliases
    return Estimate(nodes, tuple(_passed(step, shares, own) for step in steps), problem.seconds)


def _passed(step: CostStep, shares: _Shares, own: frozenset[str]) -> float:
    node, aliases = step.node, bound(step.node)
    if not aliases <= own:  # what is negated is not passed to
        return step.own
    if shares.reach.last not in aliases:
        if isinstance(node, Leaf):
            return step.rows * shares.looking(node.alias)
        return step.own * shares.left(aliases)
    if isinstance(node, SeqJoin):
        # What it makes stays the same, but not what it tries for that.
        tried = max(step.own - step.rows, 0.0) * shares.fitting(bound(node.left))
        return tried + min(step.rows, step.own)
    return step.own


class _Shares:
    """How many of the events have a last one behind them; `ends` is how many a window has."""

    def __init__(self, asked: Query, reach: Reach, ends: float, statistics: Statistics) -> None:
        self.reach, self._ends = reach, ends
        symbols = symbols_of(asked.pattern)
        self._selectivity: dict[str, float] = {}
        self._tests: dict[str, int] = {}
        for alias, condition in _tying(asked, reach.last) if reach.passing else ():
            share = statistics.selectivity(condition, symbols)
            self._selectivity[alias] = self._selectivity.get(alias, 1.0) * share
            self._tests[alias] = self._tests.get(alias, 0) + 1

    def looking(self, alias: str) -> float:
        """What it costs to look for what follows an event."""
        if self.reach.passing and alias not in self._tests:
            return 0.0
        tries = min(self._ends, 1 / max(self._selectivity.get(alias, 1.0), 1e-9))
        return LOOKUP_COST + tries * (1 + COMPILED.predicate * self._tests.get(alias, 0))

    def left(self, aliases: frozenset[str]) -> float:
        """The share of the rows of some components that are left.

        Events of one row are near each other and mostly have the same last event behind them.
        """
        looked_at = not self.reach.passing or aliases & self._tests.keys()
        return self._share(1.0) * self.fitting(aliases) if looked_at else 1.0

    def fitting(self, aliases: frozenset[str]) -> float:
        """The share of rows with a last event behind them of which one fits."""
        tied = aliases & self._tests.keys()
        near = self._share(1.0)
        return math.prod(self._share(self._selectivity[alias]) / near for alias in tied)

    def _share(self, selectivity: float) -> float:
        return max(-math.expm1(-self._ends * selectivity), 1e-9)


def _tying(asked: Query, last: str) -> Iterator[tuple[str, ex.Expression]]:
    """The conditions that tie the last component to another single event, and which."""
    for event in positive_events(asked.pattern):
        if isinstance(event.quantifier, One) and event.alias != last:
            for condition in asked.conditions:
                if ex.aliases(condition) == {event.alias, last}:
                    yield event.alias, condition


def estimate_tree(asked: Query, tree: Tree, statistics: Statistics) -> Estimate:
    """What a tree costs, with what is passed down to it."""
    joins, way = without_passing(tree)
    return estimate(EventPassing(asked, way), joins, statistics)


def best_passing(
    asked: Query, tree: Tree, statistics: Statistics, worth: float = MIN_EVENTS
) -> Passed | None:
    """A tree and what is passed down to it, where that is cheaper by far than the given tree.

    None where it is not, or where fewer events than `worth` would be touched.
    """
    last = last_component(asked)
    if last is None or len(list(positive_events(asked.pattern))) < 3:
        return None
    pushed = estimate(EventPassing(asked, "push"), tree, statistics)
    if pushed.per_second * (statistics.span or 1.0) < worth:
        return None
    tied = any(_tying(asked, last.alias))
    ends = statistics.rate(last.symbol) * pushed.seconds * statistics.key(asked.key).together(2)
    ways: list[Propagation] = ["pass-down"] if tied else []
    if ends < FREQUENT:
        ways.append("pull")
    options = [
        (estimate(passing, option, statistics).per_second, option, passing.propagation)
        for passing in (EventPassing(asked, way) for way in ways)
        for option in (tree, *_other_trees(passing, last, ends, statistics))
    ]
    if not options:
        return None
    cost, found, way = min(options, key=lambda option: option[0])
    if way == "push" or cost >= (1 - SAVING) * pushed.per_second:
        return None
    return Passed(found, way)


def _other_trees(
    passing: EventPassing, last: Event, ends: float, statistics: Statistics
) -> Iterator[Tree]:
    """Trees that may be best for what is left of the events: in order, with the last component
    late, and as the search finds it for events that are as rare as passing down makes them."""
    asked, reach = passing.asked, passing.reach
    assert reach is not None
    yield best_tree(asked, statistics, model=COMPILED, shape="left").tree
    symbols = symbols_of(asked.pattern)
    others = [event for event in positive_events(asked.pattern) if event != last]
    if last.symbol in [event.symbol for event in others]:
        return
    often = 100 * max(statistics.rate(event.symbol) for event in others)
    yield best_tree(asked, _Changed.of(statistics, {last.symbol: often}), model=COMPILED).tree
    shares = _Shares(asked, reach, ends, statistics)
    left: dict[Symbol, float] = {}
    tied: dict[ex.Expression, float] = {}
    for event in others:
        share = shares.left(frozenset({event.alias}))
        left[event.symbol] = min(left.get(event.symbol, math.inf), share)
        for condition in asked.conditions:
            if ex.aliases(condition) == {event.alias, last.alias}:
                tied[condition] = min(1.0, statistics.selectivity(condition, symbols) / share)
    rates = {symbol: statistics.rate(symbol) * share for symbol, share in left.items()}
    yield best_tree(asked, _Changed.of(statistics, rates, tied), model=COMPILED).tree


@dataclass(frozen=True)
class _Changed(Statistics):
    """Statistics, but for the rates of some symbols and the selectivities of some conditions."""

    known: Statistics | None = None
    other_rates: Mapping[Symbol, float] = field(default_factory=dict)
    other_shares: Mapping[ex.Expression, float] = field(default_factory=dict)

    __hash__ = Statistics.__hash__

    @staticmethod
    def of(
        known: Statistics,
        rates: Mapping[Symbol, float],
        shares: Mapping[ex.Expression, float] | None = None,
    ) -> _Changed:
        return _Changed(
            events=known.events,
            span=known.span,
            source=known.source,
            assumed=known.assumed,
            known=known,
            other_rates=rates,
            other_shares=shares or {},
        )

    def rate(self, symbol: Symbol) -> float:
        assert self.known is not None
        return self.other_rates[symbol] if symbol in self.other_rates else self.known.rate(symbol)

    def key(self, attributes: tuple[str, ...]) -> KeyStatistics:
        assert self.known is not None
        return self.known.key(attributes)

    def selectivity(self, condition: ex.Expression, symbols: Mapping[str, Symbol]) -> float:
        assert self.known is not None
        if condition in self.other_shares:
            return self.other_shares[condition]
        return self.known.selectivity(condition, symbols)
