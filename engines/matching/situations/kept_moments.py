"""The events that later slices need of those in situations: of each situation a few moments.

A situation that began before the windows that are open is in no later match, and one moment of it
tells that what follows is no beginning. Of others it is the moments at which they begin and end,
those that keep silence from ending them, and those whose values are the least, the greatest, the
first or the last; what others add to sums, the first one has. A moment is kept whole: a condition
holds if it holds for all its events, of whichever definition they were kept for.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from engines.columns.groups import SELECTING, EventGroups, chosen_rows, ends, ranges
from engines.columns.layout import Layout, Rows
from engines.columns.vectors import Vector
from engines.matching.situations.rests import SUMMING, Rests, let_go, may_let_go
from engines.matching.situations.rests import named_columns as rest_columns
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


def kept_events(
    derivation: Derivation, read: ReadValues, opens: int, selects: bool
) -> tuple[Rows, dict[str, pa.Array]]:
    """What slices need in which no window begins before, or at, `opens`: rows of the layout, and
    columns by row of the table, with what others add to sums.

    `selects`: are all events up to here in every aggregate that is yet to be made?
    """
    valued = [_Valued.of(derivation, d, values, opens) for d, values in read.items() if values]
    rows = _kept_rows(derivation, read, opens, valued, selects)
    kept = np.zeros(len(derivation.layout), bool)
    kept[rows] = True
    return rows, dict(c for each in valued if selects for c in each.rests(derivation, kept))


def _kept_rows(
    derivation: Derivation, read: ReadValues, opens: int, valued: Iterable[_Valued], selects: bool
) -> Rows:
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
        last = _last_moments(layout, moments, opened)
        lasts.append(last)
        held = last[_are_in(runs, last)]
        if definition.gap is not None:
            held = held[layout.ticks[held] + derivation.gap(definition) >= opens]
        going_on[layout.partition[held]] = True
    for each in valued:
        kept += each.moments(derivation) if selects else [layout.block[each.groups.rows]]
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


@dataclass(frozen=True, eq=False)
class _Valued:
    """A definition whose events are aggregated: those of its situations, as rows of a layout."""

    definition: Definition
    functions: Mapping[str, frozenset[str]]  # by attribute
    groups: EventGroups

    @staticmethod
    def of(
        derivation: Derivation,
        definition: Definition,
        values: Iterable[tuple[str, str]],
        opens: int,
    ) -> _Valued:
        """Of situations that began behind a time; others are in no match that is to come."""
        runs = derivation.runs(definition)
        runs = runs.take(runs.start_tick > opens)
        sizes = runs.last - runs.first
        rows = ranges(runs.first, sizes)
        member = derivation.members(definition)[rows]
        if not member.all():
            counted = np.concatenate([[0], np.cumsum(member)])
            rows, sizes = rows[member], np.diff(counted[ends(sizes)])
        functions: dict[str, set[str]] = {}
        for function, name in values:
            functions.setdefault(name, set()).add(function)
        asked = {name: frozenset(some) for name, some in sorted(functions.items())}
        return _Valued(definition, asked, EventGroups(ends(sizes), rows))

    def values(self, derivation: Derivation, name: str) -> tuple[Vector, Rests | None]:
        """An attribute of these events, and what events before them have left."""
        columns, rows = derivation.columns, derivation.layout.order[self.groups.rows]
        rests = Rests.of(columns, self.definition, name)
        return columns.vector(name).take(rows), None if rests is None else rests.take(rows)

    def moments(self, derivation: Derivation) -> Iterator[Rows]:
        """Those whose events give what is read, unless it is a sum."""
        block, rows = derivation.layout.block, self.groups.rows
        for name, functions in self.functions.items() if len(rows) else ():
            values, rests = self.values(derivation, name)
            if functions & {"sum", "avg"} and not may_let_go(values, rests):
                yield block[rows]
            for function in sorted(functions & set(SELECTING)):
                yield block[chosen_rows(function, values, self.groups)]

    def rests(
        self, derivation: Derivation, kept: npt.NDArray[np.bool_]
    ) -> Iterator[tuple[str, pa.Array]]:
        """Columns with what the events that are not kept add to sums, by row of the table."""
        order, groups = derivation.layout.order, self.groups
        for name, functions in self.functions.items() if len(groups.rows) else ():
            if not functions & set(SUMMING):
                continue
            values, rests = self.values(derivation, name)
            counts, parts = let_go(values, rests, ~kept[groups.rows], groups)
            some = [
                np.zeros(len(derivation.columns.events), column.dtype)
                for column in (counts, *parts)
            ]
            for column, found in zip(some, (counts, *parts), strict=True):
                column[order[groups.first]] = found
            yield from rest_columns(self.definition, name, some)


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
