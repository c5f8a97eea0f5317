"""What a pattern's shape alone says: its alternatives, its last events, when a match is certain."""

from __future__ import annotations

import itertools
from dataclasses import replace

from optimizer.ir.pattern import (
    And,
    Event,
    Neg,
    Or,
    Pattern,
    Proj,
    Seq,
    positive_events,
)
from workloads.syntax import All


def alternatives(pattern: Pattern) -> list[Pattern]:
    """The pattern once for each choice of one part of every OR outside negations, flattened.

    `E?` is read as OR(nothing, E), and `E*` as OR(nothing, E+).
    """
    return [_between_parts(choice) for choice in _choices(pattern)]


NOTHING = Seq(())


def _choices(pattern: Pattern) -> list[Pattern]:
    match pattern:
        case Event(optional=True):
            return [NOTHING, replace(pattern, optional=False)]
        case Event() | Neg():
            return [pattern]
        case Or(parts):
            return [choice for part in parts for choice in _choices(part)]
        case Proj(keep, part):
            return [Proj(keep, choice) for choice in _choices(part)]
        case Seq(parts) | And(parts):
            kind = type(pattern)
            return [_flat(kind, choice) for choice in itertools.product(*map(_choices, parts))]


def _between_parts(choice: Pattern) -> Pattern:
    """Without the marks that have no part on one of their sides."""
    match choice:
        case Seq(parts):
            occur = [not isinstance(part, Neg) for part in parts]
            return Seq(
                tuple(
                    _between_parts(part)
                    for i, part in enumerate(parts)
                    if not isinstance(part, Neg)
                    or not part.between
                    or (any(occur[:i]) and any(occur[i:]))
                )
            )
        case And(parts):
            return And(tuple(map(_between_parts, parts)))
        case Proj(keep, part):
            return Proj(keep, _between_parts(part))
        case _:
            return choice


def _flat(kind: type[Seq] | type[And], parts: tuple[Pattern, ...]) -> Pattern:
    """SEQ in SEQ and AND in AND written flat; an AND of nothing but negations is its parts."""
    flat: list[Pattern] = []
    for part in parts:
        negations = isinstance(part, And) and all(isinstance(p, Neg) for p in part.parts)
        same = isinstance(part, kind) or negations or part == NOTHING
        flat += part.parts if same and isinstance(part, (Seq, And)) else (part,)
    return flat[0] if len(flat) == 1 and not isinstance(flat[0], Neg) else kind(tuple(flat))


def existential(pattern: Pattern) -> frozenset[str]:
    """Aliases that a `Proj` does not keep: they must exist, and nothing more."""
    match pattern:
        case Proj(keep, part):
            return frozenset(e.alias for e in positive_events(part)) - keep
        case Seq(parts) | And(parts):
            return frozenset().union(*map(existential, parts))
        case _:
            return frozenset()


def open_groups(pattern: Pattern) -> frozenset[str]:
    """The aliases of `ALL E` outside negations."""
    every = positive_events(pattern)
    return frozenset(e.alias for e in every if isinstance(e.quantifier, All))


def last_events(pattern: Pattern, skip: frozenset[str]) -> list[Event]:
    """The components that can be bound to a match's last event."""
    match pattern:
        case Event(_, alias):
            return [] if alias in skip else [pattern]
        case Seq(parts):
            found = (last_events(part, skip) for part in reversed(parts))
            return next((events for events in found if events), [])
        case And(parts):
            return [event for part in parts for event in last_events(part, skip)]
        case Proj(_, part):
            return last_events(part, skip)
        case _:
            return []


def waits(pattern: Pattern) -> bool:
    """Is a match certain only when its window has closed?"""
    match pattern:
        case Event(_, _, quantifier):
            return isinstance(quantifier, All)
        case Seq(parts):
            inner = any(waits(p) for p in parts if not isinstance(p, Event))
            return inner or isinstance(parts[-1], Neg) or waits(parts[-1])
        case And(parts):
            return any(waits(part) for part in parts)
        case Proj(_, part):
            return waits(part)
        case _:
            return False
