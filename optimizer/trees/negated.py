"""What a negation says is absent: its readings, with single events where groups say no more."""

from __future__ import annotations

from functools import cache

from optimizer.ir.alternatives import alternatives
from optimizer.ir.pattern import Event, Neg, Pattern, parts_of, with_parts
from optimizer.place import Names, Place
from optimizer.rules import single_in_negation
from workloads import expressions as ex

Above = tuple[Pattern, ...]


@cache
def negated_choices(negation: Neg, conditions: tuple[ex.Expression, ...]) -> tuple[Pattern, ...]:
    """The patterns that must all be absent, each without ORs.

    A group is a single event where that is absent whenever the group is.
    """
    found = []
    for choice in alternatives(negation.part):
        pattern, simpler = choice, _simplified(choice, choice, conditions)
        while simpler != pattern:
            pattern, simpler = simpler, _simplified(simpler, simpler, conditions)
        found.append(pattern)
    return tuple(found)


def _simplified(
    node: Pattern, choice: Pattern, conditions: tuple[ex.Expression, ...], above: Above = ()
) -> Pattern:
    """The pattern with the first group made single that can be."""
    if isinstance(node, Neg):
        return node  # has its own readings
    if isinstance(node, Event):
        place = Place((Neg(choice), *above), conditions, Names(set()), 1)
        single = single_in_negation.rewrite(node, place)
        return node if single is None else single
    for i, part in enumerate(parts_of(node)):
        simpler = _simplified(part, choice, conditions, (*above, node))
        if simpler != part:
            parts = parts_of(node)
            return with_parts(node, (*parts[:i], simpler, *parts[i + 1 :]))
    return node
