"""The situations of definitions over the events of one layout, and the moments of their ends."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from engines.columns.columns import Columns
from engines.columns.layout import Layout, Rows
from engines.device_kernels import CPU, DeviceKernels
from engines.results.json_text import json_column
from kernels.situations.cpu import BY_GAP, FOREVER, NO_GAP, ONGOING
from optimizer.ir.pattern import Symbol
from optimizer.ir.query import whole_ticks
from optimizer.ir.situations import Definition, Edge, Situation

BEHIND_ALL = 2**62  # the place in its tick of a moment that time alone brings


class Runs(NamedTuple):
    """Situations of a definition: partitions, rows of the layout, and the ticks of their ends.

    `start_place` and `end_place` tell moments of one tick apart.
    """

    partition: Rows
    first: Rows
    last: Rows
    start_tick: Rows
    end_tick: Rows  # FOREVER for one that goes on
    start_place: Rows
    end_place: Rows

    def take(self, some: npt.NDArray[np.bool_]) -> Runs:
        return Runs(*(values[some] for values in self))


@dataclass
class Derivation:
    """Derives each definition once for all queries that read one layout."""

    columns: Columns
    layout: Layout
    tick: int
    kernels: DeviceKernels = CPU

    def __post_init__(self) -> None:
        # A slice asks for the same once more, to see what of it is kept for later ones.
        place = "situations", id(self.layout), self.kernels.on_device
        self._known: dict[Definition, Runs]
        self._moments: dict[Symbol, MomentRows]
        self._known, self._moments = self.columns.derived.setdefault(place, ({}, {}))
        self._named: dict[tuple[object, ...], NamedRuns] = {}
        self._texts: dict[tuple[object, ...], tuple[Runs, pa.Array]] = {}

    def runs(self, definition: Definition) -> Runs:
        """All situations of a definition, by partition and start."""
        if definition not in self._known:
            self._known[definition] = self._derived(definition)
        return self._known[definition]

    def named(self, situation: Situation, complete: bool) -> NamedRuns:
        """The situations that a name of a query can stand for."""
        lengths = situation.at_least, situation.at_most
        key = (situation.definition, *lengths, complete)
        if key not in self._named:
            least, most = (
                None if length is None else whole_ticks(length, self.tick, "length")
                for length in lengths
            )
            self._named[key] = _named(
                self.runs(situation.definition),
                least or 0,
                most,
                least is not None,
                complete,
                len(self.layout.starts) - 1,
            )
        return self._named[key]

    def sure_ticks(self, situation: Situation, complete: bool) -> Rows:
        """When each situation of a name's definition counts by itself; FOREVER for never."""
        named, total = self.named(situation, complete), len(self.runs(situation.definition).first)
        if len(named.number) == total:
            return named.sure_tick
        found = np.full(total, FOREVER)
        found[named.number] = named.sure_tick
        return found

    def texts(self, runs: Runs, edge: Edge, before: str = "", behind: str = "") -> pa.Array:
        """When situations start or end as JSON between two texts, and behind them what stands for
        an end that is not known. They are written once.
        """
        key = id(runs), edge, before, behind
        if key not in self._texts:
            ticks = runs.start_tick if edge == "start" else runs.end_tick
            known = np.append(ticks, FOREVER) != FOREVER
            times = self.columns.events.times(np.where(known, np.append(ticks, 0), 0))
            texts = pc.if_else(pa.array(known), json_column(times), "null")
            self._texts[key] = runs, pc.binary_join_element_wise(before, texts, behind, "")
        return self._texts[key][1]

    def gap(self, definition: Definition) -> int:
        """The ticks of silence that end a situation; `NO_GAP` where none does."""
        return NO_GAP if definition.gap is None else whole_ticks(definition.gap, self.tick, "GAP")

    def moments(self, definition: Definition) -> MomentRows:
        """The moments that a definition is asked of."""
        if definition.member not in self._moments:
            found = MomentRows.of(self.layout, self.members(definition))
            self._moments[definition.member] = found
        return self._moments[definition.member]

    def members(self, definition: Definition) -> npt.NDArray[np.bool_]:
        """The rows of the layout that a definition is asked of."""
        return self.layout.taken(self.columns.instances_alone(definition.member))

    def _derived(self, definition: Definition) -> Runs:
        layout, gap = self.layout, self.gap(definition)
        holds = layout.taken(self.columns.instances_alone(definition.symbol))
        moments = self.moments(definition)
        asked = moments.starts, moments.ticks, moments.holds(holds), gap
        partition, *found = self.kernels.derive_runs(*asked)
        first, last, ended = moments.rows(layout, *found)
        row = np.maximum(ended, 0)
        end_tick, end_place = layout.ticks[row], layout.block[row]
        by_gap = ended == BY_GAP
        end_tick = np.where(by_gap, layout.ticks[last - 1] + max(gap, 0), end_tick)
        end_tick = np.where(ended == ONGOING, FOREVER, end_tick)
        end_place = np.where(by_gap, BEHIND_ALL, end_place)
        start_tick, start_place = layout.ticks[first], layout.block[first]
        return Runs(partition, first, last, start_tick, end_tick, start_place, end_place)


class MomentRows(NamedTuple):
    """The moments of a layout that have events of a definition.

    `some` are the rows of these events, and `firsts` the place of each moment's first among them;
    both None where every row of the layout is a moment of its own.
    """

    starts: Rows
    ticks: Rows
    some: Rows | None
    firsts: Rows | None

    @staticmethod
    def of(layout: Layout, member: npt.NDArray[np.bool_]) -> MomentRows:
        if member.all() and not layout.has_ties:
            return MomentRows(layout.starts, layout.ticks, None, None)
        some = np.flatnonzero(member)
        block = layout.block[some]
        firsts = np.flatnonzero(np.concatenate([[True], block[1:] != block[:-1]])[: len(block)])
        block = block[firsts]
        return MomentRows(np.searchsorted(block, layout.starts), layout.ticks[block], some, firsts)

    def holds(self, rows: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
        """Does the condition hold at each moment, for all its events?"""
        if self.some is None or self.firsts is None:
            return rows
        asked = rows[self.some]
        if len(self.firsts) == len(asked):
            return asked
        return np.logical_and.reduceat(asked, self.firsts)

    def blocks(self, layout: Layout) -> Rows:
        """The first row of each moment."""
        if self.some is None or self.firsts is None:
            return layout.block[:-1]
        return layout.block[self.some[self.firsts]]

    def rows(self, layout: Layout, first: Rows, last: Rows, ended: Rows) -> tuple[Rows, Rows, Rows]:
        """Moments as rows of the layout."""
        if self.some is None or self.firsts is None:
            return first, last, ended
        block = self.blocks(layout)
        if not len(block):
            return first, last, ended
        behind = layout.after[block[last - 1]]
        return block[first], behind, np.where(ended < 0, ended, block[np.maximum(ended, 0)])


class NamedRuns(NamedTuple):
    """The situations of one name of a query that are long enough, or may become so.

    `number` tells them from others of their definition; moments are by tick and place, and `sure_`
    is that at which a situation counts. Those of partition p are from `offsets[p]` on.
    """

    runs: Runs
    number: Rows
    sure_tick: Rows
    sure_place: Rows
    offsets: Rows

    def places(self, numbers: Rows, total: int) -> Rows:
        """Where situations of the definition, by number, are among these; -1 for others."""
        if len(self.number) == total:
            return numbers
        found = np.full(total, -1)
        found[self.number] = np.arange(len(self.number))
        return found[numbers]


def _named(
    runs: Runs, least: int, most: int | None, by_length: bool, complete: bool, partitions: int
) -> NamedRuns:
    """Situations that last so many ticks at least and at most; `by_length`: a least one is asked
    for, and a situation counts when it has lasted so long.
    """
    length = runs.end_tick - runs.start_tick
    goes_on = runs.end_tick == FOREVER
    kept = length >= least
    if most is not None:
        kept &= ~goes_on & (length <= most)
    if complete:
        kept &= ~goes_on
    number = np.flatnonzero(kept)
    some = runs if len(number) == len(kept) else runs.take(kept)
    if complete or most is not None:
        sure = some.end_tick, some.end_place
    elif by_length:
        sure = some.start_tick + least, np.full(len(number), BEHIND_ALL)
    else:
        sure = some.start_tick, some.start_place
    return NamedRuns(
        some, number, *sure, np.searchsorted(some.partition, np.arange(partitions + 1))
    )


class Moments(NamedTuple):
    """Ticks, or numbers for pairs of a tick and a place in it, that compare as moments do.

    `ticks` and `places` are those of the numbers; empty where moments are ticks.
    """

    ticks: Rows
    places: Rows

    @staticmethod
    def of(sequenced: bool, named: Sequence[NamedRuns]) -> Moments:
        none = np.zeros(0, np.int64)
        if not sequenced:
            return Moments(none, none)
        runs = [one.runs for one in named]
        tick = [values for r in runs for values in (r.start_tick, r.end_tick)]
        place = [values for r in runs for values in (r.start_place, r.end_place)]
        tick += [one.sure_tick for one in named]
        place += [one.sure_place for one in named]
        ticks, places = np.concatenate(tick), np.concatenate(place)
        order = np.lexsort((places, ticks))
        ticks, places = ticks[order], places[order]
        new = np.ones(len(ticks), bool)
        new[1:] = (ticks[1:] != ticks[:-1]) | (places[1:] != places[:-1])
        return Moments(ticks[new], places[new])

    def numbers(self, tick: Rows, place: Rows) -> Rows:
        """The moments as numbers; FOREVER stays what it is."""
        if not len(self.ticks):
            return tick
        known = np.empty(len(self.ticks), [("tick", np.int64), ("place", np.int64)])
        known["tick"], known["place"] = self.ticks, self.places
        asked = np.empty(len(tick), known.dtype)
        asked["tick"], asked["place"] = tick, place
        found = np.searchsorted(known, asked)
        return np.where(tick == FOREVER, FOREVER, found)
