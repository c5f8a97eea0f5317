"""When the groups of a pattern are bound: with their neighbours, or when all else is.

Which events `E^n` and `ALL E` can hold may depend on components that a tree binds elsewhere, and at
an edge `ALL E` reaches as far as the match's window does. Such groups come late: behind everything
else, those first that narrow the match most.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from optimizer.ir.pattern import Event
from optimizer.physical.joins import Conditions, End
from optimizer.places import Place
from optimizer.trees import KSeq, Tree
from optimizer.trees.tree import bound, walk
from workloads import expressions as ex
from workloads.syntax import All, Exactly, One, Plus, Quantifier

Components = Mapping[str, Place]

_ORDER: dict[type[Quantifier], int] = {One: 0, Plus: 1, Exactly: 2, All: 3}


def quantifier(place: Place) -> Quantifier:
    assert isinstance(place.leaf, Event)
    return place.leaf.quantifier


def in_turn(aliases: Iterable[str], components: Components) -> list[str]:
    """Groups in the order in which they are bound."""
    given = set(aliases)
    known = [alias for alias in components if alias in given]
    return sorted(known, key=lambda alias: _ORDER[type(quantifier(components[alias]))])


def tests_of(alias: str, known: Collection[str], conditions: Conditions) -> list[ex.Expression]:
    """The conditions that choose the events of a group one by one, with nothing unknown."""
    return [
        condition
        for condition in conditions
        if alias in (named := ex.aliases(condition))
        and named.issubset({*known, alias})
        and not ex.has_group_call(condition)
    ]


def late_groups(
    tree: Tree, components: Components, conditions: Conditions, outer: frozenset[str]
) -> frozenset[str]:
    """The groups that cannot be bound where they stand in a tree; `outer` is bound around it."""
    late: frozenset[str] = frozenset()
    nodes = [node for node in walk(tree) if isinstance(node, KSeq)]
    while True:
        more = frozenset(
            closure.alias
            for node in nodes
            for closure in node.closures
            if closure.alias in components
            and _is_late(
                components[closure.alias],
                bound(node) - late,
                components.keys() | outer,
                conditions,
            )
        )
        if more <= late:
            return late
        late |= more


def _is_late(
    place: Place, here: frozenset[str], known: Collection[str], conditions: Conditions
) -> bool:
    assert isinstance(place.leaf, Event)
    if isinstance(place.leaf.quantifier, One | Plus):
        return False
    asked = tests_of(place.leaf.alias, known, conditions)
    needs = frozenset().union(*map(ex.aliases, asked))
    if isinstance(place.leaf.quantifier, All):
        if place.gap.at_edge:
            return True
        needs |= place.gap.aliases
    return not needs <= here | {place.leaf.alias}


def nearest(parts: Iterable[tuple[str, ...]], known: Collection[str]) -> list[str]:
    """The bound aliases next to a component, up to a part that is wholly bound."""
    found: list[str] = []
    for part in parts:
        inside = [alias for alias in part if alias in known]
        found += inside
        if len(inside) == len(part):
            break
    return found


def ends_of(
    place: Place, known: Collection[str], components: Components, inside: bool
) -> tuple[End, End]:
    """How the two ends of `ALL E` are found when some components are bound.

    `inside`: rows have a gap of their own, to whose ends it reaches.
    """

    def end(neighbours: tuple[str, ...] | None, before: bool) -> End:
        if neighbours is not None:
            return "gap" if set(neighbours) <= set(known) else "open"
        if inside:
            return "gap"
        return "reach" if _is_settled(known, components, before) else "open"

    lower, upper = end(place.gap.before, before=True), end(place.gap.after, before=False)
    unbound = components.keys() - set(known)
    if upper == "open" and len(unbound) == 1 and place.gap.after is None:
        upper = "follows"
    return lower, upper


def _is_settled(known: Collection[str], components: Components, before: bool) -> bool:
    """Is the match's last event (which opens its window), or its first, already bound?"""
    bound_here = set(known)
    return all(
        any(bound_here.intersection(part) for part in (place.later if before else place.earlier))
        for alias, place in components.items()
        if alias not in bound_here
    )
