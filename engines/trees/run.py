"""The queries of a workload that are run as trees, those of one key and window together."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import NamedTuple

import pyarrow as pa

from engines.columns.instances import Columns
from engines.how import How
from engines.joins.aggregates import Found
from engines.joins.scan import Limits, refuse
from engines.results import match_schema
from engines.trees.common import Reading, common_trees
from engines.trees.compile import Compiled, compile_tree
from engines.trees.device import CPU, join_kernels
from engines.trees.evaluation import Counts, Evaluation, Shared
from engines.trees.picked import Picked
from engines.trees.planning import choose_tree, statistics_of
from engines.trees.rows import match_tables_of
from optimizer.ir.alternatives import alternatives
from optimizer.ir.pattern import Pattern
from optimizer.ir.pattern import events as components
from optimizer.ir.query import Construction, Query
from optimizer.trees import Shape
from optimizer.trees.refusal import refusal
from workloads.errors import TooLargeError, UnsupportedError


class Choice(NamedTuple):
    """One OR-free reading of a query's pattern, and the operators that find its matches."""

    pattern: Pattern
    compiled: Compiled


# The rows of an aggregate query from its matches.
Aggregate = Callable[[Query, Iterable[Found]], pa.Table]


def tree_tables(
    queries: Sequence[Query],
    columns: Columns,
    limits: Limits,
    how: How,
    aggregate: Aggregate,
    counts: Counts | None = None,
) -> dict[str, pa.Table]:
    """The rows of the queries that are run as trees, by name.

    The others are left to `engines.joins`, as are those that it will say an error about.
    """
    if how.detection == "joins":
        return {}
    together: dict[tuple[tuple[str, ...], bool], list[Query]] = {}
    widths: dict[str, int] = {}
    for query in queries:
        if refusal(query) is None:
            with suppress(UnsupportedError):
                widths[query.name] = query.window.ticks(columns.events.tick)
                together.setdefault((query.key, query.window.is_count), []).append(query)
    found: dict[str, pa.Table] = {}
    kernels = join_kernels(how) if together else CPU
    for (key, ranked), group in together.items():
        symbols = dict.fromkeys(e.symbol for query in group for e in components(query.pattern))
        try:
            width = max(widths[q.name] for q in group)
            picked = Picked(columns, key, ranked, symbols, width, kernels)
        except UnsupportedError:
            continue
        found |= _run_group(group, picked, widths, limits, how, aggregate, counts or Counts())
    return found


def _run_group(
    queries: Sequence[Query],
    picked: Picked,
    widths: dict[str, int],
    limits: Limits,
    how: How,
    aggregate: Aggregate,
    counts: Counts,
) -> dict[str, pa.Table]:
    """Queries over the same events; those of one window share what is equal in their plans."""
    assert how.detection != "joins"
    plans = plan_queries(queries, picked, widths, how.detection, how.sharing)
    shared: dict[Hashable, Shared] = {}

    def buffers(query: Query) -> Shared:
        return shared.setdefault(widths[query.name] if how.sharing else query.name, Shared())

    for query in queries:
        for choice in plans[query.name]:
            buffers(query).announce(choice.compiled.operator)
    found: dict[str, pa.Table] = {}
    for query in queries:
        width = widths[query.name]
        evaluation = Evaluation(picked, width, query.name, limits, buffers(query), counts)
        try:
            if isinstance(query.output, Construction):
                found[query.name] = _rows(query, plans[query.name], evaluation)
            else:
                found[query.name] = aggregate(query, _found(plans[query.name], evaluation))
        except TooLargeError:
            raise
        except UnsupportedError:
            continue
    return found


def plan_queries(
    queries: Sequence[Query],
    picked: Picked,
    widths: dict[str, int],
    shape: Shape,
    sharing: bool,
) -> dict[str, list[Choice]]:
    """A tree for each OR-free reading of each query's pattern, as operators.

    With `sharing`, queries of one window get the pieces that they have in common.
    """
    statistics = statistics_of(picked)
    together: dict[Hashable, list[Reading]] = {}
    for query in queries:
        for pattern in alternatives(query.pattern):
            group = widths[query.name] if sharing else query.name
            together.setdefault(group, []).append(Reading.of(query, pattern))
    plans: dict[str, list[Choice]] = {query.name: [] for query in queries}
    for readings in together.values():
        if sharing and shape == "bushy" and len(readings) > 1:
            trees = common_trees(readings, statistics)
        else:
            trees = [choose_tree(reading.asked, statistics, shape) for reading in readings]
        for (query, pattern, _), tree in zip(readings, trees, strict=True):
            compiled = compile_tree(tree, pattern, query.conditions)
            plans[query.name].append(Choice(pattern, compiled))
    return plans


def _rows(query: Query, choices: list[Choice], evaluation: Evaluation) -> pa.Table:
    found = 0
    limits, picked, width = evaluation.limits, evaluation.picked, evaluation.width
    tables = [match_schema(picked.columns.events.time_type).empty_table()]
    for pattern, (operator, aliases) in choices:
        for matches in evaluation.matches(operator):
            found += len(matches)
            if found > limits.results:
                refuse(query.name, f"it has more than {limits.results:,} matches")
            tables += match_tables_of(query, pattern, aliases, picked, width, matches)
    return pa.concat_tables(tables)


def _found(choices: list[Choice], evaluation: Evaluation) -> Iterator[Found]:
    """The matches of a query that aggregates them."""
    row = evaluation.picked.row
    for _, (operator, aliases) in choices:
        for matches in evaluation.matches(operator):
            columns = dict(zip(aliases, matches.columns, strict=True))
            yield Found(row, matches.first, matches.last, columns)
