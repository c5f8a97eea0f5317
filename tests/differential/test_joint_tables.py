"""Queries of a live stream that only count matches have their rows in one table."""

from __future__ import annotations

from collections import Counter
from unittest import mock

import pytest

from engines.columns.columns import Columns
from engines.columns.layout import ArrangedEvents, arrange
from engines.counting import product
from engines.counting.live import LiveCounter
from engines.input.event_table import from_table
from engines.live.bucket import Bucket
from engines.live.run import Generation
from engines.program import RunContext, RunOptions, bound_program
from optimizer.bind.binder import load_bound
from tests.differential.test_continued import stream
from tests.differential.test_counting import comparable
from tests.running import counting_plan, run_local, unit_of

QUERIES = [
    "QUERY one PATTERN SEQ(A a, B b) AGG COUNT(*)",
    "QUERY many PATTERN SEQ(A a, C c) AGG COUNT(*) HAVING COUNT(*) > 1",
    "QUERY two PATTERN SEQ(B b, C c) AGG COUNT(*)",
    "QUERY none PATTERN SEQ(A a, Z z) AGG COUNT(*)",
    "QUERY sum PATTERN SEQ(A a, C c) AGG SUM(c.x)",
]


def workload_of(queries, slide=""):
    stream = {"time": "ts", "unit": "ms", "type": "kind"}
    texts = [f"{query} PARTITION BY k WITHIN 20 ms{slide}" for query in queries]
    return load_bound({"stream": stream, "queries": texts})


@pytest.mark.parametrize("slide", ["", " SLIDE 7 ms"])
@pytest.mark.parametrize("limit", [None, 10**6])
def test_rows_and_their_accounts_are_those_of_single_tables(limit, slide):
    workload = workload_of(QUERIES, slide)
    table = stream(200)
    events = from_table(table, workload.stream)
    context = RunContext(RunOptions(row_limit=limit))
    counter = LiveCounter([unit_of(workload.queries)], 10**6, context)
    layout = ArrangedEvents(arrange(events, ("k",), False, False), Columns(workload, events))
    found = counter.add(layout, None)
    together = {"one", "two"} if limit is None else set()
    owners = [{query.name for query in queries} for queries, _ in found]
    assert owners.count({"one", "two"}) == bool(together)
    assert all(len(names) == 1 for names in owners if names != together)
    rows = [row for _, part in found for row in part.to_pylist()]
    assert comparable(rows) == comparable(run_local(workload, events).aggregates.to_pylist())
    number = Counter(row["query"] for row in rows)
    account = context.account
    assert {name: account.rows_out[name] for name in ("one", "many", "two", "none", "sum")} == {
        name: number[name] for name in ("one", "many", "two", "none", "sum")
    }
    assert all(nanoseconds >= 0 for nanoseconds in account.nanoseconds.values())


def test_buckets_with_letters_of_their_own_do_not_compile_in_turns():
    workload = workload_of(QUERIES[:1] + QUERIES[2:3])
    table = stream(400)
    kinds = ("AB", "BCD", "ACD")
    parts = [
        table.filter([kind in some for kind in table.column("kind").to_pylist()]) for some in kinds
    ]
    names = [query.name for query in workload.queries]
    program = bound_program(counting_plan(workload, [(names, "product")]), workload)
    bucket = Bucket({"0": Generation(program)}, table.schema, 10**6)
    states = [None] * len(parts)
    with mock.patch.object(product, "compile_steps", wraps=product.compile_steps) as compiled:
        for until in range(20, 200, 20):
            for place, part in enumerate(parts):
                times = part.column("ts").to_pylist()
                arrived = part.filter([until - 20 < time <= until for time in times])
                states[place] = bucket.turn(states[place], [arrived], until - 20, place).state
    assert 1 <= compiled.call_count <= 2 * len(parts)
