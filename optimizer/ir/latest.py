"""The parts of a query with STRATEGY LATEST: its stages, what must be missing, what ends it."""

from __future__ import annotations

from dataclasses import dataclass

from optimizer.ir.pattern import Event, Neg, Pattern, Seq


@dataclass(frozen=True, slots=True)
class Absence:
    """A component that has no event behind so many stages and before the next one."""

    event: Event
    behind: int


@dataclass(frozen=True, slots=True)
class LatestParts:
    """The stages of a sequence in order, what must be absent around them, and what ends it."""

    stages: tuple[Event, ...]
    absences: tuple[Absence, ...]
    until: Event | None


def latest_parts(pattern: Pattern) -> LatestParts:
    """The parts of a pattern that was bound for STRATEGY LATEST."""
    stages: list[Event] = []
    absences: list[Absence] = []
    until: Event | None = None
    for part in pattern.parts if isinstance(pattern, Seq) else (pattern,):
        match part:
            case Event():
                stages.append(part)
            case Neg(Event() as event, True):
                until = event
            case Neg(Event() as event):
                absences.append(Absence(event, len(stages)))
            case _:
                raise AssertionError(f"no part of a sequence of single events: {part}")
    return LatestParts(tuple(stages), tuple(absences), until)
