"""Funnels: how far each key comes, by one pass over its events for all funnels of a key."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from engines.columns.columns import Columns
from engines.columns.layout import Layout, Rows
from engines.input.event_table import Events
from engines.results.chunks import AggregateChunk, RowChunk
from engines.results.funnel_totals import FunnelTotals, Place, prefix_texts, total_chunks
from engines.results.json_text import KeyTexts, object_texts, with_fixed
from engines.results.tables import aggregate_schema, coded_schema, one_text
from kernels.funnels.cpu import NOT_REACHED, follow_funnels, read_in_turn
from optimizer.engines.funnels import Forest, Prefix, forest_of, funnel_of
from optimizer.ir.funnels import LEVEL
from optimizer.ir.pattern import Symbol
from optimizer.ir.query import Query

if TYPE_CHECKING:
    from engines.matching.passes.input import PassInput
    from engines.program import PassUnit

_ENTRIES = 1 << 22  # of keys and prefixes that are worked on at once
Lists = tuple[Rows, Rows]
_Follow = Callable[[int, int, npt.NDArray[np.int64]], None]  # keys from, to; and their gaps


def funnel_chunks(unit: PassUnit, given: PassInput) -> Iterator[RowChunk]:
    """The rows of funnels of one key: levels of keys as they are found, then what steps come to."""
    columns, stopped = given.columns, given.context.ledger.stopped
    layout = given.arranged(unit.queries[0]).layout
    if not len(layout):
        return
    run = _Pass(unit.queries, columns, layout)
    totals = FunnelTotals()
    for part in run.parts():
        run.add(part, totals)
        for query in unit.queries:
            if "levels" in funnel_of(query).gives and query.name not in stopped:
                yield run.levels(query, part)
    if given.context.funnels is not None:
        given.context.funnels.merge(totals)
        return
    yield from total_chunks(unit.queries, totals, columns.events)


class FollowedKeys(NamedTuple):
    """Some keys, by their numbers in the layout, and for each and each prefix the time from the
    step before, or `NOT_REACHED`.
    """

    first: int
    gaps: npt.NDArray[np.int64]

    @property
    def keys(self) -> slice:
        return slice(self.first, self.first + len(self.gaps))


@dataclass(frozen=True)
class KeyGroups:
    """The group of each key, -1 for a key that does not come to the first step; and their texts."""

    number: Rows
    texts: list[str]


class _Pass:
    def __init__(self, queries: Sequence[Query], columns: Columns, layout: Layout) -> None:
        self._queries, self._columns, self._layout = queries, columns, layout
        self._forest: Forest = forest_of(queries)
        self._texts = prefix_texts(self._forest)
        symbols = {prefix.symbol for prefix in self._forest.prefixes}
        symbols |= {symbol for prefix in self._forest.prefixes for symbol in prefix.excluded}
        codes, self._sets = columns.symbol_sets(sorted(symbols, key=str))
        self._letter = layout.taken(codes).astype(np.int32)
        self._last = layout.ticks[layout.starts[1:] - 1]
        self._keys = KeyTexts(columns.events, layout, queries[0].key)
        self._groups: dict[tuple[Symbol, tuple[str, ...]], KeyGroups] = {}

    @property
    def _events(self) -> Events:
        return self._columns.events

    # --- following ------------------------------------------------------------------------------

    def parts(self) -> Iterator[FollowedKeys]:
        """All keys, some at a time."""
        number = len(self._layout.starts) - 1
        prefixes = len(self._forest.prefixes)
        size = max(1, _ENTRIES // prefixes)
        shared = sum(1 for prefix in self._forest.prefixes if not prefix.turn)
        follow, read = self._shared(shared), self._in_turn(shared)
        for first in range(0, number, size):
            end = min(number, first + size)
            gaps = np.full((end - first, prefixes), NOT_REACHED, np.int64)
            follow(first, end, gaps[:, :shared])
            read(first, end, gaps[:, shared:])
            yield FollowedKeys(first, gaps)

    def _shared(self, number: int) -> _Follow:
        """The pass for funnels that share their prefixes, the first so many."""
        prefixes = list(self._forest.prefixes)[:number]
        nodes = range(number)
        up = self._lists([n for n in nodes if not prefixes[n].rising], prefixes, 1)
        down = self._lists([n for n in nodes if prefixes[n].rising], prefixes, -1)
        cleared = _listed(
            [
                [n for n in nodes if not prefixes[n].excluded.isdisjoint(symbols)]
                for symbols in self._sets
            ]
        )
        parent = np.array(
            [-1 if (p := prefixes[n].before) is None else self._forest.prefixes[p] for n in nodes],
            np.int64,
        )
        depth = np.array([prefix.depth for prefix in prefixes], np.int64)
        width = np.array([self._width(prefix.window) for prefix in prefixes], np.int64)
        seen = np.zeros(len(self._sets), bool)
        for starts, _ in (up, down, cleared):
            seen |= np.diff(starts) > 0
        view = _EventView.of(self._layout, self._letter, seen)

        def follow(first: int, end: int, gaps: npt.NDArray[np.int64]) -> None:
            if number:
                own = np.ascontiguousarray(gaps)
                follow_funnels(
                    view.starts[first : end + 1], view.block, view.ticks, view.letter,
                    up, down, cleared, parent, depth, width, own,
                )  # fmt: skip
                gaps[:] = own

        return follow

    def _in_turn(self, first_node: int) -> _Follow:
        """The pass for funnels that an event out of turn ends, whose prefixes come last."""
        prefixes = list(self._forest.prefixes)[first_node:]
        runs: list[list[int]] = []
        for number, prefix in enumerate(prefixes):
            if prefix.before is None:
                runs.append([])
            runs[-1].append(number)
        steps = np.zeros((len(runs), len(self._sets)), np.uint64)
        cleared = np.zeros((len(runs), len(self._sets)), np.uint64)
        settings = np.zeros((len(runs), 3), np.bool_)
        for f, run in enumerate(runs):
            strict = prefixes[run[0]].turn[0]
            assert isinstance(strict, tuple)
            settings[f] = [word in strict for word in ("order", "deduplication", "increase")]
            for step, node in enumerate(run):
                for letter, symbols in enumerate(self._sets):
                    bit = np.uint64(1 << step)
                    if prefixes[node].symbol in symbols:
                        steps[f, letter] |= bit
                    if not prefixes[node].excluded.isdisjoint(symbols):
                        cleared[f, letter] |= bit
        sizes = np.array([len(run) for run in runs], np.int64)
        widths = np.array([self._width(prefixes[run[-1]].window) for run in runs], np.int64)
        layout, letters = self._layout, self._letter

        def read(first: int, end: int, gaps: npt.NDArray[np.int64]) -> None:
            if runs:
                own = np.ascontiguousarray(gaps)
                read_in_turn(
                    layout.starts[first : end + 1], layout.block, layout.ticks, letters,
                    steps, cleared, sizes, settings, widths, own,
                )  # fmt: skip
                gaps[:] = own

        return read

    def _width(self, window: int) -> int:
        query = next((q for q in self._queries if q.window.size == window), None)
        return 1 if query is None else query.window.ticks(self._events.tick)

    def _lists(self, nodes: list[int], prefixes: Sequence[Prefix], way: int) -> Lists:
        """The nodes that an event of each letter may come to, by depth."""
        nodes = sorted(nodes, key=lambda n: way * prefixes[n].depth)
        return _listed(
            [[n for n in nodes if prefixes[n].symbol in symbols] for symbols in self._sets]
        )

    # --- rows -----------------------------------------------------------------------------------

    def levels(self, query: Query, part: FollowedKeys) -> AggregateChunk:
        """How many steps each key comes to."""
        path = self._forest.paths[query.name]
        level = np.zeros(len(part.gaps), np.int64)
        for node in path:
            level += part.gaps[:, node] >= 0
        size = len(level)
        keys = self._keys.codes(np.arange(part.first, part.first + size))
        if query.fixed_key:
            keys = with_fixed(keys, query)
        made = {
            "query": one_text(query.name, size),
            "key": keys,
            "time": self._events.times(self._last[part.keys]),
            "seq": pa.nulls(size, pa.int64()),
            "aggregate": one_text(LEVEL, size),
            "value": pa.array(level.astype(np.float64)),
            "count": pa.nulls(size, pa.int64()),
            "exact": pa.array(np.ones(size, bool)),
        }
        schema = coded_schema(aggregate_schema(self._events.time_type))
        return AggregateChunk(query.name, pa.table(made, schema=schema))

    def add(self, part: FollowedKeys, totals: FunnelTotals) -> None:
        """Add what the steps of some keys come to; what funnels have in common, once."""
        prefixes = list(self._forest.prefixes)
        done: set[Place] = set()
        for query in self._queries:
            clause = funnel_of(query)
            if "steps" not in clause.gives:
                continue
            path = self._forest.paths[query.name]
            groups = self._grouped(prefixes[path[0]].symbol, clause.by) if clause.by else None
            number = None if groups is None else groups.number[part.keys]
            for step, node in enumerate(path):
                place = (self._texts[node], clause.by)
                if place in done:
                    continue
                done.add(place)
                gaps = part.gaps[:, node]
                for group, rows in _members(groups, number, gaps >= 0):
                    totals.add(place, group, gaps[rows])
                if step == 0:
                    everyone = np.ones(len(gaps), bool)
                    for group, rows in _members(groups, number, everyone):
                        totals.see(place, group, int(self._last[part.keys][rows].max()))

    def _grouped(self, symbol: Symbol, by: tuple[str, ...]) -> KeyGroups:
        if (symbol, by) not in self._groups:
            self._groups[symbol, by] = _groups(self._columns, self._layout, symbol, by)
        return self._groups[symbol, by]


class _EventView(NamedTuple):
    """The events of a layout that matter, in its order."""

    starts: Rows
    block: Rows
    ticks: Rows
    letter: npt.NDArray[np.int32]

    @staticmethod
    def of(
        layout: Layout, letter: npt.NDArray[np.int32], seen: npt.NDArray[np.bool_]
    ) -> _EventView:
        """Those whose letters are seen."""
        kept = seen[letter]
        if kept.all():
            return _EventView(layout.starts, layout.block, layout.ticks, letter)
        before = np.zeros(len(kept) + 1, np.int64)
        np.cumsum(kept, out=before[1:])
        rows = np.flatnonzero(kept)
        return _EventView(
            before[layout.starts], layout.block[rows], layout.ticks[rows], letter[rows]
        )


def _listed(lists: list[list[int]]) -> Lists:
    """Lists one after the other: where each begins, and all of them."""
    starts = np.zeros(len(lists) + 1, np.int64)
    np.cumsum([len(one) for one in lists], out=starts[1:])
    return starts, np.array([n for one in lists for n in one], np.int64)


def _members(
    groups: KeyGroups | None, number: Rows | None, kept: npt.NDArray[np.bool_]
) -> Iterator[tuple[str | None, Rows]]:
    """The keys that are kept, by the group that they are in."""
    rows = np.flatnonzero(kept)
    if groups is None or number is None:
        if len(rows):
            yield None, rows
        return
    rows = rows[number[rows] >= 0]
    if not len(rows):
        return
    order = rows[np.argsort(number[rows], kind="stable")]
    found, starts = np.unique(number[order], return_index=True)
    for group, members in zip(found.tolist(), np.split(order, starts[1:]), strict=True):
        yield groups.texts[group], members


def _groups(columns: Columns, layout: Layout, symbol: Symbol, by: tuple[str, ...]) -> KeyGroups:
    """The group of each key: the least values of its first events of a symbol, nulls last."""
    number = np.full(len(layout.starts) - 1, -1, np.int64)
    rows = np.flatnonzero(layout.taken(columns.instances(symbol)))
    if not len(rows):
        return KeyGroups(number, [])
    keys, firsts = np.unique(layout.partition[rows], return_index=True)
    first_block = np.full(len(number), -1, np.int64)
    first_block[keys] = layout.block[rows[firsts]]
    rows = rows[layout.block[rows] == first_block[layout.partition[rows]]]
    table_rows = layout.order[rows]
    rank = np.zeros(len(rows), np.int64)
    for name in by:
        rank = _refined(rank, _value_ranks(columns.events, name)[table_rows])
    starts = np.unique(layout.partition[rows], return_index=True)[1]
    number[keys] = np.minimum.reduceat(rank, starts)
    found, examples = np.unique(rank, return_index=True)
    texts: list[str] = object_texts(table_rows[examples], by, columns.events).to_pylist()
    assert len(found) == len(texts) == int(rank.max()) + 1
    return KeyGroups(number, texts)


def _refined(rank: Rows, other: Rows) -> Rows:
    """Numbers from 0 on in the order of pairs."""
    pairs = rank * (int(other.max()) + 1) + other
    places: Rows = np.unique(pairs, return_inverse=True)[1].astype(np.int64)
    return places


def _value_ranks(events: Events, name: str) -> Rows:
    """Numbers that compare as the values of a column do, nulls last."""
    codes, values = events.codes(name)
    rank = np.empty(len(values) + 1, np.int64)
    rank[pc.sort_indices(values).to_numpy()] = np.arange(len(values))
    rank[-1] = len(values)
    found: Rows = rank[codes]
    return found
