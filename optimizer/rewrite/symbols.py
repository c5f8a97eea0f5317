"""The symbols of a workload: what is counted, scanned and shared, whatever its aliases are."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from optimizer.ir.pattern import (
    Event,
    Neg,
    Pattern,
    Symbol,
    parts_of,
)
from optimizer.ir.query import Query


@dataclass(frozen=True, slots=True, order=True)
class Use:
    """A component of a query that is of a symbol."""

    query: str
    alias: str
    negated: bool = False


@dataclass(frozen=True, slots=True)
class Entry:
    """A symbol, its number in the workload, and where it is used."""

    id: int
    symbol: Symbol
    uses: tuple[Use, ...]

    @property
    def queries(self) -> tuple[str, ...]:
        """The queries that use it, in order."""
        return tuple(dict.fromkeys(use.query for use in self.uses))


@dataclass(frozen=True)
class SymbolTable:
    """All symbols of a workload, numbered from 0 in the order of their spelling."""

    entries: tuple[Entry, ...]

    def __len__(self) -> int:
        return len(self.entries)

    def __iter__(self) -> Iterator[Entry]:
        return iter(self.entries)

    def of(self, symbol: Symbol) -> Entry:
        """The entry of a symbol; KeyError where the workload does not have it."""
        for entry in self.entries:
            if entry.symbol == symbol:
                return entry
        raise KeyError(str(symbol))


def symbol_table(queries: Iterable[Query]) -> SymbolTable:
    """The symbols of bound or of rewritten queries; the same whatever order these come in."""
    uses: dict[Symbol, set[Use]] = {}
    for query in queries:
        for event, negated in _components(query.pattern, False):
            uses.setdefault(event.symbol, set()).add(Use(query.name, event.alias, negated))
    ordered = sorted(uses, key=lambda symbol: (symbol.type, str(symbol)))
    return SymbolTable(
        tuple(Entry(i, symbol, tuple(sorted(uses[symbol]))) for i, symbol in enumerate(ordered))
    )


def _components(pattern: Pattern, negated: bool) -> Iterator[tuple[Event, bool]]:
    if isinstance(pattern, Event):
        yield pattern, negated
    for part in parts_of(pattern):
        yield from _components(part, negated or isinstance(pattern, Neg))
