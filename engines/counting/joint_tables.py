"""Result rows of many queries in one table, where each query has few at a time.

A batch of a live stream has some rows of each of its queries. A table for each takes longer to make
than the rows.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa

from engines.account import Account
from engines.counting.letters import CountResult
from engines.counting.rows import ResultColumns, query_tables
from engines.results.json_text import encoded
from engines.results.tables import aggregate_schema, coded_schema, one_text
from optimizer.ir.query import Aggregation, Query


def joint_tables(
    queries: Sequence[Query],
    counted: CountResult,
    places: ResultColumns,
    account: Account,
    outputs: Mapping[str, str] | None = None,
) -> Iterator[tuple[tuple[Query, ...], pa.Table]]:
    """The result rows of queries; those that do nothing but count matches have one table."""
    operators = [(outputs or {}).get(query.name, query.name) for query in queries]
    sizes, ends = np.diff(counted.ends).tolist(), counted.ends.tolist()
    alike: dict[tuple[str, bool], list[int]] = {}
    for q, query in enumerate(queries):
        if (text := _count_alone(query)) is None:
            found = query_tables(
                query, ends[q], ends[q + 1], counted, places, account, operators[q]
            )
            yield from (((query,), table) for table in found)
            continue
        account.count(operators[q], sizes[q], sizes[q])
        if sizes[q]:
            alike.setdefault((text, query.slide is None), []).append(q)
    for (text, _), given in alike.items():
        begun = time.thread_time_ns()
        with account.charge(operators[given[0]]):
            table = _table([queries[q] for q in given], text, counted, given, places)
            spent = time.thread_time_ns() - begun
        for q in given:  # each its share
            account.spend(operators[q], spent * sizes[q] // table.num_rows)
        account.spend(operators[given[0]], -spent)
        yield tuple(queries[q] for q in given), table


def _count_alone(query: Query) -> str | None:
    """The aggregate as it is written, if rows are nothing but the numbers of matches."""
    output = query.output
    assert isinstance(output, Aggregation)
    if output.having is not None or len(output.items) != 1 or query.fixed_key:
        return None
    (item,) = output.items
    return item.text if item.operand is None else None


def _table(
    queries: Sequence[Query],
    text: str,
    counted: CountResult,
    numbers: Sequence[int],
    places: ResultColumns,
) -> pa.Table:
    sizes = np.diff(counted.ends)[numbers]
    starts = np.repeat(counted.ends[numbers] - np.cumsum(sizes) + sizes, sizes)
    rows = starts + np.arange(int(sizes.sum()))
    names = pa.array([query.name for query in queries], pa.string())
    query = np.repeat(np.arange(len(queries), dtype=np.int32), sizes)
    exact = counted.exact[rows]
    columns = {
        "query": pa.DictionaryArray.from_arrays(query, names),
        "key": encoded(places.key(rows)),
        "time": places.time(rows, queries[0]),
        "seq": places.seq(rows, queries[0]),
        "aggregate": one_text(text, len(rows)),
        "value": pa.array(counted.approximate[rows]),
        "count": pa.array(counted.counts[rows].view(np.int64), mask=~exact),
        "exact": pa.array(exact),
    }
    schema = aggregate_schema(places.columns.events.time_type)
    return pa.table(columns, schema=coded_schema(schema))
