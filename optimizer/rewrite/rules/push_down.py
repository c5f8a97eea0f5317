"""`SEQ(A, !SEQ(B, C), D) -> OR(SEQ(A, !C, D), Proj[a, d] SEQ(A, !B, C', !C, D))`

In general one alternative for each k: `!Ek, Ek+1', !Ek+1, …, En', !En`. It says: reading the gap
backwards, the latest `En` first, then the latest `En-1` before it and so on, one gets stuck looking
for `Ek`. Which k that is the gap alone decides, so the alternatives exclude each other. The primed
components are copies that only have to exist; where several are simultaneous the same match
arises once for each, and `Proj` keeps one.

NEEL, table IV, prints the rule without the `!Ek+1 … !En` behind the copies. That form matches
`a c b c d` too, though `SEQ(B, C)` occurs between `a` and `d`.

Preconditions (`obstacle` says which one fails):
- single plain events, and no condition ties two of them: each is looked for by itself;
- no other negation in the gap: it would have to reach over the copies, and an event simultaneous
  with a copy is neither before nor after it;
- no `ALL E` next to the gap: it would end at the copy; no condition by which a copy would choose
  the members of a group `E^n` or `ALL E`;
- for a SEQ in an AND in a SEQ, a gap between two parts: the first and the last reach further than
  the outer SEQ lets a part go;
- no more than `MAX_PUSHED` alternatives in all: beyond that, looking for the nested sequence itself
  is less work.
"""

from __future__ import annotations

from optimizer.bind.conditions import canonical, ordered_unique
from optimizer.ir.pattern import (
    And,
    Event,
    Neg,
    Or,
    Pattern,
    Proj,
    Seq,
    events,
    walk,
)
from optimizer.rewrite.body import (
    aliases,
    conditions_on,
    count_alternatives,
    gaps,
    kept_aliases,
    neighbours,
    never_symbol,
    only_negations,
    positive_aliases,
)
from optimizer.rewrite.folding import fold, is_constant
from optimizer.rewrite.rule import Edit, Names, NodeContext
from optimizer.rewrite.rules.distribute import MAX_NEGATED
from workloads import expressions as ex
from workloads.printing import print_expression
from workloads.syntax import All, Exactly, One

NAME = "push-down"
MAX_PUSHED = 128


def rewrite(node: Pattern, place: NodeContext) -> Edit | None:
    match node:
        case Seq() if not isinstance(place.parent, Proj):
            seq, keep, around = node, kept_aliases(node), place
        case Proj(keep, Seq() as seq):
            around = place.below(node)
        case _:
            return None
    for gap in gaps(seq.parts):
        negation = seq.parts[gap.start]
        if isinstance(negation, Neg) and obstacle(seq, gap.start, around) is None:
            return _pushed(seq, gap.start, keep, place)
    return None


def _pushed(seq: Seq, index: int, keep: frozenset[str], place: NodeContext) -> Edit:
    negated = _components(seq.parts[index])
    copies = [_copy(event, place.names) for event in negated]
    alternatives: list[Pattern] = []
    for k in reversed(range(len(negated))):
        gap: list[Pattern] = [Neg(negated[k])]
        for copy, event in zip(copies[k + 1 :], negated[k + 1 :], strict=True):
            gap += [copy, Neg(event)]
        flat = Seq((*seq.parts[:index], *gap, *seq.parts[index + 1 :]))
        alternatives.append(flat if positive_aliases(flat) == keep else Proj(keep, flat))
    conditions = [
        canonical(ex.rename(condition, {event.alias: copy.alias}))
        for event, copy in zip(negated[1:], copies[1:], strict=True)
        for condition in conditions_on(place.conditions, frozenset({event.alias}))
    ]
    everything = ordered_unique([*place.conditions, *conditions])
    return Edit(Or(tuple(alternatives)), everything, len(alternatives) - 1)


def _copy(event: Event, names: Names) -> Event:
    return Event(event.symbol, names.copy(event.alias))


def _components(negation: Pattern) -> list[Event]:
    """The events of `!SEQ(B, C)`; none where it is of another shape."""
    match negation:
        case Neg(Seq(parts)) if all(isinstance(part, Event) for part in parts):
            return [part for part in parts if isinstance(part, Event)]
        case _:
            return []


def obstacle(seq: Seq, index: int, place: NodeContext) -> str | None:
    """Why the negation at that place of a SEQ cannot be pushed down; None where it can."""
    gap = next(gap for gap in gaps(seq.parts) if index in gap)
    return (
        _shape_obstacle(seq.parts[index])
        or _place_obstacle(seq, gap, place)
        or condition_obstacle(seq, _components(seq.parts[index]), place)
    )


def _shape_obstacle(negation: Pattern) -> str | None:
    match negation:
        case Neg(Seq(parts) | And(parts)) if count_alternatives(negation.part) > MAX_NEGATED:
            return f"more than {MAX_NEGATED} alternatives stand in it"
        case Neg(Seq(parts)):
            inner = negation.part
        case Neg(And()):
            return "the parts of an AND may come in any order"
        case _:
            return "it is a single event already"
    if any(isinstance(node, Neg) for node in walk(inner)):
        return "it contains a negation itself"
    for event in events(inner):
        if not isinstance(event.quantifier, One):
            return f"'{event.alias}' is a group"
        if never_symbol(event.symbol) or any(fold(p) != p for p in event.symbol.predicates):
            return f"'{event.alias}' has a constant predicate"
    if not all(isinstance(part, Event) for part in parts):
        return "an AND or OR stands in it"
    return None


def _place_obstacle(seq: Seq, gap: range, place: NodeContext) -> str | None:
    if not place.is_positive:
        return "it stands in another negation"
    if not all(map(_is_flat, seq.parts)) or place.in_seq:
        return "an OR beside it is not distributed"
    if len(gap) > 1:
        return "another negation stands in the same gap"
    before, after = neighbours(seq.parts, gap)
    for part in (before, after):
        if isinstance(part, Event) and isinstance(part.quantifier, All):
            return f"the group 'ALL {part.symbol.type} {part.alias}' reaches through its gap"
    inside_seq = any(isinstance(node, Seq) for node in place.ancestors)
    if inside_seq and (before is None or after is None):
        return "it looks past the SEQ around its AND"
    size = len(_components(seq.parts[gap.start]))
    if place.alternatives - 1 + size > MAX_PUSHED:
        return f"there would be more than {MAX_PUSHED} disjuncts"
    return None


def _is_flat(part: Pattern) -> bool:
    """Will it stay one part of the SEQ, whatever other rules do?"""
    if isinstance(part, And):
        return not only_negations(part) and len(part.parts) > 1 and count_alternatives(part) == 1
    return isinstance(part, (Neg, Event))


def condition_obstacle(seq: Seq, negated: list[Event], place: NodeContext) -> str | None:
    """Why conditions forbid to look for each of the negated events by itself; None if none do."""
    own = frozenset(event.alias for event in negated)
    disjunct = place.disjunct(seq)
    chosen_by_condition = {
        event.alias for event in events(disjunct) if isinstance(event.quantifier, (Exactly, All))
    }
    known = aliases(disjunct)
    for condition in conditions_on(place.conditions, own):
        named = ex.aliases(condition)
        if not named <= known:
            continue  # never asked here
        text = print_expression(condition)
        if is_constant(fold(condition)):
            return f"'{text}' is constant"
        if len(named & own) > 1:
            return f"'{text}' ties two of its events"
        groups = sorted(named & chosen_by_condition)
        if groups and not ex.has_group_call(condition):
            return f"'{text}' would choose the events of the group '{groups[0]}'"
    return None
