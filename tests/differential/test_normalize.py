"""The forms of a query give the same rows, in the reference and in the local engine."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engines.input.event_table import Events, from_table
from engines.reference.oracle import run_oracle
from engines.results.tables import Results
from optimizer.bind.binder import load_bound
from optimizer.ir.query import BoundWorkload
from optimizer.rewrite.normalize import alternative_forms, normalize_workload
from tests.running import How, run_local
from tests.strategies import (
    SHAPE,
    Row,
    constants_with_rows,
    has_sequence,
    queries_with_rows,
)
from workloads import bundled
from workloads.errors import TooLargeError
from workloads.generators import generate_table

Case = tuple[BoundWorkload, list[Row]]
COLUMNS = {
    "ts": pa.int64(),
    "seq": pa.int64(),
    "kind": pa.string(),
    "k": pa.int64(),
    "m": pa.string(),
    "x": pa.int64(),
    "y": pa.int64(),
}
# Few types and few other conditions: most queries match something.
DENSE = replace(
    SHAPE,
    types=("A", "B"),
    max_components=4,
    local=False,
    ties=False,
    group_conditions=False,
    constants=False,
    having=False,
)
NESTED = replace(SHAPE, local=False, constants=False)


def events_of(workload: BoundWorkload, rows: list[Row]) -> Events:
    left_out = set() if has_sequence(workload) else {"seq"}
    left_out |= COLUMNS.keys() - {"seq"} - rows[0].keys()
    schema = pa.schema([(name, kind) for name, kind in COLUMNS.items() if name not in left_out])
    return from_table(pa.Table.from_pylist(rows, schema), workload.stream)


def multiset(results: Results) -> tuple[Counter[Any], Counter[Any]]:
    return (
        Counter(tuple(row.values()) for row in results.aggregates.to_pylist()),
        Counter(tuple(row.values()) for row in results.matches.to_pylist()),
    )


def same_rows(workload: BoundWorkload, others: list[BoundWorkload], rows: list[Row]) -> None:
    if not rows:
        return
    events = events_of(workload, rows)
    try:
        expected = multiset(run_oracle(workload, events))
        for other in others:
            assert multiset(run_oracle(other, events)) == expected
            assert multiset(run_local(other, events)) == expected
            assert multiset(run_local(other, events, how=How(counting=False))) == expected
    except TooLargeError:
        pass


@settings(max_examples=120)
@given(st.one_of(queries_with_rows(), queries_with_rows(NESTED, nested=True)))
def test_a_planning_form_gives_the_rows_of_the_query_as_written(case: Case) -> None:
    workload, rows = case
    same_rows(workload, [normalize_workload(workload)], rows)


@settings(max_examples=150)
@given(st.one_of(constants_with_rows(DENSE), constants_with_rows()))
def test_constants_that_are_carried_change_no_row(case: Case) -> None:
    workload, rows = case
    same_rows(workload, [normalize_workload(workload)], rows)


@settings(max_examples=120)
@given(st.one_of(queries_with_rows(NESTED, nested=True), queries_with_rows()))
def test_all_forms_give_the_same_rows(case: Case) -> None:
    workload, rows = case
    forms = alternative_forms(workload.queries[0], workload.stream)
    same_rows(workload, [replace(workload, queries=(form.query,)) for form in forms[1:]], rows)


def test_the_strategies_reach_fixed_keys_constants_and_each_form_with_rows() -> None:
    """A property that no example can falsify is worth nothing."""
    seen: Counter[Any] = Counter()

    @settings(max_examples=400, derandomize=True, database=None)
    @given(st.one_of(constants_with_rows(DENSE), queries_with_rows(NESTED, nested=True)))
    def collect(case: Case) -> None:
        workload, rows = case
        query = normalize_workload(workload).queries[0]
        try:
            found = run_oracle(workload, events_of(workload, rows)) if rows else None
        except TooLargeError:
            return
        if found is None or not (found.aggregates.num_rows or found.matches.num_rows):
            return
        seen["fixed key"] += bool(query.fixed_key)
        for form in alternative_forms(query, workload.stream)[1:]:
            seen.update(form.rules)

    collect()
    assert min(seen[name] for name in ("fixed key", "distribute", "push-down", "negated-and")) > 0


# --- bundled workloads ---------------------------------------------------------------------------


@pytest.mark.parametrize("name", bundled.names())
def test_a_bundled_workload_gives_the_rows_that_it_gives_as_written(name: str) -> None:
    workload = load_bound(bundled.path(name))
    events = from_table(generate_table(bundled.stream(name, 20_000)), workload.stream)
    written = multiset(run_local(workload, events))
    assert multiset(run_local(normalize_workload(workload), events)) == written
    assert sum(map(Counter.total, written)) > 800


def test_the_shops_query_of_one_model_gives_the_references_rows_by_user_alone() -> None:
    shop = load_bound(bundled.path("shop"))
    written = replace(shop, queries=(shop.query("touch_case"),))
    planned = normalize_workload(written)
    assert (written.queries[0].key, planned.queries[0].key) == (("user", "model"), ("user",))
    table = generate_table(bundled.stream("shop", 2_000))
    # Few users, so that each of them clicks often enough.
    place = table.column_names.index("user")
    users = pc.utf8_slice_codeunits(table.column("user"), 0, 2)
    events = from_table(table.set_column(place, "user", users), shop.stream)
    expected = run_oracle(written, events)
    assert multiset(run_local(planned, events)) == multiset(expected)
    keys = set(expected.aggregates.column("key").to_pylist())
    assert '{"user":"u1","model":"touch"}' in keys
