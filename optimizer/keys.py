"""Partition keys that a query does not name: chains of equalities over every component.

`a.id = b.id AND b.id = c.id` partitions the stream by `id`, negated components included
(SEMANTICS, Partitions); the equalities are then implied and dropped.
"""

from __future__ import annotations

from optimizer.ir.pattern import And, Event, Neg, Or, Pattern, Proj, Seq
from workloads import expressions as ex

_MAX_ALTERNATIVES = 256


def tied_attributes(
    pattern: Pattern, conditions: list[ex.Expression]
) -> tuple[list[str], list[ex.Expression]]:
    """The attributes that chains of equalities tie over the whole pattern, and what remains."""
    alternatives = _alternatives(pattern)
    if alternatives is None or any(len(a) < 2 for a in alternatives):
        return [], conditions
    ties: dict[str, list[tuple[str, str]]] = {}
    for condition in conditions:
        name = _tie(condition)
        if name is not None:
            first, second = sorted(ex.aliases(condition))
            ties.setdefault(name, []).append((first, second))
    tied = [
        name
        for name, edges in ties.items()
        if all(_connects(edges, alternative) for alternative in alternatives)
    ]
    return tied, [c for c in conditions if _tie(c) not in tied]


def _tie(condition: ex.Expression) -> str | None:
    """The attribute of `a.x = b.x`; None for any other condition."""
    match condition:
        case ex.Comparison("=", ex.Attribute(a, x), ex.Attribute(b, y)) if x == y and a != b:
            return x
        case _:
            return None


def _connects(edges: list[tuple[str, str]], aliases: frozenset[str]) -> bool:
    """Do the edges among these aliases connect all of them?"""
    reached = {next(iter(aliases))}
    while True:
        # One more step from what is reached; with few aliases nothing cleverer is needed.
        further = {
            alias
            for edge in edges
            if aliases.issuperset(edge) and not reached.isdisjoint(edge)
            for alias in edge
        }
        if further <= reached:
            return reached == aliases
        reached |= further


def _alternatives(pattern: Pattern) -> list[frozenset[str]] | None:
    """The aliases of each way to choose one part of every OR; None where there are too many."""
    match pattern:
        case Event(_, alias):
            return [frozenset({alias})]
        case Neg(part) | Proj(_, part):
            return _alternatives(part)
        case Or(parts):
            found: list[frozenset[str]] = []
            for part in parts:
                inner = _alternatives(part)
                if inner is None:
                    return None
                found += inner
            return found if len(found) <= _MAX_ALTERNATIVES else None
        case Seq(parts) | And(parts):
            product: list[frozenset[str]] = [frozenset()]
            for part in parts:
                inner = _alternatives(part)
                if inner is None or len(product) * len(inner) > _MAX_ALTERNATIVES:
                    return None
                product = [left | right for left in product for right in inner]
            return product
