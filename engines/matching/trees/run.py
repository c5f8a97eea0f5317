"""The tree engine: queries that construct their matches, as tables of rows."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa

from engines.columns.columns import Columns, Vector
from engines.columns.groups import EventGroups
from engines.columns.layout import Rows, partition_codes
from engines.device_kernels import DeviceKernels
from engines.limits import PartialLimitError, named_error, refuse
from engines.matching.aggregate.aggregates import MatchColumns
from engines.matching.trees.buffers import Buffer, EventNumbers, SelectedEvents
from engines.matching.trees.conditions import value
from engines.matching.trees.evaluation import SharedBuffers, TreeEvaluation
from engines.program import Program, RunContext, TreeUnit
from engines.results.json_text import (
    BoundAliases,
    match_texts,
    object_texts,
    parts,
    repeated,
    with_fixed,
)
from engines.results.tables import match_schema
from optimizer.ir.query import Construction, Pattern, Query, waits
from optimizer.ir.query import events as components
from optimizer.plan.compile_tree import ReadingTree
from optimizer.plan.join_operators import Operator
from optimizer.plan.plan import Device
from workloads import syntax as ex
from workloads.errors import TooLargeError, UnsupportedError


def match_tables_of(
    query: Query,
    pattern: Pattern,
    aliases: tuple[str, ...],
    picked: SelectedEvents,
    width: int,
    matches: Buffer,
) -> list[pa.Table]:
    """The rows of matches of one OR-free reading of a query's pattern."""
    groups = [column for column in matches.columns if isinstance(column, EventGroups)]
    singles = len(aliases) - len(groups)
    return [
        _table(query, pattern, aliases, picked, width, _part(matches, rows))
        for rows in parts(len(matches), singles, groups)
    ]


def _part(matches: Buffer, rows: Rows) -> Buffer:
    return matches if len(rows) == len(matches) else matches.take(rows)


def _table(
    query: Query,
    pattern: Pattern,
    aliases: tuple[str, ...],
    picked: SelectedEvents,
    width: int,
    matches: Buffer,
) -> pa.Table:
    assert isinstance(query.output, Construction)
    events = picked.columns.events
    start, end = picked.ticks(matches.first), picked.ticks(matches.last)
    ticks = end
    if waits(pattern):
        ticks = _closing(picked, matches.first, width) if picked.layout else start + width
    columns = {
        "query": repeated(query.name, len(matches)),
        "key": with_fixed(_keys(picked, matches.first), query),
        "start": events.times(start),
        "end": events.times(end),
        "time": events.times(ticks),
        "match": match_texts(query.output, _bound(aliases, picked, matches), picked.columns),
    }
    return pa.table(columns, schema=match_schema(events.time_type))


def _closing(picked: SelectedEvents, first: EventNumbers, width: int) -> Rows:
    """The time of the event whose rank closes a window, or else of the partition's last one."""
    layout = picked.layout
    assert layout is not None
    rows = picked.used[first]
    partition = layout.partition[rows]
    closing = layout.rows_until(partition, layout.position[rows] + width - 1)
    ticks: Rows = layout.ticks[np.minimum(closing, layout.starts[partition + 1] - 1)]
    return ticks


def _keys(picked: SelectedEvents, places: EventNumbers) -> pa.Array:
    """The key of each match as JSON: as the first event of its partition spells it."""
    if not picked.key:
        return pa.nulls(len(places), pa.string())
    used, place = np.unique(picked.row[places], return_inverse=True)
    if any(pa.types.is_floating(picked.columns.events.column(n).type) for n in picked.key):
        # Zeros of both signs are one key.
        codes, known = partition_codes(picked.columns.events, picked.key)
        assert codes is not None
        rows = np.arange(len(codes)) if known is None else np.flatnonzero(known)
        spelled, first = np.unique(codes[rows], return_index=True)
        used = rows[first[np.searchsorted(spelled, codes[used])]]
    return object_texts(used, picked.key, picked.columns.events).take(pa.array(place))


def _bound(aliases: tuple[str, ...], picked: SelectedEvents, matches: Buffer) -> BoundAliases:
    numbers = {alias: str(i) for i, alias in enumerate(aliases)}
    columns: dict[str, Rows | EventGroups] = {}
    for alias, column in zip(aliases, matches.columns, strict=True):
        if isinstance(column, EventGroups):
            columns[alias] = EventGroups(column.offsets, picked.row[column.rows])
        else:
            columns[alias] = picked.row[column]

    def of(expression: ex.Expression) -> Vector:
        return value(ex.rename(expression, numbers), picked, matches)

    return BoundAliases(len(matches), columns, of)


# The rows of an aggregate query from its matches.
AggregateMatches = Callable[[Query, Iterable[MatchColumns]], pa.Table]


def tree_tables(
    units: Sequence[TreeUnit],
    columns: Columns,
    program: Program,
    context: RunContext,
    aggregate: AggregateMatches,
) -> dict[str, pa.Table]:
    """The rows of the queries of tree units, by name.

    A query that trees cannot hold in memory is left out, and the context says so; so is one that is
    stopped at a limit.
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
    found: dict[str, pa.Table] = {}
    for (key, ranked, device), some in together.items():
        queries = [query for unit in some for query in unit.queries]
        symbols = dict.fromkeys(e.symbol for query in queries for e in components(query.pattern))
        kernels = DeviceKernels(context.device_of(device))
        width = max(widths[query.name] for query in queries)
        account, operator = context.account, program.ids.partition(key, ranked)
        try:
            with account.charge(operator):
                picked = SelectedEvents(columns, key, ranked, symbols, width, kernels)
        except UnsupportedError as error:
            for query in queries:
                _fall_back(context, query, str(error))
            continue
        account.count(operator, len(columns.events), len(picked))
        for symbol in symbols:
            account.count(program.ids.events(symbol, queries[0]), 0, len(picked.of(symbol)))
        planned = {
            query.name: unit.trees[query.name]
            for unit in some
            if unit.trees is not None
            for query in unit.queries
        }
        with account.charge(operator):  # whose events say which trees are the cheapest
            adaptive = context.options.adaptive and not context.is_whole
            trees = planned
            if adaptive or len(planned) < len(queries):
                plans = context.adaptive_plans()
                trees = plans.trees(queries, planned, picked, widths, program.sharing, adaptive)
            group = _Group(queries, trees, picked, widths, program, context, aggregate)
        found |= group.tables()
    return found


def _fall_back(context: RunContext, query: Query, why: str) -> None:
    context.fallbacks.add(f"{query.name}: binds one component after the other: {why}")


class _Group:
    """Queries over the same events; those of one window share what is equal in their trees."""

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
        self._shared: dict[Hashable, SharedBuffers] = {}
        self._ids: dict[str, dict[Operator, str]] = {}
        for query in queries:
            ids = self._ids[query.name] = {}
            for tree in trees[query.name]:
                ids |= program.ids.joins(query, tree)
                self._buffers(query).announce(tree.compiled.operator)

    def _buffers(self, query: Query) -> SharedBuffers:
        place = self._widths[query.name] if self._program.sharing else query.name
        return self._shared.setdefault(place, SharedBuffers())

    def tables(self) -> dict[str, pa.Table]:
        context, found = self._context, {}
        for i, query in enumerate(self._queries):
            own = self._buffers(query)
            evaluation = TreeEvaluation(
                self._picked,
                self._widths[query.name],
                query.name,
                context,
                own,
                self._ids[query.name],
            )
            output = self._program.outputs[query.name]
            try:
                with context.account.charge(output):
                    if isinstance(query.output, Construction):
                        table = self._rows(query, evaluation)
                    else:
                        table = self._aggregate(query, self._found(query, evaluation))
            except TooLargeError:
                raise
            except UnsupportedError as error:
                _fall_back(context, query, str(error))
                continue
            except PartialLimitError as error:
                context.ledger.stopped[query.name] = str(error)
                left = [q for q in self._queries[i + 1 :] if self._buffers(q) is own]
                own.renew(t.compiled.operator for q in left for t in self._trees[q.name])
                continue
            found[query.name] = table
            context.account.count(output, evaluation.matched, table.num_rows)
        return found

    def _rows(self, query: Query, evaluation: TreeEvaluation) -> pa.Table:
        limits, picked, width = self._context.limits, self._picked, evaluation.width
        tables = [match_schema(picked.columns.events.time_type).empty_table()]
        for tree in self._trees[query.name]:
            operator, aliases, _ = tree.compiled
            for matches in evaluation.matches(operator):
                if evaluation.matched > limits.results:
                    refuse(query.name, f"it has more than {limits.results:,} matches")
                tables += match_tables_of(query, tree.pattern, aliases, picked, width, matches)
        return pa.concat_tables(tables)

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
