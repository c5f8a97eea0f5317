"""Which pieces can be read of others that ask for less, and what several ask for alike."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import TypeAlias

from optimizer.bind.conditions import canonical, is_readable
from optimizer.ir.implication import all_implied
from optimizer.ir.pattern import Event, Symbol, events
from optimizer.trees.narrowing import with_symbols
from optimizer.trees.problem import Fragment, fragments_of
from optimizer.trees.tree import Narrowed, Shared
from workloads import expressions as ex
from workloads.printing import print_expression
from workloads.syntax import One

# The types of a piece, what it negates, and the conditions of that.
Skeleton: TypeAlias = tuple[tuple[str, ...], tuple[str, ...]]


@lru_cache(maxsize=65_536)
def skeleton_of(piece: Fragment) -> Skeleton:
    """What pieces must have in common so that one may be read of another."""
    loose = _loose(piece)
    texts = tuple(
        f"{text[:1] == '&'} {part.symbol.type}"
        if isinstance(part, Event) and part.alias in loose
        else text
        for part, text in zip(piece.pattern.parts, piece.key[0], strict=True)
    )
    names = {alias: f"c{i}" for i, alias in enumerate(piece.aliases, 1)}
    fixed = (c for c in piece.conditions if not ex.aliases(c) <= loose)
    return texts, tuple(sorted(print_expression(canonical(ex.rename(c, names))) for c in fixed))


def _loose(piece: Fragment) -> frozenset[str]:
    """The single events of a piece: of what is negated, and of groups, nothing may differ."""
    return frozenset(
        part.alias
        for part in piece.pattern.parts
        if isinstance(part, Event) and isinstance(part.quantifier, One)
    )


def narrowing(piece: Fragment, other: Fragment) -> Narrowed | None:
    """The filter by which one piece is read of another of its skeleton that asks for less.

    None where that asks for something else. It is in the names of the one that reads.
    """
    own = {event.alias: event.symbol for event in events(other.pattern)}
    given = {event.alias: event.symbol for event in events(piece.pattern)}
    names = dict(zip(piece.aliases, other.aliases, strict=True))
    symbols: list[tuple[str, Symbol]] = []
    loose = _loose(piece)
    for alias in piece.aliases:
        symbol, asked = given[alias], own[names[alias]]
        if symbol == asked:
            continue
        if alias not in loose or not all_implied(symbol.predicates, asked.predicates):
            return None
        symbols.append((names[alias], symbol))
    conditions = tuple(canonical(ex.rename(c, names)) for c in piece.conditions)
    if not all_implied(conditions, tuple(map(canonical, other.conditions))):
        return None
    texts = [*conditions, *(p for _, symbol in symbols for p in symbol.predicates)]
    if not all(map(_is_readable, texts)):
        return None
    return Narrowed(Shared("", other.positive), None, tuple(symbols), conditions)


_is_readable = lru_cache(maxsize=65_536)(is_readable)


def common_part(pieces: Sequence[Fragment]) -> Fragment:
    """A piece that asks for what all of some pieces of one skeleton ask for, and no more."""
    first, *others = pieces
    symbols = {event.alias: event.symbol for event in events(first.pattern)}
    every = [
        {a: symbols_[b] for a, b in zip(first.aliases, other.aliases, strict=True)}
        for other in others
        for symbols_ in [{event.alias: event.symbol for event in events(other.pattern)}]
    ]
    weaker = {
        alias: replace(
            symbols[alias],
            predicates=tuple(
                p
                for p in symbols[alias].predicates
                if all(all_implied((p,), own[alias].predicates) for own in every)
            ),
        )
        for alias in first.aliases
        if alias in _loose(first)
    }
    conditions = [first.conditions, *(_in_names(other, first) for other in others)]
    kept = tuple(
        c for c in first.conditions if all(all_implied((canonical(c),), own) for own in conditions)
    )
    pattern = with_symbols(first.pattern, weaker)
    whole = fragments_of(pattern, kept)[-1] if first.size > 1 else first
    for piece in fragments_of(pattern, kept):
        if piece.whole and not piece.bare:
            whole = piece
    return replace(whole, first=first.first, last=first.last, whole=first.whole, bare=first.bare)


def _in_names(piece: Fragment, other: Fragment) -> tuple[ex.Expression, ...]:
    """The conditions of a piece in the names of another."""
    names = dict(zip(piece.aliases, other.aliases, strict=True))
    return tuple(canonical(ex.rename(c, names)) for c in piece.conditions)
