"""Running queries over blocks of events: what an index sums up, and what is read at the edges."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from engines.access.block_sums import SummedQuery
from engines.access.stretches import Stretches, joined_stretches
from engines.access.summed_blocks import SummedBlocks
from engines.account import Account
from engines.columns.columns import Columns
from engines.counting.pane_tables import WindowSpan
from engines.counting.rows import Selected, result_tables
from engines.counting.stretch_folds import count_stretches, stretches_of
from engines.input.batches import FileSource
from engines.input.event_table import Events, from_table
from engines.input.query_columns import needed_columns
from engines.program import CountingUnit, Program
from engines.results.chunks import AggregateChunk
from optimizer.ir.pattern import Symbol
from optimizer.ir.query import Query


@dataclass(eq=False)
class SummedRun:
    """Queries of a program that are answered from blocks; `source` reads the other row groups."""

    summed: SummedBlocks
    program: Program  # of these queries alone
    source: FileSource
    events: int = 0  # that were read

    def chunks(self, account: Account) -> Iterator[AggregateChunk]:
        """The rows of the queries."""
        part, source = self.program, self.source
        found = {symbol: [stretches] for symbol, stretches in self.summed.blocks.items()}
        operators = _operators(part)
        columns = needed_columns(part.workload, source.schema.names)
        schema = source.schema.empty_table().select(columns)
        stream = part.workload.stream
        none = from_table(schema, stream)
        batches = source.batches(columns)
        while True:
            with account.charge(part.ids.scan):
                batch = next(batches, None)
                events = None if batch is None else from_table(batch.table, stream)
            account.spend(part.ids.scan, source.take_spent())
            if events is None:
                break
            self.events += len(events)
            account.count(part.ids.scan, len(events), len(events))
            prepared = Columns(part.workload, events, account, part.conditions)
            for symbol, own in found.items():
                members = [one for one in self.summed.queries if one.symbol == symbol]
                with account.charge(operators[members[0].query.name]):
                    queries = [one.query for one in members]
                    own.append(stretches_of(prepared, symbol, queries, _spans(members)))
        together = {symbol: joined_stretches(own) for symbol, own in found.items()}
        yield from self._rows(part, operators, together, none, account)

    def _rows(
        self,
        part: Program,
        operators: Mapping[str, str],
        stretches: Mapping[Symbol, Stretches],
        none: Events,
        account: Account,
    ) -> Iterator[AggregateChunk]:
        for one in self.summed.queries:
            operator = operators[one.query.name]
            own = {one.symbol: stretches[one.symbol]}
            with account.charge(operator):
                counted = count_stretches(
                    [one.query], [one.symbol], own, _spans([one]), self.summed.end
                )
            account.count(operator, counted.events, len(counted.boundary))
            places = _Boundaries(Columns(part.workload, none), counted.boundary)
            tables = result_tables([one.query], counted, places, account, part.outputs)
            for query, table in tables:
                yield AggregateChunk(query.name, table)


def _spans(queries: Sequence[SummedQuery]) -> list[WindowSpan]:
    return [WindowSpan(one.width, one.slide) for one in queries]


def _operators(part: Program) -> Mapping[str, str]:
    """By query the operator that aggregates it."""
    found = dict(part.outputs)
    for unit in part.units:
        if isinstance(unit, CountingUnit):
            found |= {query.name: unit.operator for query in unit.queries}
    return found


@dataclass(eq=False)
class _Boundaries:
    """The places of rows that are evaluated at times, over events without a key."""

    columns: Columns
    boundary: npt.NDArray[np.int64]

    def key(self, rows: Selected) -> pa.Array:
        return pa.nulls(len(self.boundary[rows]), pa.string())

    def time(self, rows: Selected, query: Query) -> pa.Array:
        return self.columns.events.times(self.boundary[rows])

    def seq(self, rows: Selected, query: Query) -> pa.Array:
        return pa.nulls(len(self.boundary[rows]), pa.int64())
