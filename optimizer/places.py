"""Where each leaf of a pattern without ORs stands relative to the others."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

from optimizer.ir.pattern import And, Event, Neg, Or, Pattern, Proj, Seq, positive_events
from workloads.syntax import All


def unkept(pattern: Pattern) -> frozenset[str]:
    """The aliases that only have to exist: those that a `Proj` does not keep."""
    match pattern:
        case Proj(keep, part):
            return _aliases(part) - keep
        case Seq(parts) | And(parts):
            return frozenset().union(*map(unkept, parts))
        case _:
            return frozenset()


def last_events(pattern: Pattern, skip: frozenset[str]) -> list[Event]:
    """The components that can be a match's last event."""
    match pattern:
        case Event(_, alias):
            return [] if alias in skip else [pattern]
        case Seq(parts):
            for part in reversed(parts):
                if found := last_events(part, skip):
                    return found
            return []
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
            nested = any(waits(p) for p in parts if not isinstance(p, Event))
            return nested or isinstance(parts[-1], Neg) or waits(parts[-1])
        case And(parts):
            return any(map(waits, parts))
        case Proj(_, part):
            return waits(part)
        case _:
            return False


@dataclass(frozen=True)
class Gap:
    """What lies between a leaf's neighbours: the aliases of the part before and after it.

    None stands for the opening or the closing of the window; a negation in an AND looks at the
    whole of it, but not past the match's last event (`anywhere`).
    """

    before: tuple[str, ...] | None = None
    after: tuple[str, ...] | None = None
    anywhere: bool = False

    @property
    def at_edge(self) -> bool:
        return self.before is None or self.after is None

    @property
    def aliases(self) -> frozenset[str]:
        return frozenset(self.before or ()) | frozenset(self.after or ())


@dataclass(frozen=True)
class Place:
    """A component or a negation, and how it stands to the rest of an OR-free pattern.

    `earlier` and `later` hold the aliases of the parts that are certainly before and after it,
    the nearest first; `rivals` those in other parts of an AND, which may not use its events. What
    only has to exist in a part of an AND may be any event.
    """

    leaf: Event | Neg
    gap: Gap
    earlier: tuple[tuple[str, ...], ...]
    later: tuple[tuple[str, ...], ...]
    rivals: frozenset[str]


def places(pattern: Pattern) -> list[Place]:
    """The components and negations of an OR-free pattern, left to right."""
    return list(_places(pattern, Gap(), (), (), frozenset()))


Parts = tuple[tuple[str, ...], ...]


def _places(
    node: Pattern, gap: Gap, earlier: Parts, later: Parts, rivals: frozenset[tuple[str, str]]
) -> Iterator[Place]:
    """`rivals` are pairs of aliases that may not use the same event."""
    match node:
        case Neg():
            yield Place(node, gap, earlier, later, frozenset())
        case Event(_, alias):
            mine = frozenset(other for own, other in rivals if own == alias)
            yield Place(node, gap, earlier, later, mine)
        case Proj(_, part):
            yield from _places(part, Gap(), earlier, later, rivals)
        case Seq(parts):
            names = [tuple(sorted(_aliases(part))) for part in parts]
            for i, part in enumerate(parts):
                before = tuple(n for n in reversed(names[:i]) if n)
                after = tuple(n for n in names[i + 1 :] if n)
                between = Gap(next(iter(before), None), next(iter(after), None))
                yield from _places(part, between, before + earlier, after + later, rivals)
        case And(parts):
            used = [_aliases(part) - unkept(part) for part in parts]
            pairs = itertools.permutations(used, 2)
            both = rivals.union(*(itertools.product(own, other) for own, other in pairs))
            for part in parts:
                whole = Gap(anywhere=isinstance(part, Neg))
                yield from _places(part, whole, earlier, later, both)
        case Or():
            raise AssertionError("an OR in an OR-free pattern")


def _aliases(pattern: Pattern) -> frozenset[str]:
    return frozenset(event.alias for event in positive_events(pattern))
