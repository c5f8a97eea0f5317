"""Funnels: which steps they have, what ends an attempt, and what they give.

A key's level is how many steps it came to one after the other in a window that begins with its
event of the first. A prefix of a funnel is a funnel: what a step gives never depends on the steps
behind it, and funnels that begin alike share what they begin with.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from optimizer.ir.pattern import Event, Neg, Seq, Symbol
from workloads.syntax import FUNNEL_ROWS, FunnelRows, Strictness

if TYPE_CHECKING:
    from optimizer.ir.query import Query

LEVEL = "LEVEL"  # the aggregate of a key's row
MAX_STEPS = 64


@dataclass(frozen=True, slots=True)
class Exclusion:
    """What must not occur behind the step `first`, and before the step `last`; from 0 on."""

    alias: str
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class FunnelClause:
    """What a funnel says besides its steps, its window and its key.

    `by` are the attributes of the first step's event by which keys are told apart in totals.
    """

    steps: tuple[str, ...]  # aliases
    strict: tuple[Strictness, ...] = ()
    exclusions: tuple[Exclusion, ...] = ()
    by: tuple[str, ...] = ()
    gives: tuple[FunnelRows, ...] = FUNNEL_ROWS

    @property
    def reads_in_turn(self) -> bool:
        """Does an event that is out of turn end what is read of its key?"""
        return "order" in self.strict or "deduplication" in self.strict

    def aggregates(self, step: int) -> tuple[str, ...]:
        """How the rows of a step are called: its count first, then what it is compared with."""
        name = f"STEP {step + 1} {self.steps[step]}"
        if step == 0:
            return (name,)
        before = self.steps[step - 1]
        return (
            name,
            f"{name} CONVERSION",
            f"{name} CONVERSION FROM {before}",
            f"{name} MEDIAN TIME FROM {before}",
            f"{name} P90 TIME FROM {before}",
        )

    def texts(self) -> tuple[str, ...]:
        """All of them, and that of levels, as far as they are given."""
        steps = [text for step in range(len(self.steps)) for text in self.aggregates(step)]
        found = steps if "steps" in self.gives else []
        return (*found, *((LEVEL,) if "levels" in self.gives else ()))


def step_symbols(query: Query) -> tuple[Symbol, ...]:
    """What each step asks of its event."""
    assert isinstance(query.pattern, Seq)
    return tuple(part.symbol for part in query.pattern.parts if isinstance(part, Event))


def excluded_symbols(query: Query, clause: FunnelClause, step: int) -> frozenset[Symbol]:
    """What ends an attempt that waits behind a step."""
    assert isinstance(query.pattern, Seq)
    known = {
        part.part.alias: part.part.symbol
        for part in query.pattern.parts
        if isinstance(part, Neg) and isinstance(part.part, Event)
    }
    return frozenset(
        known[exclusion.alias]
        for exclusion in clause.exclusions
        if exclusion.first <= step < exclusion.last
    )
