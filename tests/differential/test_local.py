"""The local engine gives what the reference gives, on random queries and streams."""

from collections import Counter
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from engines.input.event_table import Events, from_table
from engines.limits import Limits
from engines.reference.oracle import run_oracle
from engines.results.tables import Results
from optimizer.ir import pattern as ir
from optimizer.ir.query import (
    Aggregate,
    Aggregation,
    BoundWorkload,
    Construction,
    ReturnAlias,
    ReturnAttribute,
    ReturnItem,
)
from optimizer.rewrite.normalize import normalize
from tests.running import How, run_local
from tests.strategies import SHAPE, Row, has_sequence, queries_with_rows
from workloads import expressions as ex
from workloads.errors import UnsupportedError

COLUMNS = {"ts": pa.int64(), "kind": pa.string(), "k": pa.int64(), "x": pa.int64(), "y": pa.int64()}

# Few types and no conditions on single events: many matches.
DENSE = replace(SHAPE, types=("A", "B"), local=False, constants=False)
# A chunk so small that every join comes in many parts, and searches by value wherever possible.
SMALL_CHUNKS = Limits(chunk=2, search=0)

Case = tuple[BoundWorkload, list[Row]]


def events_of(workload: BoundWorkload, rows: list[Row]) -> Events:
    columns = COLUMNS | ({"seq": pa.int64()} if has_sequence(workload) else {})
    return from_table(pa.Table.from_pylist(rows, pa.schema(columns)), workload.stream)


def multiset(results: Results) -> tuple[Counter[Any], Counter[Any]]:
    """Rows without their order; sums of integers are exact, so values are compared as they are."""
    return (
        Counter(tuple(row.values()) for row in results.aggregates.to_pylist()),
        Counter(tuple(row.values()) for row in results.matches.to_pylist()),
    )


def check(workload: BoundWorkload, rows: list[Row], limits: Limits | None = None) -> Results:
    events = events_of(workload, rows)
    expected = run_oracle(workload, events)
    found = run_local(workload, events, limits or Limits(), how=How(counting=False))
    assert multiset(found) == multiset(expected)
    return expected


def projected(case: Case) -> st.SearchStrategy[Case]:
    """The same with a `Proj` somewhere in the pattern, and an output of what it keeps."""
    workload, rows = case
    query = workload.queries[0]
    nodes = [n for n in ir.walk(query.pattern) if _can_be_projected(n, query.pattern)]
    if not nodes:
        return st.just(case)

    def wrap(node: ir.Pattern, kept: frozenset[str]) -> Case:
        hidden = frozenset(e.alias for e in ir.positive_events(node)) - kept
        pattern = ir.transform(query.pattern, lambda n: ir.Proj(kept, n) if n is node else n)
        visible = [e.alias for e in ir.positive_events(query.pattern) if e.alias not in hidden]
        output: Aggregation | Construction
        if isinstance(query.output, Construction):
            items: tuple[ReturnItem, ...] = tuple(
                item
                for item in query.output.items
                if isinstance(item, ReturnAlias | ReturnAttribute) and item.alias in visible
            )
            output = Construction(items or (ReturnAlias(visible[0]),))
        else:
            aggregates = tuple(
                item
                for item in query.output.items
                if item.operand is None or ex.aliases(item.operand) <= set(visible)
            )
            output = Aggregation(aggregates or (Aggregate("count", None, "COUNT(*)"),))
        changed = replace(query, pattern=pattern, output=output)
        return replace(workload, queries=(changed,)), rows

    def keep(node: ir.Pattern) -> st.SearchStrategy[Case]:
        names = sorted({e.alias for e in ir.positive_events(node)})
        chosen = st.sets(st.sampled_from(names), min_size=1, max_size=len(names))
        return chosen.map(lambda kept: wrap(node, frozenset(kept)))

    return st.sampled_from(nodes).flatmap(keep)


def _can_be_projected(node: ir.Pattern, pattern: ir.Pattern) -> bool:
    """Positive, and without an OR, so that something is kept whichever part matches."""
    positive = {e.alias for e in ir.positive_events(pattern)}
    mine = {e.alias for e in ir.positive_events(node)}
    is_or_free = not any(isinstance(inner, ir.Or) for inner in ir.walk(node))
    return not isinstance(node, ir.Neg) and is_or_free and bool(mine) and mine <= positive


@given(queries_with_rows())
@settings(max_examples=250)
def test_any_query(case: Case) -> None:
    check(*case)


@given(queries_with_rows(DENSE))
@settings(max_examples=150)
def test_queries_with_many_matches(case: Case) -> None:
    check(*case)


@given(queries_with_rows(DENSE))
@settings(max_examples=100)
def test_joins_in_small_chunks(case: Case) -> None:
    check(*case, limits=SMALL_CHUNKS)


@given(queries_with_rows(DENSE))
@settings(max_examples=100)
def test_doubles_and_integers_that_overflow(case: Case) -> None:
    workload, rows = case
    table = events_of(workload, rows).table
    columns = {name: table.column(name) for name in table.column_names}
    columns["x"] = pc.multiply(columns["x"].cast(pa.float64()), 0.1)
    columns["y"] = pc.multiply(columns["y"], 2**61)
    events = from_table(pa.table(columns), workload.stream)
    try:
        found = run_local(workload, events, how=How(counting=False))
    except UnsupportedError as error:  # such as SUM(a.y * 3), which no 64 bits hold
        assert "an aggregated value is a whole number beyond 64 bits" in str(error)  # noqa: PT017
        assume(False)
    assert multiset(found) == multiset(run_oracle(workload, events))


@given(queries_with_rows(DENSE).flatmap(projected))
@settings(max_examples=150)
def test_components_that_only_have_to_exist(case: Case) -> None:
    check(*case)


@given(queries_with_rows(DENSE))
@settings(max_examples=100)
def test_queries_in_normal_form(case: Case) -> None:
    workload, rows = case
    events = events_of(workload, rows)
    rewritten = tuple(normalize(query).rewritten for query in workload.queries)
    found = run_local(replace(workload, queries=rewritten), events, how=How(counting=False))
    assert multiset(found) == multiset(run_oracle(workload, events))
