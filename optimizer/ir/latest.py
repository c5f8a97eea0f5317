"""The parts of a query with STRATEGY LATEST: its stages, what must be missing, what ends it."""

from __future__ import annotations

from dataclasses import dataclass

from optimizer.ir.pattern import And, Event, Neg, Pattern, Seq
from optimizer.ir.query import Query
from workloads.expressions import Expression, aliases


@dataclass(frozen=True, slots=True)
class Absence:
    """A component that has no event behind so many stages and before the next one."""

    event: Event
    behind: int


@dataclass(frozen=True, slots=True)
class LatestParts:
    """The stages of a sequence in order, what must be absent around them, and what ends it.

    Of an AND the stages are `together`: each key has one match, that which is complete first.
    """

    stages: tuple[Event, ...]
    absences: tuple[Absence, ...] = ()
    until: Event | None = None
    together: bool = False


def conditions_by_stage(query: Query) -> dict[int, list[Expression]]:
    """The conditions that tie events, by the number of the stage at which they are asked."""
    places = {stage.alias: i for i, stage in enumerate(latest_parts(query.pattern).stages)}
    found: dict[int, list[Expression]] = {}
    for condition in query.conditions:
        found.setdefault(max(places[alias] for alias in aliases(condition)), []).append(condition)
    return dict(sorted(found.items()))


def latest_parts(pattern: Pattern) -> LatestParts:
    """The parts of a pattern that was bound for STRATEGY LATEST."""
    stages: list[Event] = []
    absences: list[Absence] = []
    until: Event | None = None
    for part in pattern.parts if isinstance(pattern, Seq | And) else (pattern,):
        match part:
            case Event():
                stages.append(part)
            case Neg(Event() as event, True):
                until = event
            case Neg(Event() as event):
                absences.append(Absence(event, len(stages)))
            case _:
                raise AssertionError(f"no part of a sequence of single events: {part}")
    return LatestParts(tuple(stages), tuple(absences), until, isinstance(pattern, And))
