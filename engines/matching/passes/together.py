"""Events together, whatever their order: of each key the match that is complete first."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from engines.columns.layout import Rows

_NONE = -1


def first_together(
    rows: Rows, stages: Rows, codes: Rows, number: int
) -> tuple[Sequence[Rows], Rows]:
    """The events of each match, stage by stage, and the number of its key.

    Events are given once for each of the `number` stages that they fit, in order of their keys,
    and of a key in their own. No event stands at two stages of a match; where that leaves a
    choice, the first stage has its earliest event, then the next.
    """
    # A stage needs no more candidates than there are stages: the others take all but one at most.
    order = np.argsort(codes * number + stages, kind="stable")
    group = (codes * number + stages)[order]
    begins = np.searchsorted(group, group, "left")
    rank = np.arange(len(group)) - begins
    kept = rank < number
    keys, place = np.unique(codes[order][kept], return_inverse=True)
    candidates = np.full((len(keys), number, number), _NONE, np.int64)
    candidates[place, stages[order][kept], rank[kept]] = rows[order][kept]
    whole = (candidates[:, :, 0] != _NONE).all(axis=1)
    keys, candidates = keys[whole], candidates[whole]
    chosen = candidates[:, :, 0].copy()
    shared = (np.diff(np.sort(chosen, axis=1), axis=1) == 0).any(axis=1)
    for key in np.flatnonzero(shared).tolist():
        found = _choice([[r for r in some if r != _NONE] for some in candidates[key].tolist()])
        chosen[key] = _NONE if found is None else found
    complete = chosen[:, 0] != _NONE if number else whole
    return list(chosen[complete].T), keys[complete]


def _choice(candidates: Sequence[Sequence[int]]) -> list[int] | None:
    """A different one for each stage, such that the last of them is as early as can be."""
    for last in sorted({row for some in candidates for row in some}):
        left = [[row for row in some if row <= last] for some in candidates]
        if _is_possible(left):
            break
    else:
        return None
    for stage, some in enumerate(left):
        for row in some:
            rest = [[r for r in others if r != row] for others in left]
            rest[stage] = [row]
            if _is_possible(rest):
                left = rest
                break
    return [some[0] for some in left]


def _is_possible(candidates: Sequence[Sequence[int]]) -> bool:
    """Can each stage have one that no other has?"""
    taken: dict[int, int] = {}

    def place(stage: int, seen: set[int]) -> bool:
        for row in candidates[stage]:
            if row not in seen:
                seen.add(row)
                if row not in taken or place(taken[row], seen):
                    taken[row] = stage
                    return True
        return False

    return all(place(stage, set()) for stage in range(len(candidates)))
