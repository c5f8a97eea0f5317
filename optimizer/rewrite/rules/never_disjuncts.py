"""`OR(SEQ(A, B[FALSE]), C) -> C`; a pattern of which nothing is left is NEVER.

Precondition: a component that every match would bind never occurs, or a condition on such
components is constantly false. In a query that is evaluated at each event that can end a match, an
alternative stays if it alone says that some events do: it gives no matches, but times at which
those of the others are counted.
"""

from __future__ import annotations

from collections.abc import Iterable

from optimizer.ir.pattern import (
    NEVER,
    Pattern,
    Symbol,
    events,
)
from optimizer.rewrite.body import (
    FALSE,
    disjunction,
    disjuncts,
    last_events,
    mandatory_positive,
    never_symbol,
)
from optimizer.rewrite.folding import fold, is_constant
from optimizer.rewrite.rule import NodeContext
from workloads import expressions as ex

NAME = "never-disjuncts"


def rewrite(node: Pattern, place: NodeContext) -> Pattern | None:
    if not place.is_root or node == NEVER:
        return None
    parts = disjuncts(node)
    live = [part for part in parts if not never_matches(part, place)]
    if len(live) == len(parts):
        return None
    if not live:
        return NEVER
    if place.triggers:
        if not _is_folded(node):
            return None
        ending = _last_symbols(live)
        live = [p for p in parts if p in live or not _last_symbols([p]) <= ending]
    return None if len(live) == len(parts) else disjunction(tuple(live))


def never_matches(part: Pattern, place: NodeContext) -> bool:
    """Is it certain that an alternative has no match in any stream?"""
    bound = list(mandatory_positive(part))
    names = {event.alias for event in bound}
    return any(never_symbol(event.symbol) for event in bound) or any(
        fold(c) == FALSE and ex.aliases(c) <= names for c in place.conditions
    )


def _last_symbols(parts: Iterable[Pattern]) -> set[Symbol]:
    return {
        event.symbol
        for part in parts
        for event in last_events(part)
        if not never_symbol(event.symbol)
    }


def _is_folded(pattern: Pattern) -> bool:
    """Do equal symbols have equal spellings yet?"""
    return all(
        not is_constant(fold(p)) or event.symbol.predicates == (FALSE,)
        for event in events(pattern)
        for p in event.symbol.predicates
    )
