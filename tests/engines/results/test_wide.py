"""Rows of a query by themselves: keys have the types of what they are made of."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import sheaf

EVENTS = pa.table(
    {
        "ts": [1, 2, 3, 4],
        "kind": ["A", "B", "A", "B"],
        "k": pa.array([7, 1, 8, 2], pa.int32()),
        "x": pa.array([1, 7, 1, 8], pa.int64()),
        "name": ["u", "u", "v", "v"],
        "s": [{"id": n} for n in (7, 7, 8, 8)],
        "all": [[7], [7, 8], [9], [9]],
    }
)


def run(*queries: str) -> sheaf.Results:
    texts = [f"QUERY q{place} {text}" for place, text in enumerate(queries)]
    stream = {"time": "ts", "unit": "s", "type": "kind"}
    return sheaf.load({"name": "w", "stream": stream, "queries": texts}).plan(EVENTS).run(EVENTS)


@pytest.mark.parametrize(
    ("key", "kind", "values"),
    [
        ("(a.k, b.x) AS id", pa.int64(), [7, 8]),  # of two widths
        ("(a.s.id, b.x) AS id", pa.int64(), [7, 8]),
        ("(a.all, b.all) AS id", pa.int64(), [7, 9]),
        ("(a.x, b.k) AS name", pa.int64(), [1]),  # the name of a column of texts
        ("name", pa.string(), ["u", "v"]),
    ],
)
def test_a_key_has_the_type_of_its_columns(key: str, kind: pa.DataType, values: list[Any]) -> None:
    table = run(f"PATTERN SEQ(A a, B b) PARTITION BY {key} AGG COUNT(*) WITHIN 2 s")["q0"]
    name = key.split()[-1]
    assert table.schema.field(name).type == kind
    assert sorted(table[name].to_pylist()) == values


def test_a_group_has_the_type_of_its_column() -> None:
    results = run(
        "PATTERN SEQ(A a, B b) AGG COUNT(*) GROUP BY b.x AS own INTO N WITHIN 2 s",
        "PATTERN N n PARTITION BY own AGG COUNT(*) WITHIN 2 s",
    )
    assert results["q0"]["own"].to_pylist() == [7, 8]
    assert results.aggregates["key"].to_pylist() == ['{"own":7}', '{"own":8}'] * 2


def test_a_value_that_a_query_made_is_a_key_as_text() -> None:
    """No column says its type."""
    results = run(
        "PATTERN SEQ(A a, B b) RETURN a.x + b.x AS total INTO Pair WITHIN 2 s",
        "PATTERN Pair p PARTITION BY total AGG COUNT(*) WITHIN 9 s",
    )
    assert results["q1"]["total"].to_pylist() == ["8", "9"]


def test_a_name_of_two_types_is_a_text_where_rows_stand_together() -> None:
    from engines.results.wide import key_type, keys_of
    from optimizer.bind.binder import load_bound

    workload = load_bound(
        {
            "stream": {"time": "ts", "type": "kind"},
            "queries": [
                "PATTERN SEQ(A a, B b) PARTITION BY (a.k, b.x) AS name RETURN a WITHIN 2 ms",
                "PATTERN SEQ(A a, B b) PARTITION BY name RETURN a WITHIN 2 ms",
            ],
        }
    )
    kind = key_type(workload.queries, EVENTS.schema)
    assert kind == pa.struct([("name", pa.string())])
    keys = keys_of(pa.chunked_array([['{"name": 7}', '{"name": "u"}', None]]), kind)
    assert keys.to_pylist() == [{"name": "7"}, {"name": "u"}, None]


SQL = (
    "SELECT name, found, {var}, time FROM t MATCH_RECOGNIZE (PARTITION BY name ORDER BY ts "
    "MEASURES {measure} AS found, CLASSIFIER() AS {var}, LAST(k) AS time "
    "PATTERN (X Y) DEFINE X AS kind = '{kind}') AS m"
)


USUAL = {"kind": "A", "measure": "FIRST(x)", "var": "var"}


def run_sql(**given: str) -> pa.Table:
    queries = [{"name": "q", "sql": SQL.format(**USUAL | given)}]
    stream = {"time": "ts", "unit": "s", "type": "kind"}
    counted = "QUERY c PATTERN SEQ(A a, B b) RETURN a.x WITHIN 2 s"
    workload = sheaf.load({"name": "w", "stream": stream, "queries": [*queries, counted]})
    results = workload.plan(EVENTS).run(EVENTS)
    assert results["c"]["a_x"].to_pylist() == [1, 1]  # beside SQL, others are as ever
    return results["q"]


def test_measures_of_sql_are_columns_with_the_types_of_their_values() -> None:
    table = run_sql().sort_by("name_")
    assert table.column_names == ["name", "start", "end", "time", "name_", "found", "var", "time_"]
    assert table.select(["name", "found", "var", "time_"]).to_pylist() == [
        {"name": "u", "found": 1, "var": "Y", "time_": 1},
        {"name": "v", "found": 1, "var": "Y", "time_": 2},
    ]


def test_measures_whose_names_differ_from_others_in_case_alone_get_an_underscore() -> None:
    """Spark and DuckDB take `start` and `Start` for one column."""
    names = run_sql(var="Start").column_names
    assert names == ["name", "start", "end", "time", "name_", "found", "Start_", "time_"]


def test_measures_without_a_row_are_columns_too() -> None:
    table = run_sql(kind="C")
    assert (table.num_rows, table.column_names[-3:]) == (0, ["found", "var", "time_"])
