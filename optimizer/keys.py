"""Partition keys that a query does not name: chains of equalities over every component.

`a.id = b.id AND b.id = c.id` partitions the stream by `id`, negated components included
(docs/semantics.md#keys); the equalities are then implied and dropped.
"""

from __future__ import annotations

from optimizer.ir.pattern import Pattern, events
from workloads import expressions as ex


def tied_attributes(
    pattern: Pattern, conditions: list[ex.Expression]
) -> tuple[list[str], list[ex.Expression]]:
    """The attributes that chains of equalities tie over the whole pattern, and what remains."""
    aliases = {event.alias for event in events(pattern)}
    ties: dict[str, list[tuple[str, str]]] = {}
    for condition in conditions:
        name = _tie(condition)
        if name is not None:
            first, second = sorted(ex.aliases(condition))
            ties.setdefault(name, []).append((first, second))
    tied = [name for name, edges in ties.items() if _reached(edges) == aliases]
    return tied, [c for c in conditions if _tie(c) not in tied]


def _tie(condition: ex.Expression) -> str | None:
    """The attribute of `a.x = b.x`; None for any other condition."""
    match condition:
        case ex.Comparison("=", ex.Attribute(a, x), ex.Attribute(b, y)) if x == y and a != b:
            return x
        case _:
            return None


def _reached(edges: list[tuple[str, str]]) -> set[str]:
    """The aliases that the edges connect to those of the first one."""
    reached = set(edges[0])
    while True:
        # One more step from what is reached; with few aliases nothing cleverer is needed.
        further = {alias for edge in edges if not reached.isdisjoint(edge) for alias in edge}
        if further <= reached:
            return reached
        reached |= further
