"""GROUP BY: what the query gives with one value more asked, for each value; on every engine."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from api.cli.main import app
from engines.input.event_table import from_table
from engines.local.slices import SliceSize
from engines.program import CountingUnit
from engines.reference.oracle import run_oracle
from engines.results.tables import Results
from optimizer.bind.binder import load_bound
from optimizer.ir.query import BoundWorkload
from tests.differential.agreement import check_against_the_reference, check_live, is_run
from tests.differential.test_local import Case, events_of, multiset
from tests.differential.test_slices import cases, check
from tests.running import How, run_local
from tests.strategies import SHAPE, Row, event_rows, queries_with_rows
from workloads.errors import WorkloadError
from workloads.parser import parse_query
from workloads.printing import print_query

GROUPED = replace(
    SHAPE, types=("A", "B", "C"), outputs=("trigger", "slide"), grouped=True, max_components=4,
    constants=False, group_conditions=False,
)  # fmt: skip
COUNTED = replace(GROUPED, ties=False, groups=False, count_windows=False)
SHAPES = st.sampled_from(
    [
        GROUPED,
        COUNTED,
        replace(GROUPED, marks=True, tied_aggregates=True),
        replace(COUNTED, component_keys=True),
        replace(GROUPED, strategies=("strict",)),
        replace(GROUPED, strategies=("next",), operators=("SEQ",), max_depth=2),
    ]
)
STREAM = {"time": "ts", "unit": "ms", "type": "kind", "sequence": "seq"}


@given(
    SHAPES.flatmap(lambda shape: queries_with_rows(shape, 8)).filter(is_run),
    st.booleans(),
    st.sampled_from([How(), How(sharing=False), How(counting=False)]),
)
@settings(max_examples=70)
def test_any_query(case: Case, small: bool, how: How) -> None:
    check_against_the_reference(case, small, how)


several = SHAPES.flatmap(lambda shape: cases(replace(shape, max_window=5), 10)).filter(is_run)


@given(several, st.sampled_from([1, 2, 7]), st.sampled_from([1, 3]))
@settings(max_examples=25, deadline=None)
def test_slices(case: Case, rows: int, batch_rows: int) -> None:
    check(case, SliceSize(rows, False), batch_rows)


timed = st.just(COUNTED).flatmap(lambda shape: cases(replace(shape, max_window=5), 10))


@given(timed.filter(is_run), st.lists(st.integers(-2, 14), max_size=6))
@settings(max_examples=25, deadline=None)
def test_a_live_stream_with_restarts(case: Case, cuts: list[int]) -> None:
    check_live(case, cuts)


# --- by definition ------------------------------------------------------------------------------


QUERIES = (
    ("SEQ(A a, B b)", "a.x", "", "WITHIN 6 ms"),
    ("SEQ(A a, B b)", "b.x", "", "WITHIN 6 ms SLIDE 2 ms"),
    ("SEQ(!C c, A a, B+ b, C d)", "d.y", "PARTITION BY k", "WITHIN 8 ms"),
    ("SEQ(A a, !B b, C c)", "a.y", "WHERE a.x <= c.x", "WITHIN 8 ms SLIDE 3 ms"),
    ("SEQ(A a, B b, !C c)", "b.y", "", "WITHIN 5 ms SLIDE 1 ms"),
    ("AND(A a, B b)", "b.x", "", "WITHIN 5 ms"),
    ("A a", "a.x", "PARTITION BY k", "WITHIN 3 ms SLIDE 2 ms"),
    ("SEQ(A a, : B b)", "b.x", "", "WITHIN 5 ms"),
    ("SEQ(A a, B b, C c)", "c.x", "STRATEGY STRICT", "WITHIN 5 ms"),
    ("SEQ(A a, B b, C c)", "a.x", "STRATEGY NEXT", "WITHIN 9 ms"),
    ("SEQ(A a, B b)", "a.x", "", "WITHIN 4 EVENTS"),
    ("SEQ(A a, B b)", "a.x", "", "WITHIN 3 EVENTS OF (A, B) SLIDE 2 EVENTS"),
    ("SEQ(A a, B b)", "b.x", "", "WITHIN SESSION 3 ms"),
    ("A a", "a.x", "PARTITION BY k", "WITHIN 3 ms SLIDE 2 ms WINDOWS FROM FIRST"),
)


def _rows(workload: BoundWorkload, rows: list[Row]) -> Results:
    events = events_of(workload, rows)
    found = run_oracle(workload, events)
    assert multiset(run_local(workload, events)) == multiset(found)
    return found


def _texts(results: Results, key: str | None = None) -> list[str]:
    """The rows without the query's name; a value of the key more is put into it."""
    found = []
    for row in results.aggregates.to_pylist():
        known = row["key"] or "{}"
        if key is not None:
            known = known[:-1] + ("," if known != "{}" else "") + key + "}"
        found.append(str({**row, "key": known, "query": None}))
    return sorted(found)


@given(st.sampled_from(QUERIES), event_rows(sequence=True, types=("A", "B", "C"), max_size=10))
@settings(max_examples=60, deadline=None)
def test_a_group_has_the_rows_of_the_query_with_its_value_asked_for(
    parts: tuple[str, str, str, str], rows: list[Row]
) -> None:
    pattern, attribute, clause, window = parts
    clause = clause if "WHERE" in clause else f"WHERE TRUE = TRUE {clause}"
    condition, _, others = clause.removeprefix("WHERE ").partition("PARTITION")
    condition, _, strategy = condition.partition("STRATEGY")
    more = (f" PARTITION{others}" if others else "") + (f" STRATEGY{strategy}" if strategy else "")
    agg = "AGG COUNT(*), SUM(a.y), MAX(a.x)"

    def query(asked: str, group: str) -> BoundWorkload:
        text = f"PATTERN {pattern} WHERE {condition}{asked}{more} {agg} {group} {window}"
        return load_bound({"stream": STREAM, "queries": [text]})

    grouped = _texts(_rows(query("", f"GROUP BY {attribute} AS part"), rows))
    one_by_one = [
        row
        for value in (0, 1, 2)
        for row in _texts(_rows(query(f" AND {attribute} = {value}", ""), rows), f'"part":{value}')
    ]
    assert grouped == sorted(one_by_one)


@given(
    st.sampled_from(
        [
            "SEQ(A a, > B b)",
            "SEQ(A a, > B b, > C c)",
            "SEQ(A a, > SEQ(B b, C c))",
            "SEQ(A a, B b, C c) STRATEGY NEXT",
            "SEQ(A a, C? n, B b) STRATEGY NEXT",
            "SEQ(A+ a, B b) STRATEGY NEXT",
            "SEQ(A a, B b) WHERE b.y >= a.y STRATEGY NEXT",
        ]
    ),
    event_rows(sequence=True, types=("A", "B", "C"), max_size=10, nulls=False),
)
@settings(max_examples=40, deadline=None)
def test_groups_split_the_matches_that_take_the_next_event(pattern: str, rows: list[Row]) -> None:
    def counts(group: str) -> Counter[int]:
        text = f"PATTERN {pattern} AGG COUNT(*) {group} WITHIN 8 ms SLIDE 2 ms"
        workload = load_bound({"stream": STREAM, "queries": [text]})
        found: Counter[int] = Counter()
        for row in _rows(workload, rows).aggregates.to_pylist():
            found[row["time"]] += row["count"]
        return found

    assert counts("GROUP BY b.x") == counts("")


# --- what it is good for, and what is refused --------------------------------------------------


def bound(text: str, **stream: Any) -> BoundWorkload:
    return load_bound({"stream": STREAM | stream, "queries": [f"QUERY q PATTERN {text}"]})


def test_matches_are_counted_and_not_constructed() -> None:
    workload = bound("SEQ(A a, !C c, B+ b, D d) AGG COUNT(*) GROUP BY d.x WITHIN 9 ms")
    (unit,) = How().program(workload).units
    assert isinstance(unit, CountingUnit)


def test_a_group_of_single_events_is_a_key() -> None:
    query = bound("A a PARTITION BY k AGG COUNT(*) GROUP BY a.x WITHIN 9 ms").queries[0]
    assert query.key == ("k", "x")
    assert not query.groups


def test_what_the_key_has_splits_no_further() -> None:
    query = bound("SEQ(A a, B b) WHERE a.x = b.x AGG COUNT(*) GROUP BY b.x WITHIN 9 ms").queries[0]
    assert (query.key, query.groups) == (("x",), ())


def test_of_a_list_each_value_is_a_group() -> None:
    table = pa.table(
        {
            "ts": [1, 2, 3],
            "seq": [1, 2, 3],
            "kind": ["A", "A", "B"],
            "l": pa.array([["p", "q", "p"], ["q"], None], pa.list_(pa.string())),
        }
    )
    workload = bound("SEQ(A a, B b) AGG COUNT(*) GROUP BY a.l AS tag WITHIN 9 ms")
    events = from_table(table, workload.stream)
    found = run_local(workload, events)
    assert multiset(found) == multiset(run_oracle(workload, events))
    rows = sorted((row["key"], row["count"]) for row in found.aggregates.to_pylist())
    assert rows == [('{"tag":"p"}', 1), ('{"tag":"q"}', 2)]


def test_a_query_is_printed_as_it_is_read() -> None:
    text = (
        "PATTERN SEQ(A a, B b) AGG COUNT(*) GROUP BY a.x, b.s.t AS u HAVING COUNT(*) > 1 "
        "WITHIN 5 ms"
    )
    query = parse_query(text)
    assert parse_query(print_query(query)) == query
    groups, having = "GROUP BY a.x, b.s.t AS u", "HAVING COUNT(*) > 1"
    assert query == parse_query(text.replace(f"{groups} {having}", f"{having} {groups}"))


def test_group_is_a_name_elsewhere() -> None:
    query = parse_query("PATTERN SEQ(A group, B b) AGG SUM(group.x) GROUP BY group.x WITHIN 5 ms")
    assert parse_query(print_query(query)) == query


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("SEQ(A a, B b) RETURN a GROUP BY a.x WITHIN 9 ms", "GROUP BY goes with AGG"),
        ("SEQ(A a, B b) AGG COUNT(*) GROUP BY x WITHIN 9 ms", "'x' has no alias"),
        ("SEQ(A a, B b) AGG COUNT(*) GROUP BY c.x WITHIN 9 ms", "unknown alias 'c'"),
        ("SEQ(A a, B+ b) AGG COUNT(*) GROUP BY b.x WITHIN 9 ms", "'b' is a group, whose events"),
        ("SEQ(A a, B? b, C c) AGG COUNT(*) GROUP BY b.x WITHIN 9 ms", "a match need not have 'b'"),
        ("OR(A a, B b) AGG COUNT(*) GROUP BY b.x WITHIN 9 ms", "a match need not have 'b'"),
        ("SEQ(A a, !N b, C c) AGG COUNT(*) GROUP BY b.x WITHIN 9 ms", "'b' is negated"),
        (
            "SEQ(A+ a, B b) WHERE a.x > prev(a.x) STRATEGY NEXT AGG COUNT(*) GROUP BY b.x "
            "WITHIN 9 ms",
            "which event 'b' is depends",
        ),
        ("SEQ(A a, B b) AGG COUNT(*) GROUP BY a.x, b.x WITHIN 9 ms", "the key has 'x' twice"),
        (
            "SEQ(A a, B b) AGG COUNT(*) HAVING COUNT(*) > 1 GROUP BY a.x HAVING COUNT(*) > 2 "
            "WITHIN 9 ms",
            "HAVING is given twice",
        ),
    ],
)
def test_what_is_not_taken_is_said(text: str, said: str) -> None:
    with pytest.raises(WorkloadError, match=said):
        bound(text)


def test_a_condition_that_a_rule_finds_to_be_constant_still_says_who_is_of_a_group(
    tmp_path: Path,
) -> None:
    """The plan's symbols have no condition on `y`, and of files only columns that are read are."""
    text = "PATTERN SEQ(A{1,2} a, B b) WHERE b.y / 0 < 1 AGG COUNT(*) GROUP BY b.x WITHIN 5 s"
    rows = [{"ts": n, "kind": kind, "seq": n, "x": 1, "y": 1} for n, kind in enumerate("AB")]
    events, workload = tmp_path / "events.parquet", tmp_path / "w.json"
    pq.write_table(pa.Table.from_pylist(rows), events)
    workload.write_text(json.dumps({"name": "w", "stream": STREAM, "queries": [text]}))
    for engine in ("local", "oracle"):
        options = ["--events", str(events), "--engine", engine, "--json"]
        result = CliRunner().invoke(app, ["run", str(workload), *options])
        assert result.exit_code == 0, result.output
        assert json.loads(result.stdout)["rows"] == {"aggregates": 0, "matches": 0}
