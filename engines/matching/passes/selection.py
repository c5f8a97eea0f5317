"""The engine `selection`: each instance of a query's one symbol is a match."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from engines.account import Account
from engines.columns.columns import Columns
from engines.columns.groups import EventGroups
from engines.columns.layout import Rows
from engines.columns.vectors import evaluate
from engines.matching.passes.input import PassInput
from engines.program import PassUnit
from engines.results.chunks import MatchChunk, RowChunk
from engines.results.json_text import BoundAliases
from optimizer.ir.pattern import Event, Symbol
from optimizer.ir.query import Query


def selected(unit: PassUnit, given: PassInput) -> Iterator[RowChunk]:
    """The matches of each query."""
    columns, account = given.columns, given.context.account
    found = columns.each_instance_rows(_symbol(query) for query in unit.queries)
    for query, rows in zip(unit.queries, found, strict=True):
        if len(rows):
            yield SelectedMatches(query, columns, account, given.outputs[query.name], rows)


def _symbol(query: Query) -> Symbol:
    assert isinstance(query.pattern, Event)
    return query.pattern.symbol


class SelectedMatches(MatchChunk):
    """Matches of one event each."""

    def __init__(
        self, of: Query, columns: Columns, account: Account, operator: str, rows: Rows
    ) -> None:
        super().__init__(of, columns, account, operator)
        self._rows = rows

    def __len__(self) -> int:
        return len(self._rows)

    def take(self, rows: Rows) -> SelectedMatches:
        taken = self._rows[rows]
        return SelectedMatches(self.of, self._columns, self._account, self._operator, taken)

    def partitions(self) -> None:
        return None

    def key_texts(self, partitions: Rows) -> pa.Array:
        raise AssertionError("selected events have no key")

    def times(self) -> tuple[Rows, Rows, Rows]:
        ticks = self._events.ticks[self._rows]
        return ticks, ticks, ticks

    def matched(self) -> BoundAliases:
        columns, rows, pattern = self._columns, self._rows, self.of.pattern
        assert isinstance(pattern, Event)
        return BoundAliases(
            len(rows),
            {pattern.alias: rows},
            lambda expression: evaluate(
                expression, lambda node: columns.vector(node.name).take(rows), columns.texts
            ),
        )

    def last_rows(self) -> Rows:
        return self._rows

    def bound(self) -> tuple[int, Sequence[EventGroups]]:
        return 1, ()
