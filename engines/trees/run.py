"""The queries of a workload that are run as trees, those of one key and window together."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import suppress

import pyarrow as pa

from engines.columns.instances import Columns
from engines.device_kernels import CPU, DeviceKernels
from engines.how import How
from engines.joins.aggregates import Found
from engines.joins.scan import Limits, refuse
from engines.partial import Ledger, PartialLimitError
from engines.results import match_schema
from engines.trees.adaptive import Adaptive
from engines.trees.choices import Choice
from engines.trees.evaluation import Counts, Evaluation, Shared
from engines.trees.picked import Picked
from engines.trees.rows import match_tables_of
from optimizer.ir.pattern import events as components
from optimizer.ir.query import Construction, Query
from optimizer.trees.refusal import refusal
from workloads.errors import TooLargeError, UnsupportedError

# The rows of an aggregate query from its matches.
Aggregate = Callable[[Query, Iterable[Found]], pa.Table]


def tree_tables(
    queries: Sequence[Query],
    columns: Columns,
    limits: Limits,
    how: How,
    aggregate: Aggregate,
    counts: Counts | None = None,
    adaptive: Adaptive | None = None,
    ledger: Ledger | None = None,
) -> dict[str, pa.Table]:
    """The rows of the queries that are run as trees, by name.

    The others are left to `engines.joins`, as are those that it will say an error about. `adaptive`
    has the plans of the batches before. A query that `ledger` says is stopped has no rows.
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
    counts = counts or Counts()
    kernels = DeviceKernels(how) if together else CPU
    for (key, ranked), group in together.items():
        symbols = dict.fromkeys(e.symbol for query in group for e in components(query.pattern))
        try:
            width = max(widths[q.name] for q in group)
            picked = Picked(columns, key, ranked, symbols, width, kernels)
        except UnsupportedError:
            continue
        found |= _run_group(
            group,
            picked,
            widths,
            limits,
            how,
            aggregate,
            counts,
            adaptive or Adaptive(),
            ledger or Ledger(),
        )
    return found


def _run_group(
    queries: Sequence[Query],
    picked: Picked,
    widths: dict[str, int],
    limits: Limits,
    how: How,
    aggregate: Aggregate,
    counts: Counts,
    adaptive: Adaptive,
    ledger: Ledger,
) -> dict[str, pa.Table]:
    """Queries over the same events; those of one window share what is equal in their plans."""
    plans = adaptive.plans(queries, picked, widths, how)
    shared: dict[Hashable, Shared] = {}

    def buffers(query: Query) -> Shared:
        return shared.setdefault(widths[query.name] if how.sharing else query.name, Shared())

    for query in queries:
        for choice in plans[query.name]:
            buffers(query).announce(choice.compiled.operator)
    found: dict[str, pa.Table] = {}
    for i, query in enumerate(queries):
        width, own = widths[query.name], buffers(query)
        evaluation = Evaluation(picked, width, query.name, limits, own, counts, how.partial, ledger)
        try:
            if isinstance(query.output, Construction):
                found[query.name] = _rows(query, plans[query.name], evaluation)
            else:
                found[query.name] = aggregate(query, _found(plans[query.name], evaluation))
        except TooLargeError:
            raise
        except UnsupportedError:
            continue
        except PartialLimitError as error:
            ledger.stopped[query.name] = str(error)
            left = [other for other in queries[i + 1 :] if buffers(other) is own]
            own.renew(c.compiled.operator for other in left for c in plans[other.name])
    return found


def _rows(query: Query, choices: list[Choice], evaluation: Evaluation) -> pa.Table:
    found = 0
    limits, picked, width = evaluation.limits, evaluation.picked, evaluation.width
    tables = [match_schema(picked.columns.events.time_type).empty_table()]
    for choice in choices:
        operator, aliases = choice.compiled
        for matches in evaluation.matches(operator):
            found += len(matches)
            if found > limits.results:
                refuse(query.name, f"it has more than {limits.results:,} matches")
            tables += match_tables_of(query, choice.pattern, aliases, picked, width, matches)
    return pa.concat_tables(tables)


def _found(choices: list[Choice], evaluation: Evaluation) -> Iterator[Found]:
    """The matches of a query that aggregates them."""
    row = evaluation.picked.row
    for choice in choices:
        operator, aliases = choice.compiled
        for matches in evaluation.matches(operator):
            columns = dict(zip(aliases, matches.columns, strict=True))
            ends = [
                None if moments is None else evaluation.picked.at(moments)
                for moments in (matches.earliest, matches.latest)
            ]
            yield Found(row, matches.first, matches.last, columns, *ends)
