"""Parts of patterns over situations that are joined once for several queries.

A part has definitions, without the lengths that queries ask for, and between them all relations
that any of its readers allows, in the widest of their windows. Each reader takes of its matches
those with relations and lengths of its own, and when these are certain by its own constraints.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from optimizer.engines.situation_joins import asked_masks
from optimizer.ir.query import Query, SituationPattern
from optimizer.ir.situations import Constraint, Definition
from workloads.situations.relations import ALL, print_relations


class PartError(ValueError):
    """What names a part of several patterns, and is none."""


@dataclass(frozen=True)
class SharedPart:
    """Definitions and relations; `places` are those of each reader's names, in their order."""

    definitions: tuple[Definition, ...]
    constraints: tuple[Constraint, ...]
    places: Mapping[str, tuple[int, ...]]
    is_same: bool  # do all readers allow the same relations?

    @property
    def texts(self) -> tuple[str, ...]:
        """What it joins, for people."""
        names = [f"[{definition}]" for definition in self.definitions]
        return tuple(
            f"{names[c.left]} {print_relations(c.mask)} {names[c.right]}" for c in self.constraints
        )


def shared_part(places: Mapping[str, Sequence[int]], queries: Mapping[str, Query]) -> SharedPart:
    """The part that queries have at these places; raises `PartError` where it is none."""
    if len(places) < 2:
        raise PartError("a part of patterns has two readers at least")
    definitions: tuple[Definition, ...] | None = None
    asked: list[list[list[int]]] = []
    for name, at in places.items():
        query = queries.get(name)
        if query is None or not isinstance(query.output, SituationPattern):
            raise PartError(f"'{name}' is no query about situations of its group")
        temporal = query.output.temporal
        known = range(len(temporal.situations))
        if len(at) < 2 or len(set(at)) < len(at) or not set(at) <= set(known):
            raise PartError(f"query {name} has no two situations at {list(at)}")
        own = tuple(temporal.situations[place].definition for place in at)
        if definitions is not None and own != definitions:
            raise PartError(f"query {name} has other definitions at {list(at)} than the others")
        definitions = own
        masks = asked_masks(len(temporal.situations), temporal.constraints)
        asked.append([[masks[i][j] for j in at] for i in at])
    assert definitions is not None
    constraints = []
    for i in range(len(definitions)):
        for j in range(i + 1, len(definitions)):
            mask = 0
            for masks in asked:
                mask |= masks[i][j]
            if mask != ALL:
                constraints.append(Constraint(i, j, mask))
    if not _is_connected(len(definitions), constraints):
        raise PartError("nothing ties its situations that all of its readers ask for")
    same = all(masks == asked[0] for masks in asked)
    readers = {name: tuple(at) for name, at in places.items()}
    return SharedPart(definitions, tuple(constraints), readers, same)


def _is_connected(number: int, constraints: Sequence[Constraint]) -> bool:
    reached = {0}
    for _ in range(number):
        for c in constraints:
            if {c.left, c.right} & reached:
                reached |= {c.left, c.right}
    return len(reached) == number
