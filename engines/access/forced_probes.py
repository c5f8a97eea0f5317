"""`--access index:A,b`: the components whose events are looked up in indexes, and no others."""

from __future__ import annotations

from collections.abc import Iterable

from engines.execution import Access
from engines.limits import EventsError
from optimizer.access.anchors import NeededEvents
from optimizer.ir.pattern import ANY_TYPE, Symbol, events
from optimizer.ir.query import Query
from workloads.errors import did_you_mean


def forced_names(wanted: Access) -> tuple[str, ...] | None:
    """The types or aliases of components that are named; None where none are."""
    _, mark, names = wanted.partition(":")
    return tuple(name.strip() for name in names.split(",")) if mark else None


def named_symbols(name: str, needs: Iterable[NeededEvents]) -> set[Symbol]:
    """What components of a type or an alias are looked for as."""
    return {
        symbol
        for needed in needs
        for alias, symbol in needed.aliases
        if name in (alias, _type(symbol))
    }


def check_forced(wanted: Access, queries: Iterable[Query]) -> None:
    """Refuse names that no component of a query has."""
    each = [event for query in queries for event in events(query.pattern)]
    known = sorted({n for e in each for n in (e.alias, _type(e.symbol)) if n})
    for name in forced_names(wanted) or ():
        if name not in known:
            hint = did_you_mean(name, known) or f"there are {', '.join(known)}"
            raise EventsError(f"access '{wanted}': no component is called '{name}'; {hint}")


def _type(symbol: Symbol) -> str:
    return "ANY" if symbol.type == ANY_TYPE else symbol.type
