"""The events that later slices need of those in situations: of each situation a few moments.

A situation that began before the windows that are open is in no later match, and one moment of it
tells that what follows is no beginning. Of others it is the moments at which they begin and end,
those that keep silence from ending them, and those whose values are the least, the greatest, the
first or the last. Only sums, means and counts are of all events. A moment is kept whole: a
condition holds if it holds for all its events, of whichever definition they were kept for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from engines.columns.groups import SELECTING, EventGroups, chosen_rows, ends, ranges
from engines.columns.layout import Layout, Rows
from engines.matching.situations.runs import BEHIND_ALL, Derivation, MomentRows, Runs
from kernels.situations.cpu import FOREVER
from optimizer.engines.situations import definitions_of, temporal_of
from optimizer.ir.query import Query, ReturnValue, SituationPattern
from optimizer.ir.situations import Definition
from workloads import expressions as ex

# Of each definition the functions and attributes whose values queries read.
ReadValues: TypeAlias = Mapping[Definition, frozenset[tuple[str, str]]]


def values_read(queries: Sequence[Query]) -> ReadValues:
    """What queries aggregate, by definition; those of which they read nothing are there, too."""
    found: dict[Definition, set[tuple[str, str]]] = {d: set() for d in definitions_of(queries)}
    for query in queries:
        output, temporal = query.output, temporal_of(query)
        assert isinstance(output, SituationPattern)
        of = {situation.name: situation.definition for situation in temporal.situations}
        values = [item.value for item in output.items if isinstance(item, ReturnValue)]
        for node in (node for value in (*values, *query.conditions) for node in ex.walk(value)):
            if isinstance(node, ex.Call) and isinstance(node.argument, ex.Attribute):
                found[of[node.argument.alias]].add((node.function, node.argument.name))
    return {definition: frozenset(some) for definition, some in found.items()}


def kept_rows(derivation: Derivation, read: ReadValues, opens: int, selects: bool) -> Rows:
    """The rows of a layout that slices need in which no window begins before, or at, `opens`.

    `selects`: are all events up to here in every aggregate that is yet to be made?
    """
    layout = derivation.layout
    opened = layout.rows_until(np.arange(len(layout.starts) - 1), np.full(1, opens))
    going_on = np.zeros(len(opened), bool)
    kept: list[Rows] = []
    lasts: list[Rows] = []
    for definition, values in read.items():
        runs, moments = derivation.runs(definition), derivation.moments(definition)
        kept += [runs.first, runs.end_place[(runs.end_tick != FOREVER) & ~_is_timed(runs)]]
        if definition.gap is not None:
            kept += [layout.block[runs.last - 1], _against_silence(derivation, definition)]
        if values:
            kept += [layout.block[runs.last - 1]]
            kept += _with_values(derivation, definition, values, opens, selects)
        last = _last_moments(layout, moments, opened)
        lasts.append(last)
        held = last[_are_in(runs, last)]
        if definition.gap is not None:
            held = held[layout.ticks[held] + derivation.gap(definition) >= opens]
        going_on[layout.partition[held]] = True
    late = [blocks[layout.ticks[blocks] > opens] for blocks in kept]
    early = [blocks[going_on[layout.partition[blocks]]] for blocks in lasts]
    return _of_blocks(layout, np.unique(np.concatenate([*late, *early])))


def _is_timed(runs: Runs) -> npt.NDArray[np.bool_]:
    """Which ends does time alone bring?"""
    timed: npt.NDArray[np.bool_] = runs.end_place == BEHIND_ALL
    return timed


def _against_silence(derivation: Derivation, definition: Definition) -> Rows:
    """Moments of situations between which there is no gap: the first and the last in each stretch
    as long as a gap.
    """
    layout, moments = derivation.layout, derivation.moments(definition)
    blocks = moments.blocks(layout)
    stretch = layout.ticks[blocks] // max(derivation.gap(definition), 1)
    changes = (stretch[1:] != stretch[:-1]) | (
        layout.partition[blocks[1:]] != layout.partition[blocks[:-1]]
    )
    edge = np.concatenate([[True], changes]) | np.concatenate([changes, [True]])
    some: Rows = blocks[edge[: len(blocks)]]
    return some[_are_in(derivation.runs(definition), some)]


def _with_values(
    derivation: Derivation,
    definition: Definition,
    values: frozenset[tuple[str, str]],
    opens: int,
    selects: bool,
) -> list[Rows]:
    """Moments whose events give the values that are read of each situation."""
    layout, columns = derivation.layout, derivation.columns
    runs = derivation.runs(definition)
    runs = runs.take(runs.start_tick > opens)
    sizes = runs.last - runs.first
    rows = ranges(runs.first, sizes)
    member = derivation.members(definition)[rows]
    if not member.all():
        counted = np.concatenate([[0], np.cumsum(member)])
        rows, sizes = rows[member], np.diff(counted[ends(sizes)])
    if not len(rows):
        return []
    if not selects or any(function not in SELECTING for function, _ in values):
        return [layout.block[rows]]
    groups = EventGroups(ends(sizes), rows)
    return [
        layout.block[chosen_rows(function, columns.vector(name).take(layout.order[rows]), groups)]
        for function, name in sorted(values)
    ]


def _last_moments(layout: Layout, moments: MomentRows, opened: Rows) -> Rows:
    """Of each partition the last moment before the rows from `opened` on, where there is one."""
    blocks = moments.blocks(layout)
    place = np.searchsorted(blocks, opened)
    some = place > np.searchsorted(blocks, layout.starts[:-1])
    found: Rows = blocks[place[some] - 1]
    return found


def _are_in(runs: Runs, blocks: Rows) -> npt.NDArray[np.bool_]:
    """Which moments are part of a situation?"""
    place = np.searchsorted(runs.first, blocks, "right") - 1
    found: npt.NDArray[np.bool_] = place >= 0
    found[found] = blocks[found] < runs.last[place[found]]
    return found


def _of_blocks(layout: Layout, blocks: Rows) -> Rows:
    """All rows of blocks, given by their first rows."""
    return ranges(blocks, layout.after[blocks] - blocks) if layout.has_ties else blocks
