"""`SUPPRESS` over events that keep coming: a match is given when its time of SUPPRESS is over.

Then it is known how many were left out for it, so that the rows are those of a run over the stored
events. The state is a row for each key whose last match is not given yet, with the number of those
left out for it so far, and matches that are found before the time at which they would be given.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from engines.account import Account
from engines.live.query_digest import state_name
from engines.program import Program
from engines.results.chunks import MatchChunk, RowChunk
from engines.results.measured import MeasuredChunk
from engines.results.picked_matches import not_suppressed
from engines.results.tables import match_schema, plain
from optimizer.ir.query import (
    SUPPRESSED,
    Construction,
    Query,
    ReturnValue,
    waits_for_window,
    whole_ticks,
)
from workloads.expressions import Literal

_NONE = ReturnValue(Literal(0), "suppressed")  # the last of what such a match returns
_ENDING = len("0}")  # of its text


def unsuppressed(program: Program) -> Program:
    """The program without SUPPRESS, where it stands without KEEP: of each match none is left out.

    KEEP is about all matches that there will ever be.
    """
    if not any(map(_width, program.workload.queries)):
        return program
    units = tuple(
        replace(unit, queries=tuple(map(_unsuppressed, unit.queries))) for unit in program.units
    )
    queries = tuple(map(_unsuppressed, program.workload.queries))
    workload = replace(program.workload, queries=queries)
    return replace(program, workload=workload, units=units, planned=program.workload)


def _unsuppressed(query: Query) -> Query:
    output = query.output
    if not isinstance(output, Construction) or _width(query) is None:
        return query
    counted = ReturnValue(SUPPRESSED, _NONE.name)
    items = tuple(_NONE if item == counted else item for item in output.items)
    return replace(query, output=replace(output, items=items, suppress=None))


def _width(query: Query) -> int | None:
    """Its time of SUPPRESS, in nanoseconds; None where it has none, or KEEP.

    None too where matches are not certain in the order of their times.
    """
    output = query.output
    if not isinstance(output, Construction) or output.keep:
        return None
    return None if query.window.is_count and waits_for_window(query) else output.suppress


class _Suppressing(NamedTuple):
    """A query, its time of SUPPRESS in ticks, and what its matches are called in a state."""

    query: str
    width: int
    place: str


class Suppression:
    """The matches of an `unsuppressed` program that are not left out, slice by slice.

    `queries` are those of the program with SUPPRESS.
    """

    def __init__(self, queries: Sequence[Query], tick: int) -> None:
        self._suppressing = {
            query.name: _Suppressing(query.name, _ticks(width, tick), state_name(query))
            for query in queries
            if (width := _width(query)) is not None
        }
        self._open: dict[str, pa.Table] = {}  # by place

    def given(
        self,
        chunks: Iterator[RowChunk],
        stop: int | None,
        account: Account,
        outputs: Mapping[str, str],
    ) -> Iterator[RowChunk]:
        """The rows of a slice; of queries with SUPPRESS those that are certain.

        All matches that are reported before the time `stop` have come with it; None: all there
        are. `outputs` are the operators that this is charged to, and whose rows it makes fewer.
        """
        found: dict[str, list[pa.Table]] = {}
        for chunk in chunks:
            if chunk.query in self._suppressing and isinstance(chunk, MatchChunk):
                found.setdefault(chunk.query, []).append(_rows(chunk))
            else:
                yield chunk
        before, self._open = self._open, {}
        for name, width, place in self._suppressing.values():
            tables = [*([before[place]] if place in before else ()), *found.get(name, ())]
            if not tables:
                continue
            with account.charge(outputs[name]):
                closed, left = _parted(pa.concat_tables(tables), width, stop)
            if left.num_rows:
                self._open[place] = left
            new = sum(table.num_rows for table in found.get(name, ()))
            account.count(outputs[name], 0, closed.num_rows - new)
            if closed.num_rows:
                yield MeasuredChunk(name, _as_results(closed, name))

    @property
    def held(self) -> Mapping[str, pa.Table]:
        """The matches that are not given yet, as the state has them."""
        return self._open

    def hold(self, held: Mapping[str, pa.Table]) -> None:
        """Go on with what `held` gave; of queries that are no more it is let go."""
        known = {each.place for each in self._suppressing.values()}
        self._open = {place: table for place, table in held.items() if place in known}

    @property
    def due(self) -> int | None:
        """The first `stop` that may give a match, though no other comes."""
        times = [
            pc.min(self._open[each.place].column("tick")).as_py() + each.width
            for each in self._suppressing.values()
            if each.place in self._open
        ]
        return min(times, default=None)


def _ticks(width: int, tick: int) -> int:
    return whole_ticks(width, tick, "time of SUPPRESS")


def _rows(chunk: MatchChunk) -> pa.Table:
    """Matches as rows, with what puts them in order, and how many are left out for each."""
    last, events = chunk.last_rows(), chunk.events
    none = np.zeros(len(chunk), np.int64)
    sequence = none if events.sequence is None else events.sequence[last]
    table = plain(chunk.table())
    for name, column in (
        ("tick", chunk.times()[2]),
        ("last", events.ticks[last]),
        ("sequence", sequence),
        ("left_out", none),
    ):
        table = table.append_column(name, pa.array(column, pa.int64()))
    return table.drop_columns(["query"])


def _parted(rows: pa.Table, width: int, stop: int | None) -> tuple[pa.Table, pa.Table]:
    """The matches that are given now, and those that are not yet known to be."""
    columns = ("tick", "last", "sequence", "match")
    rows = rows.sort_by([(name, "ascending") for name in columns])
    ticks = rows.column("tick").to_numpy()
    decided = len(ticks) if stop is None else int(np.searchsorted(ticks, stop))
    left_out = rows.column("left_out").to_numpy().copy()
    keys = rows.column("key").slice(0, decided).combine_chunks()
    codes = keys.dictionary_encode(null_encoding="encode").indices.to_numpy().astype(np.int64)
    order = np.arange(decided)
    # Those that stood open are the first of their keys, so that nothing leaves them out.
    chosen = not_suppressed(order, codes, ticks, width, left_out)
    at = rows.schema.get_field_index("left_out")
    rows = rows.set_column(at, "left_out", pa.array(left_out))
    is_over = np.ones(len(chosen), bool) if stop is None else ticks[chosen] + width <= stop
    waiting = np.concatenate([chosen[~is_over], np.arange(decided, len(ticks))])
    return rows.take(pa.array(chosen[is_over])), rows.take(pa.array(waiting))


def _as_results(rows: pa.Table, query: str) -> pa.Table:
    texts = rows.column("match").combine_chunks()
    beginning = pc.utf8_slice_codeunits(texts, 0, -_ENDING)
    numbers = rows.column("left_out").combine_chunks().cast(pa.string())
    matches = pc.binary_join_element_wise(beginning, numbers, "}", "")
    schema = match_schema(rows.schema.field("time").type)
    columns = {name: rows.column(name) for name in schema.names if name in rows.column_names}
    columns |= {"query": pa.array([query] * len(rows), pa.string()), "match": matches}
    return pa.table(columns, schema=schema)
