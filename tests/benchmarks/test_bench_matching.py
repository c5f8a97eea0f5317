"""Benchmarks of finding matches: their ways agree, and what they judge by is right."""

import json

import numpy as np
import pyarrow as pa
import pytest
from typer.testing import CliRunner

from engines.columns.groups import EventGroups
from engines.input.event_table import from_table
from engines.reference.oracle import run_oracle
from engines.results.tables import Results, aggregate_schema, match_schema
from optimizer.bind.binder import load_bound
from optimizer.trees import Leaf, SeqJoin
from optimizer.trees.tree import Passed, without_passing
from tests.benchmarks import sql, sql_matches, zstream
from tests.benchmarks.adapting import adapting
from tests.benchmarks.command import app
from tests.benchmarks.detection import related, unrelated
from tests.benchmarks.found import found_matches, found_results
from tests.benchmarks.matching import Ranked, all_sought, judged, sought, stocks
from tests.benchmarks.measuring import BenchmarkError, Measured, Said
from tests.benchmarks.neel import CHILDREN, LENGTHS, LEVELS, _text
from tests.benchmarks.planned import stored
from tests.benchmarks.real import FOLDER, real_events
from tests.benchmarks.streams import TICKERS
from workloads.generators import Attribute, Phase, Uniform

PRICE = {"price": Attribute(Uniform(0, 1))}


# --- what was found ------------------------------------------------------------------------------


def test_matches_of_other_events_are_not_the_same():
    first, second = np.array([1, 2, 3]), np.array([4, 5, 6])
    found = found_matches([first, second])
    assert found.rows == 3
    assert found_matches([first[[2, 0, 1]], second[[2, 0, 1]]]) == found
    others = (
        [second, first],
        [first, second[[1, 0, 2]]],
        [first, np.array([4, 5, 7])],
    )
    for other in others:
        assert found_matches(other) != found
    assert found_matches([first, second], query=1) != found


def test_groups_of_other_events_are_not_the_same():
    last = np.array([9, 9])
    groups = EventGroups(np.array([0, 2, 3]), np.array([1, 2, 3]))
    others = (
        EventGroups(np.array([0, 1, 3]), np.array([1, 2, 3])),
        EventGroups(np.array([0, 2, 3]), np.array([1, 4, 3])),
    )
    found = found_matches([groups, last])
    assert all(found_matches([other, last]) != found for other in others)
    assert found_matches([groups.take(np.array([1, 0])), last]) == found


def test_match_rows_are_told_apart_by_their_texts():
    schema = match_schema(pa.int64())
    empty = aggregate_schema(pa.int64()).empty_table()

    def found(*rows):
        table = pa.Table.from_pylist(
            [dict(zip(schema.names, r, strict=True)) for r in rows], schema
        )
        return found_results(Results(empty, table), ["q"])

    one = ("q", None, 1, 2, 2, '{"a":1}')
    other = ("q", None, 1, 2, 2, '{"a":2}')
    assert found(one, other) == found(other, one)
    assert found(one, one) != found(one, other)
    assert found(one).rows == 1


# --- the ways agree, and with what a query means -------------------------------------------------


def by_brute_force(asked):
    return run_oracle(asked.workload, asked.events).matches.num_rows


def test_all_ways_find_what_the_reference_finds():
    table = stocks({"A": 1, "B": 1, "C": 1, "D": 1}, 60, PRICE)
    asked = sought(
        "QUERY q PATTERN SEQ(A a, !D d, B b, C c) WHERE a.price < c.price RETURN a.ts WITHIN 12 ms",
        table,
    )
    ways = ("stacks", "configurations", "nested", "nested first")
    variants = [asked.by_baseline(way) for way in ways]
    variants += [asked.by_tree(asked.shaped(shape)) for shape in ("left", "right", "worst")]
    variants.append(asked.by_tree(asked.chosen))
    found = {variant.found(variant.run()) for variant in variants}
    assert len(found) == 1
    assert found.pop().rows == by_brute_force(asked) > 0


def test_trees_and_configurations_find_the_same_groups():
    table = stocks({"A": 1, "B": 1, "C": 1}, 40)
    asked = sought("QUERY q PATTERN SEQ(A a, B+ b, C c) RETURN a.ts WITHIN 9 ms", table)
    trees, other = asked.by_tree(asked.chosen), asked.by_baseline("configurations")
    found = trees.found(trees.run())
    assert other.found(other.run()) == found
    assert found.rows == by_brute_force(asked) > 0


@pytest.mark.parametrize("propagation", ["push", "pull", "pass-down"])
def test_each_propagation_finds_the_same(propagation):
    table = stocks({"A": 5, "B": 5, "C": 1}, 100, PRICE)
    asked = sought(
        "QUERY q PATTERN SEQ(A a, B b, C c) WHERE a.price < c.price RETURN a.ts WITHIN 9 ms", table
    )
    joins, _ = without_passing(asked.chosen)
    found = asked.by_tree(joins if propagation == "push" else Passed(joins, propagation))
    assert found.found(found.run()).rows == by_brute_force(asked) > 0


@pytest.mark.parametrize("pattern", [*CHILDREN.values(), *LENGTHS.values(), *LEVELS.values()])
def test_nested_queries_are_the_same_nested_and_as_trees(pattern):
    table = stocks(dict.fromkeys(TICKERS, 1.0), 400)
    asked = sought(_text("q", pattern, 60), table)
    trees = asked.by_tree(asked.chosen)
    found = trees.found(trees.run())
    assert found.rows > 0
    for way in ("nested", "nested first"):
        nested = asked.by_baseline(way)
        assert nested.found(nested.run()) == found


@pytest.mark.parametrize("draw", [related, unrelated])
def test_queries_find_the_same_together_and_alone(draw):
    rates = {f"T{i:02}": 1.0 for i in range(20)}
    asked = all_sought(draw(10), stocks(rates, 1_500, PRICE))
    plans = [asked.plan(), asked.plan(sharing=False)]
    variants = [asked.by_choice(), *map(asked.by_plan, plans)]
    with stored(asked.events.table) as events:
        found = {variant.found(variant.run()) for variant in variants}
        assert len(found) == 1
        rows = {whole.found(whole.run()) for whole in map(events.running, plans)}
    assert len(rows) == 1
    assert rows.pop().rows == found.pop().rows > 0


def test_a_plan_that_changes_finds_what_fixed_ones_find():
    text = "QUERY q PATTERN SEQ(A a, B b, C c) RETURN a.ts WITHIN 9 ms"
    phases = [Phase(120, {"A": 10.0, "B": 400.0, "C": 400.0}), Phase(120)]
    table = stocks({"A": 400.0, "B": 400.0, "C": 10.0}, 240, phases=phases)
    trees = {"left-deep": SeqJoin(SeqJoin(Leaf("a"), Leaf("b")), Leaf("c"))}
    stretches = [("first", 120), ("second", 120)]
    rows = list(adapting(("b", "t"), text, table, stretches, 30, trees, "small"))
    assert [row.case for row in rows[:2]] == ["first", "second"]
    assert set(rows[0].seconds) == {"adaptive", "left-deep"}
    assert isinstance(rows[2], Said)


def test_plans_that_differ_in_what_they_find_are_an_error(monkeypatch):
    text = "QUERY q PATTERN SEQ(A a, B b, C c) RETURN a.ts WITHIN 9 ms"
    table = stocks({"A": 1.0, "B": 1.0, "C": 1.0}, 60)
    trees = {"fixed": SeqJoin(Leaf("a"), SeqJoin(Leaf("b"), Leaf("c")))}
    counted = iter(range(100))
    monkeypatch.setattr(
        "tests.benchmarks.adapting.found_matches",
        lambda columns: found_matches(columns, next(counted)),
    )
    with pytest.raises(BenchmarkError, match="fixed found"):
        list(adapting(("b", "t"), text, table, [("all", 60)], 20, trees, "small"))


# --- judging -------------------------------------------------------------------------------------


def test_the_cost_model_is_judged_by_pairs_that_clearly_differ():
    cases = [
        Ranked({"x": 1.0, "y": 2.0, "z": 3.0}, {"x": 1.0, "y": 1.05, "z": 2.0}, "x"),
        Ranked({"x": 1.0, "y": 2.0}, {"x": 3.0, "y": 1.5}, "x"),
    ]
    numbers = judged("b", "Here", cases).numbers
    # x and y of the first case are as good as equal; of the second they are the wrong way round.
    assert (numbers["pairs"], numbers["right"]) == (3, 2)
    assert (numbers["cases"], numbers["near"], numbers["worst"]) == (2, 1, 2.0)


# --- SQL and recorded streams --------------------------------------------------------------------


@pytest.mark.parametrize(
    "pattern",
    [
        sql_matches.Pattern(("T00", "T01", "T02"), 60),
        sql_matches.Pattern(("T00", "T01"), 300, True),
    ],
)
def test_duckdb_joins_what_trees_find(pattern):
    pytest.importorskip("duckdb")
    stream = sql_matches.users_and_prices(2_000)
    variants = [sql_matches.by_trees(pattern, stream), sql_matches.to_rows(pattern, stream)]
    found = {variant.found(variant.run()) for variant in variants}
    for helped in (True, False):
        joined = sql.in_duckdb(pattern.statement(helped), stream, pattern.width)
        found.add(sql_matches.found_times(joined.run()))
    assert len(found) == 1
    workload = load_bound({"stream": sql_matches.STREAM, "queries": [pattern.text]})
    small = stream.slice(0, 300)
    few = sql_matches.by_trees(pattern, small)
    events = from_table(small, workload.stream)
    expected = run_oracle(workload, events).matches.num_rows
    assert few.found(few.run()).rows == expected


def test_a_missing_recorded_stream_is_said(monkeypatch, tmp_path):
    monkeypatch.delenv(FOLDER, raising=False)
    table, why = real_events("some.parquet")
    assert table is None
    assert FOLDER in why
    monkeypatch.setenv(FOLDER, str(tmp_path))
    table, why = real_events("some.parquet")
    assert table is None
    assert "does not exist" in why
    (row,) = zstream._web_log("small")
    assert isinstance(row, Measured)
    assert not row.seconds
    assert "nasa_weblog" in row.skipped["chosen tree"]


def test_a_line_without_times_is_shown(monkeypatch):
    monkeypatch.delenv(FOLDER, raising=False)
    rows = list(zstream._web_log("small"))
    from tests.benchmarks import tables

    assert any("skipped" in line for line in tables.as_text(rows))
    assert json.loads(tables.as_json(rows[0]))["ratios"] == {}


def test_the_benchmarks_have_names():
    result = CliRunner().invoke(app, ["bench", "zstrem"])
    assert result.exit_code == 1
    assert "did you mean 'zstream'?" in result.output
