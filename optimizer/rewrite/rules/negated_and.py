"""`SEQ(A, !AND(B, C), D) -> OR(SEQ(A, !B, D), Proj[a, d] AND(SEQ(A, !C, D), B'))`

The negation of an AND is an OR of negations: NEEL uses it in section VI-F. As printed there,
`OR(SEQ(A, !B, D), SEQ(A, !C, D))`, a match with neither B nor C in the gap would come twice. Here
the second alternative asks for a B between A and D, by the times in its conditions; in general the
k-th negates the k-th part and asks for one event of each part before it. The copies only have to
exist, so `Proj` gives each match once, and the alternatives exclude each other. Written into the
SEQ, as `A, !C, B', !C, D`, the copy would let a C at its own time pass.

Preconditions (`obstacle` says which one fails):
- single plain events, no condition ties two of them, and no event can be two of them, so that an
  AND of them occurs where each occurs: SEMANTICS lets no event be used twice;
- the SEQ is the whole pattern, or a part of an OR that is;
- no group `E^n` or `ALL E` beside the gap or tied to it: conditions on copies would choose its
  members;
- no more than `MAX_PUSHED` alternatives in all.
"""

from __future__ import annotations

import itertools

from optimizer.bind.conditions import canonical, ordered_unique
from optimizer.ir.pattern import (
    And,
    Event,
    Neg,
    Or,
    Pattern,
    Proj,
    Seq,
    positive_events,
)
from optimizer.rewrite.body import (
    conditions_on,
    gaps,
    kept_aliases,
    neighbours,
    never_symbol,
    positive_aliases,
)
from optimizer.rewrite.exclusion import exclusive
from optimizer.rewrite.folding import fold
from optimizer.rewrite.rule import Edit, NodeContext
from optimizer.rewrite.rules.push_down import MAX_PUSHED, condition_obstacle
from workloads import expressions as ex
from workloads.syntax import All, Exactly, One
from workloads.workload import Stream

NAME = "negated-and"


def rewrite(node: Pattern, place: NodeContext) -> Edit | None:
    if not isinstance(node, Seq) or place.stream is None:
        return None
    for index in range(len(node.parts)):
        if isinstance(node.parts[index], Neg) and obstacle(node, index, place) is None:
            return _split(node, index, place, place.stream)
    return None


def _split(seq: Seq, index: int, place: NodeContext, stream: Stream) -> Edit:
    negated = _components(seq.parts[index])
    copies = [Event(event.symbol, place.names.copy(event.alias)) for event in negated[:-1]]
    alternatives: list[Pattern] = []
    for k, event in enumerate(negated):
        rest = Seq((*seq.parts[:index], Neg(event), *seq.parts[index + 1 :]))
        whole = And((rest, *copies[:k]))
        alternatives.append(Proj(kept_aliases(rest), whole) if k else rest)
    gap = next(gap for gap in gaps(seq.parts) if index in gap)
    before, after = neighbours(seq.parts, gap)
    conditions: list[ex.Expression] = list(place.conditions)
    for event, copy in zip(negated, copies, strict=False):
        asked = conditions_on(place.conditions, frozenset({event.alias}))
        conditions += [canonical(ex.rename(c, {event.alias: copy.alias})) for c in asked]
        for name in _names(before):
            conditions.append(_precedes(name, copy.alias, stream))
        for name in _names(after):
            conditions.append(_precedes(copy.alias, name, stream))
    return Edit(Or(tuple(alternatives)), ordered_unique(conditions), len(alternatives) - 1)


def _names(part: Pattern | None) -> list[str]:
    return [] if part is None else sorted(positive_aliases(part))


def _precedes(first: str, second: str, stream: Stream) -> ex.Expression:
    """`first.ts < second.ts`, or where the times are equal, the same of the sequence."""

    def compared(operator: ex.ComparisonOperator, name: str) -> ex.Expression:
        return ex.Comparison(operator, ex.Attribute(first, name), ex.Attribute(second, name))

    earlier = compared("<", stream.time)
    if stream.sequence is None:
        return canonical(earlier)
    tied = ex.Logical("AND", (compared("=", stream.time), compared("<", stream.sequence)))
    return canonical(ex.Logical("OR", (earlier, tied)))


def _components(negation: Pattern) -> list[Event]:
    """The events of `!AND(B, C)`; none where it is of another shape."""
    match negation:
        case Neg(And(parts)) if all(isinstance(part, Event) for part in parts):
            return [part for part in parts if isinstance(part, Event)]
        case _:
            return []


def obstacle(seq: Seq, index: int, place: NodeContext) -> str | None:
    """Why the negation at that place of a SEQ cannot become several; None where it can."""
    return (
        _shape_obstacle(_components(seq.parts[index]), place.stream)
        or _place_obstacle(seq, index, place)
        or condition_obstacle(seq, _components(seq.parts[index]), place)
    )


def _shape_obstacle(negated: list[Event], stream: Stream | None) -> str | None:
    if len(negated) < 2:
        return "more than single events stand in it"
    for event in negated:
        if not isinstance(event.quantifier, One):
            return f"'{event.alias}' is a group"
        if never_symbol(event.symbol) or any(fold(p) != p for p in event.symbol.predicates):
            return f"'{event.alias}' has a constant predicate"
    for first, second in itertools.combinations(negated, 2):
        if stream is None or not exclusive(first.symbol, second.symbol, stream):
            return f"one event might be both '{first.alias}' and '{second.alias}'"
    return None


def _place_obstacle(seq: Seq, index: int, place: NodeContext) -> str | None:
    if not all(isinstance(node, Or) for node in place.ancestors):
        return "its SEQ is a part of something else"
    gap = next(gap for gap in gaps(seq.parts) if index in gap)
    for part in neighbours(seq.parts, gap):
        for event in positive_events(part) if part is not None else ():
            if isinstance(event.quantifier, (Exactly, All)):
                return f"the group '{event.alias}' beside it is chosen by what lies around it"
    if place.alternatives - 1 + len(_components(seq.parts[index])) > MAX_PUSHED:
        return f"there would be more than {MAX_PUSHED} disjuncts"
    return None
