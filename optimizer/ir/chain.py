"""Queries that are one sequence of single events, with single events negated in its gaps."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from optimizer.ir.automaton import Symbols, countable
from optimizer.ir.query import Event, Neg, Pattern, Query, Seq, alternatives
from workloads.syntax import One


@dataclass(frozen=True)
class Chain:
    """`SEQ(!gate, E1, !gaps[0], E2, …, En, !gaps[n-1])`; each gap is a set of negated symbols."""

    components: tuple[Event, ...]
    gate: Symbols
    gaps: tuple[Symbols, ...]

    def level(self, alias: str) -> int:
        """The number of a component, by its alias."""
        return next(i for i, event in enumerate(self.components) if event.alias == alias)


@lru_cache(maxsize=16_384)  # a planner asks for each query again and again
def chain_of(query: Query) -> Chain | str:
    """The query as a chain, or why it is none."""
    reason = countable(query)
    if reason is not None:
        return reason
    choices = alternatives(query.pattern)
    if len(choices) != 1:
        return "it has an OR"
    gaps: list[Symbols] = [frozenset()]
    components: list[Event] = []
    for part in choices[0].parts if isinstance(choices[0], Seq) else choices:
        reason = _not_single(part)
        if reason is not None:
            return reason
        if isinstance(part, Neg):
            assert isinstance(part.part, Event)
            gaps[-1] |= {part.part.symbol}
        else:
            assert isinstance(part, Event)
            components.append(part)
            gaps.append(frozenset())
    return Chain(tuple(components), gaps[0], tuple(gaps[1:]))


def _not_single(part: Pattern) -> str | None:
    match part:
        case Event(quantifier=One()) | Neg(Event(quantifier=One())):
            return None
        case Event() | Neg(Event()):
            return "it has a group of events"
        case Neg():
            return "it negates more than a single event"
        case _:
            return "it has an AND"
