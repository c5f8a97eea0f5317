"""`SEQ(A a, !B b, C) WHERE a.x < b.x AND FALSE -> SEQ(A a, !B[FALSE] b, C)`

A constantly false condition on a negated component says that none counts as one.
Precondition: in the alternatives that have all the components of the condition they stand in no
OR. Where all of them are positive it is for `never-disjuncts` to say what follows.
"""

from __future__ import annotations

from optimizer.ir.pattern import (
    Pattern,
    events,
    innermost,
    scopes,
)
from optimizer.rewrite.body import (
    FALSE,
    aliases,
    disjunction,
    disjuncts,
    mandatory_events,
    never,
    never_event,
    replace_event,
)
from optimizer.rewrite.folding import fold
from optimizer.rewrite.rule import Edit, NodeContext
from workloads import expressions as ex

NAME = "false-conditions"


def rewrite(node: Pattern, place: NodeContext) -> Pattern | Edit | None:
    if not place.is_root:
        return None
    parts = disjuncts(node)
    kept: list[ex.Expression] = []
    for condition in place.conditions:
        if fold(condition) != FALSE:
            kept.append(condition)
            continue
        named = ex.aliases(condition)
        struck = [_strike(part, named) for part in parts]
        parts = tuple(part for part, _ in struck)
        if any(needed for _, needed in struck):
            kept.append(condition)
    pattern = node if parts == disjuncts(node) else disjunction(parts)
    if pattern == node and tuple(kept) == place.conditions:
        return None
    return Edit(pattern, tuple(kept))


def _strike(part: Pattern, named: frozenset[str]) -> tuple[Pattern, bool]:
    """The alternative without the negations that count for nothing; is the condition needed yet?"""
    if not named <= aliases(part):
        return part, False
    if not named <= {event.alias for event in mandatory_events(part)}:
        return part, True
    where = scopes(part)
    scope = innermost([where[name] for name in named])
    if scope is None:
        return part, False
    if scope == ():
        return part, True
    own = min(name for name in named if where[name] == scope)
    event = next(e for e in events(part) if e.alias == own)
    if never(event):
        return part, False
    return replace_event(part, own, never_event(event)), False
