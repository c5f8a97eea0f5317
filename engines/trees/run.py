"""The queries of tree units over columns of events, those of one key together."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence

import pyarrow as pa

from engines.columns.instances import Columns
from engines.context import RunContext
from engines.device_kernels import DeviceKernels
from engines.errors import named_error
from engines.joins.aggregates import Found
from engines.joins.scan import refuse
from engines.partial import PartialLimitError
from engines.program import Program, TreeUnit
from engines.results import match_schema
from engines.trees.evaluation import Evaluation, Shared
from engines.trees.picked import Picked
from engines.trees.rows import match_tables_of
from optimizer.ir.pattern import events as components
from optimizer.ir.query import Construction, Query
from optimizer.physical.groups import Device
from optimizer.physical.joins import Operator
from optimizer.physical.reading_tree import ReadingTree
from workloads.errors import TooLargeError, UnsupportedError

# The rows of an aggregate query from its matches.
Aggregate = Callable[[Query, Iterable[Found]], pa.Table]


def tree_tables(
    units: Sequence[TreeUnit],
    columns: Columns,
    program: Program,
    context: RunContext,
    aggregate: Aggregate,
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
                picked = Picked(columns, key, ranked, symbols, width, kernels)
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
            trees = context.adaptive.trees(
                queries,
                planned,
                picked,
                widths,
                program.sharing,
                context.options.adaptive and not context.is_whole,
            )
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
        picked: Picked,
        widths: dict[str, int],
        program: Program,
        context: RunContext,
        aggregate: Aggregate,
    ) -> None:
        self._queries, self._trees, self._picked, self._widths = queries, trees, picked, widths
        self._program, self._context, self._aggregate = program, context, aggregate
        self._shared: dict[Hashable, Shared] = {}
        self._ids: dict[str, dict[Operator, str]] = {}
        for query in queries:
            ids = self._ids[query.name] = {}
            for tree in trees[query.name]:
                ids |= program.ids.joins(query, tree)
                self._buffers(query).announce(tree.compiled.operator)

    def _buffers(self, query: Query) -> Shared:
        place = self._widths[query.name] if self._program.sharing else query.name
        return self._shared.setdefault(place, Shared())

    def tables(self) -> dict[str, pa.Table]:
        context, found = self._context, {}
        for i, query in enumerate(self._queries):
            own = self._buffers(query)
            evaluation = Evaluation(
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

    def _rows(self, query: Query, evaluation: Evaluation) -> pa.Table:
        limits, picked, width = self._context.limits, self._picked, evaluation.width
        tables = [match_schema(picked.columns.events.time_type).empty_table()]
        for tree in self._trees[query.name]:
            operator, aliases, _ = tree.compiled
            for matches in evaluation.matches(operator):
                if evaluation.matched > limits.results:
                    refuse(query.name, f"it has more than {limits.results:,} matches")
                tables += match_tables_of(query, tree.pattern, aliases, picked, width, matches)
        return pa.concat_tables(tables)

    def _found(self, query: Query, evaluation: Evaluation) -> Iterator[Found]:
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
                yield Found(row, matches.first, matches.last, columns, *ends)
