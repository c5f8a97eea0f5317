"""What looks odd in queries about situations, and is allowed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from optimizer.ir.query import Query, SituationPattern
from workloads.situations.relations import BIT
from workloads.workload import print_nanoseconds


def situation_notes(queries: Iterable[Query]) -> list[str]:
    """A sentence for each."""
    return [note for query in queries for note in _notes(query)]


def _notes(query: Query) -> Iterator[str]:
    if not isinstance(query.output, SituationPattern):
        return
    temporal = query.output.temporal
    names = [situation.name for situation in temporal.situations]
    beside = BIT["contains"] | BIT["overlaps"]
    for c in temporal.constraints:
        alone = c.mask & BIT["finishes"] and not c.mask & BIT["finished by"]
        if alone and c.mask & beside:
            left, right = names[c.left], names[c.right]
            yield (
                f"query {query.name}: '{left} finishes {right}' says that {left} begins after "
                f"{right}, and stands beside relations with which it begins before; is "
                f"'{left} finished by {right}' meant?"
            )
    for situation in temporal.situations:
        if situation.at_least is not None and situation.at_least >= query.window.size:
            yield (
                f"query {query.name}: it has no match, as '{situation.name}' lasts at least "
                f"{print_nanoseconds(situation.at_least)}, and the window is "
                f"{print_nanoseconds(query.window.size)}"
            )
