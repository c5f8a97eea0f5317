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


class JointTables:
    """The result rows of queries; those that do nothing but count matches have one table."""

    def __init__(self, queries: Sequence[Query]) -> None:
        self._queries = queries
        self._alike: dict[tuple[str, bool], list[int]] = {}  # queries by what they count
        self._others: list[int] = []
        for q, query in enumerate(queries):
            if (text := _count_alone(query)) is None:
                self._others.append(q)
            else:
                self._alike.setdefault((text, query.slide is None), []).append(q)

    def tables(
        self,
        counted: CountResult,
        places: ResultColumns,
        account: Account,
        outputs: Mapping[str, str] | None = None,
    ) -> Iterator[tuple[tuple[Query, ...], pa.Table]]:
        """The rows of some results of the queries, and whose they are."""
        queries, ends = self._queries, counted.ends.tolist()
        operators = [(outputs or {}).get(query.name, query.name) for query in queries]
        for q in self._others:
            first, end = ends[q], ends[q + 1]
            found = query_tables(queries[q], first, end, counted, places, account, operators[q])
            yield from (((queries[q],), table) for table in found)
        sizes = np.diff(counted.ends)
        for (text, _), members in self._alike.items():
            own = sizes[members].tolist()
            account.count_each((operators[q] for q in members), own)
            given = [q for q, size in zip(members, own, strict=True) if size]
            if not given:
                continue
            begun = time.thread_time_ns()
            with account.charge(operators[given[0]]):
                table = _table([queries[q] for q in given], text, counted, given, places)
                spent = time.thread_time_ns() - begun
            for q in given:  # each its share
                account.spend(operators[q], spent * (ends[q + 1] - ends[q]) // table.num_rows)
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
