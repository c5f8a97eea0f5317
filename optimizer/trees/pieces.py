"""Pieces of patterns that several queries may have: stretches of a SEQ, told apart by content.

A stretch goes from one positive part to another, with the negations and conditions in between. A
piece is `bare` where its negations are left to whoever reads it: queries that differ in them only
have the same bare piece (NEEL's bit-marking).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import groupby
from typing import NamedTuple, TypeAlias

from optimizer.canonical import canonical
from optimizer.ir.pattern import (
    Event,
    Neg,
    Or,
    Pattern,
    Seq,
    Symbol,
    parts_of,
    positive_events,
)
from optimizer.ir.pattern import events as components
from optimizer.ir.query import Query
from workloads import expressions as ex
from workloads.printer import print_expression
from workloads.syntax import One

Key: TypeAlias = tuple[tuple[str, ...], tuple[str, ...]]


class Reading(NamedTuple):
    """One OR-free reading of a query's pattern; `asked` is the query that it makes alone."""

    query: Query
    pattern: Pattern
    asked: Query

    @staticmethod
    def of(query: Query, pattern: Pattern) -> Reading:
        named = {event.alias for event in components(pattern)}
        conditions = tuple(c for c in query.conditions if ex.aliases(c) <= named)
        return Reading(query, pattern, replace(query, pattern=pattern, conditions=conditions))


@dataclass(frozen=True, slots=True)
class Piece:
    """A stretch of a reading, from positive part `first` to `last`.

    `aliases` are its components in the order of `key`, negated ones included. Two pieces with one
    `key` are the same, whatever their aliases are: what they are made of, part by part, and the
    conditions on them. `whole` where it is all that the reading binds.
    """

    pattern: Seq
    aliases: tuple[str, ...]
    positive: frozenset[str]
    conditions: tuple[ex.Expression, ...]
    key: Key
    first: int
    last: int
    whole: bool
    bare: bool

    @property
    def size(self) -> int:
        """How many components it binds."""
        return self.last - self.first + 1

    def asked(self, query: Query) -> Query:
        """The piece alone, as a query of the same key and window."""
        return replace(query, pattern=self.pattern, conditions=self.conditions)


def pieces_of(
    pattern: Pattern, conditions: tuple[ex.Expression, ...], whole: bool = True, bare: bool = True
) -> list[Piece]:
    """The stretches of two positive components or more, shorter ones first.

    Without `whole` all of the pattern is no piece of it; without `bare` negations belong to what
    they stand in.
    """
    if not isinstance(pattern, Seq):
        return []
    return list(_Sequence(pattern, conditions).pieces(whole, bare))


class _Sequence:
    def __init__(self, pattern: Seq, conditions: tuple[ex.Expression, ...]) -> None:
        self._parts = _in_order(pattern)
        self._texts = list(map(_text, self._parts))
        self._places = [i for i, p in enumerate(self._parts) if not isinstance(p, Neg)]
        self._conditions = [(c, named) for c in conditions if (named := ex.aliases(c))]

    def pieces(self, whole: bool, bare: bool) -> Iterator[Piece]:
        places, parts = self._places, self._parts
        for size in range(2, len(places) + whole):
            for first in range(len(places) - size + 1):
                last = first + size - 1
                inside = range(places[first], places[last] + 1)
                if not all(_is_taken(parts[i]) for i in inside):
                    continue
                positive = [i for i in inside if not isinstance(parts[i], Neg)]
                spans = first, last, size == len(places)
                if len(positive) < len(inside):
                    yield from self._piece(list(inside), spans, bare=False)
                    if not bare:
                        continue
                yield from self._piece(positive, spans, bare=len(positive) < len(inside))

    def _piece(
        self, inside: list[int], spans: tuple[int, int, bool], bare: bool
    ) -> Iterator[Piece]:
        pattern = Seq(tuple(self._parts[i] for i in inside))
        aliases = tuple(event.alias for event in components(pattern))
        positive = frozenset(event.alias for event in positive_events(pattern))
        own, negated = frozenset(aliases), frozenset(aliases) - positive
        if negated and any(n & negated and not n <= own for _, n in self._conditions):
            return  # a negation inside depends on what is outside
        asked = tuple(c for c, named in self._conditions if named <= own)
        texts = tuple(self._texts[i] for i in inside)
        key = (texts, _spelled(asked, aliases))
        yield Piece(pattern, aliases, positive, asked, key, *spans, bare)


def _in_order(pattern: Seq) -> list[Pattern]:
    """The parts; negations of one gap, whose order says nothing, by what they are."""
    if not any(isinstance(part, Neg) for part in pattern.parts):
        return list(pattern.parts)
    found: list[Pattern] = []
    for negated, run in groupby(pattern.parts, lambda part: isinstance(part, Neg)):
        members = list(run)
        found += sorted(members, key=_text) if negated else members
    return found


def _is_taken(part: Pattern) -> bool:
    return isinstance(part, Neg) or (isinstance(part, Event) and isinstance(part.quantifier, One))


def _spelled(conditions: tuple[ex.Expression, ...], aliases: tuple[str, ...]) -> tuple[str, ...]:
    """The conditions with the numbers of components for their aliases."""
    if not conditions:
        return ()
    names = {alias: f"c{i}" for i, alias in enumerate(aliases, 1)}
    return tuple(sorted({print_expression(canonical(ex.rename(c, names))) for c in conditions}))


@lru_cache(maxsize=65_536)
def _symbol(symbol: Symbol) -> str:
    """A symbol; a type of any characters is quoted, so that it cannot be taken for a pattern."""
    if symbol.type.isidentifier():
        return str(symbol)
    return json.dumps(symbol.type) + str(replace(symbol, type=""))


def _text(pattern: Pattern) -> str:
    """A pattern without its aliases, whose order is that of its components."""
    match pattern:
        case Event(symbol, _, quantifier):
            mark = "" if isinstance(quantifier, One) else f" {quantifier}"
            return _symbol(symbol) + mark
        case Neg(part):
            return "!" + _text(part)
        case Or(()):
            return "NEVER"
        case _:
            inner = ", ".join(map(_text, parts_of(pattern)))
            return f"{type(pattern).__name__.upper()}({inner})"
