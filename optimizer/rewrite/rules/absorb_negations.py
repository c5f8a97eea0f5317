"""`SEQ(A, !B, !SEQ(X, B, Y), D) -> SEQ(A, !B, D)`; likewise `!AND(…, B, …)`, and in AND.

Where `B` does not occur, nothing that contains `B` does. Precondition: what the longer negation
asks of its `B`, predicates and conditions, includes what the shorter one asks; so `!B` also takes
the place of `!B[x > 1]` beside it.
"""

from __future__ import annotations

from collections.abc import Sequence

from optimizer.bind.conditions import canonical
from optimizer.ir.pattern import (
    And,
    Event,
    Neg,
    Pattern,
    Seq,
    with_parts,
)
from optimizer.rewrite.body import gaps, mandatory_positive
from optimizer.rewrite.rule import NodeContext
from workloads import expressions as ex
from workloads.syntax import One

NAME = "absorb-negations"


ConditionsByAlias = dict[str, set[ex.Expression]]  # by alias, with a blank in place of the alias


def rewrite(node: Pattern, place: NodeContext) -> Pattern | None:
    match node:
        case Seq(parts):
            runs: list[Sequence[int]] = list(gaps(parts))
        case And(parts):
            runs = [[i for i, part in enumerate(parts) if isinstance(part, Neg)]]
        case _:
            return None
    if all(len(run) < 2 for run in runs):
        return None
    asked = _by_alias(place)
    dropped: set[int] = set()
    for run in runs:
        for i in run:
            others = [j for j in run if j != i and j not in dropped]
            if any(_absorbs(parts[j], parts[i], asked) for j in others):
                dropped.add(i)
    if not dropped:
        return None
    return with_parts(node, tuple(p for i, p in enumerate(parts) if i not in dropped))


def _by_alias(place: NodeContext) -> ConditionsByAlias:
    asked: ConditionsByAlias = {}
    for condition in place.conditions:
        for alias in ex.aliases(condition):
            blank = canonical(ex.rename(condition, {alias: ""}))
            asked.setdefault(alias, set()).add(blank)
    return asked


def _absorbs(shorter: Pattern, longer: Pattern, asked: ConditionsByAlias) -> bool:
    match shorter, longer:
        case Neg(Event(_, _, One()) as single), Neg(Event(_, _, One()) as other):
            # Of two that ask the same, the first by name stays.
            mutual = _includes(single, other, asked)
            return _includes(other, single, asked) and (not mutual or single.alias < other.alias)
        case Neg(Event(_, _, One()) as single), Neg(part):
            return any(_includes(event, single, asked) for event in mandatory_positive(part))
        case _:
            return False


def _includes(event: Event, single: Event, asked: ConditionsByAlias) -> bool:
    """Does the event satisfy everything that is asked of the single one?"""
    return (
        event.symbol.type == single.symbol.type
        and set(single.symbol.predicates) <= set(event.symbol.predicates)
        and asked.get(single.alias, set()) <= asked.get(event.alias, set())
    )
