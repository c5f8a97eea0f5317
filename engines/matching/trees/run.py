"""The tree engine: queries that construct their matches, as tables of rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from engines.account import Account, charged
from engines.columns.columns import Columns
from engines.columns.groups import EventGroups
from engines.columns.layout import Rows, partition_codes
from engines.columns.vectors import Vector
from engines.device_kernels import DeviceKernels
from engines.limits import PartialLimitError, named_error
from engines.matching.aggregate.aggregates import MatchColumns
from engines.matching.trees.buffers import Buffer, EventNumbers, SelectedEvents, TooWideError
from engines.matching.trees.conditions import value
from engines.matching.trees.evaluation import SharedBuffers, TreeEvaluation
from engines.matching.trees.latest import Latest, ending_last
from engines.program import Program, RunContext, TreeUnit
from engines.results.chunks import AggregateChunk, MatchChunk, RowChunk
from engines.results.json_text import BoundAliases, object_texts
from optimizer.engines import compact
from optimizer.engines.spec import Device
from optimizer.ir.pattern import Pattern, Symbol, bound_names, waits
from optimizer.ir.pattern import events as components
from optimizer.ir.query import Construction, Query
from optimizer.plan.compile_tree import ReadingTree
from optimizer.plan.join_operators import Closure, Operator, Scan, walk_operators
from workloads import expressions as ex
from workloads.errors import TooLargeError, UnsupportedError


class TreeMatches(MatchChunk):
    """Matches of one OR-free reading of a query's pattern, as rows of a tree."""

    def __init__(
        self,
        of: Query,
        reading: MatchReading,
        matches: Buffer,
        account: Account,
        operator: str,
    ) -> None:
        super().__init__(of, reading.picked.columns, account, operator)
        self._reading, self._picked, self._matches = reading, reading.picked, matches

    def __len__(self) -> int:
        return len(self._matches)

    def take(self, rows: Rows) -> TreeMatches:
        matches = self._matches.take(rows)
        return TreeMatches(self.of, self._reading, matches, self._account, self._operator)

    def partitions(self) -> tuple[Rows, int] | None:
        partition = self._picked.partition
        if partition is None:
            return None
        return partition[self._matches.first], int(partition[-1]) + 1

    def key_texts(self, partitions: Rows) -> pa.Array:
        """As the first event of each partition spells it."""
        picked, events = self._picked, self._picked.columns.events
        assert picked.partition is not None
        rows = picked.row[np.searchsorted(picked.partition, partitions)]
        if any(pa.types.is_floating(events.column(name).type) for name in picked.key):
            # Zeros of both signs are one key.
            codes, _ = partition_codes(events, picked.key)
            keyed = np.flatnonzero(codes >= 0)
            spelled, first = np.unique(codes[keyed], return_index=True)
            rows = keyed[first[np.searchsorted(spelled, codes[rows])]]
        return object_texts(rows, picked.key, events)

    def times(self) -> tuple[Rows, Rows, Rows]:
        picked, first, width = self._picked, self._matches.first, self._reading.width
        start, end = picked.ticks(first), picked.ticks(self._matches.last)
        if not waits(self._reading.pattern):
            return start, end, end
        return start, end, _closing(picked, first, width) if picked.layout else start + width

    def matched(self) -> BoundAliases:
        pattern, aliases = self._reading.pattern, self._reading.aliases
        return _bound(pattern, aliases, self._picked, self._matches)

    def last_rows(self) -> Rows:
        rows: Rows = self._picked.row[self._matches.last]
        return rows

    def bound(self) -> tuple[int, Sequence[EventGroups]]:
        columns = self._matches.columns
        groups = [column for column in columns if isinstance(column, EventGroups)]
        return len(columns) - len(groups), groups


class MatchReading(NamedTuple):
    """What the rows of matches of one OR-free reading of a pattern are made with."""

    pattern: Pattern
    aliases: tuple[str, ...]
    picked: SelectedEvents
    width: int


def _closing(picked: SelectedEvents, first: EventNumbers, width: int) -> Rows:
    """The time of the event whose rank closes a window, or else of the partition's last one."""
    layout = picked.layout
    assert layout is not None
    rows = picked.used[first]
    partition = layout.partition[rows]
    closing = layout.rows_until(partition, layout.position[rows] + width - 1)
    ticks: Rows = layout.ticks[np.minimum(closing, layout.starts[partition + 1] - 1)]
    return ticks


def _bound(
    pattern: Pattern, aliases: tuple[str, ...], picked: SelectedEvents, matches: Buffer
) -> BoundAliases:
    numbers = {alias: str(i) for i, alias in enumerate(aliases)}
    columns: dict[str, Rows | EventGroups] = {}
    for alias, column in zip(aliases, matches.columns, strict=True):
        if isinstance(column, EventGroups):
            columns[alias] = EventGroups(column.offsets, picked.row[column.rows])
        else:
            columns[alias] = picked.row[column]

    def of(expression: ex.Expression) -> Vector:
        return value(ex.rename(expression, numbers), picked, matches)

    return BoundAliases(len(matches), columns, of, bound_names(pattern))


# The rows of an aggregate query from its matches.
AggregateMatches = Callable[[Query, Iterable[MatchColumns]], Iterator[pa.Table]]


@dataclass(frozen=True, eq=False)
class UnfinishedQuery:
    """A query that trees cannot hold in memory, and what of its matches they have given.

    Of the readings in `done` these are all, of `reading` those that end before `until`, a moment of
    `picked`.
    """

    query: Query
    done: tuple[Pattern, ...] = ()
    reading: Pattern | None = None
    picked: SelectedEvents | None = None
    until: int = 0

    def is_new(self, reading: Pattern, last: Rows) -> npt.NDArray[np.bool_]:
        """Which matches of a reading are not given yet, by the table's row of their last event."""
        if reading in self.done:
            return np.zeros(len(last), bool)
        if reading != self.reading or self.picked is None:
            return np.ones(len(last), bool)
        moment = np.zeros(len(self.picked.columns.events), np.int64)
        moment[self.picked.row] = self.picked.moment
        new: npt.NDArray[np.bool_] = moment[last] >= self.until
        return new


def tree_chunks(
    units: Sequence[TreeUnit],
    columns: Columns,
    program: Program,
    context: RunContext,
    aggregate: AggregateMatches,
    unfinished: list[UnfinishedQuery],
) -> Iterator[RowChunk]:
    """The rows of the queries of tree units.

    A query that trees cannot hold in memory is added to `unfinished`, and the context says so. One
    that is stopped at a limit gives no more rows.
    """
    together: dict[tuple[tuple[str, ...], bool, Device], list[TreeUnit]] = {}
    widths: dict[str, int] = {}
    for unit in units:
        for query in unit.queries:
            try:
                widths[query.name] = query.window.ticks(columns.events.tick)
            except UnsupportedError as error:
                raise named_error(error, query.name) from error
        first = unit.queries[0]
        place = (first.key, first.window.is_count, unit.device)
        together.setdefault(place, []).append(unit)
    for (key, ranked, device), some in together.items():
        queries = [query for unit in some for query in unit.queries]
        planned = {
            query.name: unit.trees[query.name]
            for unit in some
            if unit.trees is not None
            for query in unit.queries
        }
        symbols = dict.fromkeys(e.symbol for query in queries for e in components(query.pattern))
        # Trees that were made beside other queries may read events of these.
        symbols |= dict.fromkeys(symbol for trees in planned.values() for symbol in _read_by(trees))
        kernels = DeviceKernels(context.device_of(device))
        width = max(widths[query.name] for query in queries)
        account, operator = context.account, program.ids.partition(key, ranked)
        try:
            with account.charge(operator):
                picked = SelectedEvents(columns, key, ranked, symbols, width, kernels)
        except UnsupportedError as error:
            for query in queries:
                _fall_back(context, query, str(error))
                unfinished.append(UnfinishedQuery(query))
            continue
        account.count(operator, len(columns.events), len(picked))
        for symbol in symbols:
            account.count(program.ids.events(symbol, queries[0]), 0, len(picked.of(symbol)))
        with account.charge(operator):  # whose events say which trees are the cheapest
            adaptive = context.options.adaptive and not context.is_whole
            trees = planned
            if adaptive or len(planned) < len(queries):
                plans = context.adaptive_plans()
                trees = plans.trees(queries, planned, picked, widths, program.sharing, adaptive)
            group = _Group(queries, trees, picked, widths, program, context, aggregate)
        yield from group.chunks(unfinished)


def _read_by(trees: Iterable[ReadingTree]) -> Iterator[Symbol]:
    """The symbols whose events trees read."""
    for tree in trees:
        for operator in walk_operators(tree.compiled.operator):
            if isinstance(operator, Scan | Closure):
                yield operator.symbol


def _fall_back(context: RunContext, query: Query, why: str) -> None:
    way = "binds one component after the other"
    if compact.refusal(query) is None:
        way = "lists its matches in order"
    context.fallbacks.add(f"{query.name}: {way}: {why}")


class _Group:
    """Queries over the same events, which share what is equal in their trees."""

    def __init__(
        self,
        queries: Sequence[Query],
        trees: dict[str, tuple[ReadingTree, ...]],
        picked: SelectedEvents,
        widths: dict[str, int],
        program: Program,
        context: RunContext,
        aggregate: AggregateMatches,
    ) -> None:
        self._queries, self._trees, self._picked, self._widths = queries, trees, picked, widths
        self._program, self._context, self._aggregate = program, context, aggregate
        self._shared: dict[str, SharedBuffers] = {}
        self._ids: dict[str, dict[Operator, str]] = {}
        for query in queries:
            ids = self._ids[query.name] = {}
            for tree in trees[query.name]:
                ids |= program.ids.joins(query, tree)
                own = self._buffers(query)
                own.announce(tree.compiled.operator, self._widths[query.name])
        self._latest = self._latest_rows()

    def _latest_rows(self) -> Latest | None:
        """What matters only where it ends with the latest events, as earlier rows are given.

        An aggregate is of all matches of its window. Limits on partial matches look at all of them.
        """
        since, partial = self._context.since, self._context.options.partial
        if since is None or partial is not None:
            return None
        roots = (
            (tree.compiled.operator, isinstance(query.output, Construction))
            for query in self._queries
            for tree in self._trees[query.name]
        )
        picked = self._picked
        return Latest(picked.columns.events.ticks[picked.row] >= since, ending_last(roots))

    def _buffers(self, query: Query) -> SharedBuffers:
        place = "" if self._program.sharing else query.name
        tick = self._picked.columns.events.tick
        return self._shared.setdefault(place, SharedBuffers(tick))

    def chunks(self, unfinished: list[UnfinishedQuery]) -> Iterator[RowChunk]:
        context, stopped = self._context, self._context.ledger.stopped
        for i, query in enumerate(self._queries):
            own = self._buffers(query)
            evaluation = TreeEvaluation(
                self._picked,
                self._widths[query.name],
                query.name,
                context,
                own,
                self._ids[query.name],
                self._latest,
            )
            output, given = self._program.outputs[query.name], _GivenMatches()
            rows = self._rows(query, evaluation, output, given)
            try:
                for chunk in charged(context.account, output, rows):
                    context.account.count(output, 0, len(chunk))
                    given.rows += len(chunk)
                    yield chunk
                    if query.name in stopped:
                        break
            except TooLargeError:
                raise
            except UnsupportedError as error:
                self._give_up(query, given, error, unfinished)
            except PartialLimitError as error:
                stopped[query.name] = str(error)
            context.account.count(output, evaluation.matched)
            if query.name in stopped:
                left = [q for q in self._queries[i + 1 :] if self._buffers(q) is own]
                own.renew(
                    (tree.compiled.operator, self._widths[q.name])
                    for q in left
                    for tree in self._trees[q.name]
                )

    def _give_up(
        self,
        query: Query,
        given: _GivenMatches,
        error: UnsupportedError,
        unfinished: list[UnfinishedQuery],
    ) -> None:
        """Leave the rest of a query's matches to another way of finding them."""
        _fall_back(self._context, query, str(error))
        if isinstance(error, TooWideError) and error.given_until is not None:
            until = int(self._picked.moment[error.given_until])
            done, reading = tuple(given.done), given.reading
            unfinished.append(UnfinishedQuery(query, done, reading, self._picked, until))
        elif given.rows == given.rows_done:
            unfinished.append(UnfinishedQuery(query, tuple(given.done)))
        else:
            self._context.ledger.stopped[query.name] = (
                f"query {query.name} is stopped after {given.rows:,} rows: {error}; shorten its "
                "window, partition it by a key, or add conditions"
            )

    def _rows(
        self, query: Query, evaluation: TreeEvaluation, output: str, given: _GivenMatches
    ) -> Iterator[RowChunk]:
        if not isinstance(query.output, Construction):
            for table in self._aggregate(query, self._found(query, evaluation)):
                yield AggregateChunk(query.name, table)
            return
        account, picked, width = self._context.account, self._picked, evaluation.width
        for tree in self._trees[query.name]:
            operator, aliases, _ = tree.compiled
            reading = MatchReading(tree.pattern, aliases, picked, width)
            given.reading = tree.pattern
            for matches in evaluation.matches(operator):
                yield TreeMatches(query, reading, matches, account, output)
            given.done.append(tree.pattern)
            given.rows_done = given.rows

    def _found(self, query: Query, evaluation: TreeEvaluation) -> Iterator[MatchColumns]:
        """The matches of a query that aggregates them."""
        row = self._picked.row
        for tree in self._trees[query.name]:
            operator, aliases, _ = tree.compiled
            for matches in evaluation.matches(operator):
                columns = dict(zip(aliases, matches.columns, strict=True))
                ends = [
                    None if moments is None else self._picked.at(moments)
                    for moments in (matches.earliest, matches.latest)
                ]
                yield MatchColumns(row, matches.first, matches.last, columns, *ends)


@dataclass
class _GivenMatches:
    """What a query has given: rows, and readings of its pattern that are done with their rows."""

    rows: int = 0
    rows_done: int = 0
    done: list[Pattern] = field(default_factory=list)
    reading: Pattern | None = None
