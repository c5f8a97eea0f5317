"""Funnels: how far each key comes, for all funnels in one pass over its events.

Funnels that begin alike have their common prefixes as one node each: `forest_of` tells which.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import fsum

from optimizer.engines.spec import Device
from optimizer.ir.funnels import FunnelClause, excluded_symbols, step_symbols
from optimizer.ir.pattern import Symbol
from optimizer.ir.query import Funnel, Query, is_funnel
from optimizer.statistics.statistics import Statistics

NAME = "funnels"
LABEL = "funnels in one pass"
MEANING = (
    "Goes through the events of each key once, for all funnels. Of each prefix of a funnel the "
    "attempt is kept that began last; prefixes that funnels have in common are kept once."
)
PHRASES: tuple[str, ...] = ("funnels in one pass",)
DEVICES: tuple[Device, ...] = ("cpu",)

_EVENT, _OFFERED = 20.0, 25.0  # nanoseconds: an event of any step, and for each node it may come to


@dataclass(frozen=True, slots=True)
class Prefix:
    """A prefix of funnels: its last step, and what else its attempts depend on.

    Of the first step, that is neither the window nor whether simultaneous events may follow each
    other. `turn` says what ends the reading of a key, and of which funnel, where anything does.
    """

    before: Prefix | None
    symbol: Symbol
    excluded: frozenset[Symbol] = frozenset()
    window: int = 0
    rising: bool = False
    turn: tuple[object, ...] = ()

    @property
    def depth(self) -> int:
        return 0 if self.before is None else self.before.depth + 1

    @property
    def text(self) -> str:
        """What tells it from others, in every process."""
        before = "" if self.before is None else self.before.text
        excluded = sorted(map(str, self.excluded))
        return f"{before} > {self.symbol} {excluded} {self.window} {self.rising} {self.turn}"


@dataclass(frozen=True)
class Forest:
    """All prefixes of funnels, each once, shorter ones first; and those of each funnel by name.

    Funnels that an event out of turn ends stand for themselves: theirs come last, in a row.
    """

    prefixes: dict[Prefix, int] = field(default_factory=dict)
    paths: dict[str, tuple[int, ...]] = field(default_factory=dict)


def funnel_of(query: Query) -> FunnelClause:
    """What a funnel says."""
    assert isinstance(query.output, Funnel)
    return query.output.funnel


def forest_of(queries: Sequence[Query]) -> Forest:
    """The prefixes of some funnels."""
    forest = Forest()
    for query in sorted(queries, key=lambda q: funnel_of(q).reads_in_turn):
        clause = funnel_of(query)
        symbols = step_symbols(query)
        turn: tuple[object, ...] = ()
        if clause.reads_in_turn:
            turn = (tuple(sorted(clause.strict)), query.window.size, tuple(map(str, symbols)))
            turn += (tuple(sorted(map(str, clause.exclusions))),)
        path = []
        before: Prefix | None = None
        for step, symbol in enumerate(symbols):
            excluded = excluded_symbols(query, clause, step)
            before = Prefix(
                before,
                symbol,
                excluded,
                query.window.size if step else 0,
                bool(step) and "increase" in clause.strict,
                turn,
            )
            path.append(forest.prefixes.setdefault(before, len(forest.prefixes)))
        forest.paths[query.name] = tuple(path)
    return forest


def refusal(query: Query) -> str | None:
    """It takes funnels."""
    return None if is_funnel(query) else "it is no funnel"


def refusal_together(queries: Sequence[Query]) -> str | None:
    """Funnels of one key share the pass over its events."""
    return "its queries differ in key" if len({query.key for query in queries}) > 1 else None


def done_once(queries: Sequence[Query]) -> str:
    """Steps that funnels begin with alike are followed once."""
    steps = sum(len(funnel_of(query).steps) for query in queries)
    nodes = len(forest_of(queries).prefixes)
    shared = "" if nodes == steps else f", {steps} steps as {nodes} different prefixes"
    return f"{len(queries)} funnels in one pass{shared}"


def cost(queries: Sequence[Query], statistics: Statistics) -> float:
    """Events that are put to nodes."""
    forest = forest_of(queries)
    symbols = {prefix.symbol for prefix in forest.prefixes}
    seen = fsum(statistics.rate(symbol) for symbol in symbols)
    offered = fsum(statistics.rate(prefix.symbol) for prefix in forest.prefixes)
    return _EVENT * seen + _OFFERED * offered


def rows(query: Query, statistics: Statistics) -> float | None:
    """Known when all keys are: a row for each, and some for all of them together."""
    return None
