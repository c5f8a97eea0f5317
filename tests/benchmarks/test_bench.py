"""`sheaf bench` measures every benchmark; how fast is not a test's business."""

import asyncio
import json
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from engines.reference.oracle import run_oracle
from engines.results.tables import Results, aggregate_schema, match_schema
from tests.benchmarks import BENCHMARKS, Goal, Measured, Said, service, sql, tables
from tests.benchmarks.chopconnect import crossing
from tests.benchmarks.command import app
from tests.benchmarks.found import Found, found_results, found_rows
from tests.benchmarks.measuring import BenchmarkError, Variant, measure
from tests.benchmarks.memory import WHY_NOT, can_measure, peak_memory
from tests.benchmarks.planned import StageClock, planned, stored, with_product
from tests.benchmarks.streams import TICKERS, constructed, sequence, uniform
from tests.benchmarks.ways import WAYS, make_case
from tests.benchmarks.whole_runs import Cost, Done, interleaved

OWN_SESSION = ("spark", "live", "whole")  # they start Spark, of which a process has one
LONG = ("model", "plan-fidelity")  # minutes, also where they are small


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.soak] if name in LONG else [])
        for name in BENCHMARKS
        if name != "service"
    ],
)
def test_each_benchmark_runs(name):
    arguments = ["bench", name, "--small", "--json"]
    if name in OWN_SESSION:
        command = [sys.executable, "-c", "from api.cli.main import main; main()", *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        lines = done.stdout.splitlines()
    else:
        result = CliRunner().invoke(app, arguments)
        assert result.exit_code == 0, result.output
        lines = result.stdout.splitlines()
    rows = [json.loads(line) for line in lines]
    assert rows
    assert all(row["benchmark"] == name for row in rows)
    measured = [row for row in rows if "seconds" in row]
    assert measured
    assert all(speed > 0 for row in measured for speed in row["events_per_second"].values())


@pytest.mark.slow
def test_a_service_under_load_is_measured():
    load = asyncio.run(service.measured(2, reads=20, plans=10))
    assert load.errors == []
    assert (len(load.reads), len(load.plans), len(load.made)) == (40, 20, 2)
    assert min(load.reads + load.plans) > 0
    assert min(load.memory) > 10_000_000
    assert load.cpu > 0


def test_an_unknown_benchmark_is_said():
    result = CliRunner().invoke(app, ["bench", "lenght"])
    assert result.exit_code == 1
    assert "did you mean 'length'?" in result.output


# --- measuring -----------------------------------------------------------------------------------

ONE = Found(1, 5, 9)


def test_a_ratio_is_how_many_times_as_fast_the_first_is():
    measured = Measured("b", "t", "c", 10, {"shared": 2.0, "alone": 6.0, "slow": 60.0})
    assert measured.ratios == {"alone": 3.0, "slow": 30.0}
    assert measured.events_per_second["shared"] == 5.0


def test_variants_that_differ_in_results_are_an_error():
    variants = {
        "good": Variant(lambda: 1, lambda _: ONE),
        "bad": Variant(lambda: 2, lambda _: Found(1, 6, 9)),
    }
    with pytest.raises(
        BenchmarkError, match=r"bad found 1 rows with counts of 6 .* but good found"
    ):
        measure(variants, "small")


def test_variants_of_different_questions_may_differ():
    variants = {
        "one": Variant(lambda: 1, lambda _: ONE, "first"),
        "two": Variant(lambda: 2, lambda _: Found(2, 0, 0), "second"),
    }
    assert set(measure(variants, "small")) == {"one", "two"}


def test_variants_take_turns():
    calls = []
    variants = {
        name: Variant(lambda name=name: calls.append(name), lambda _: ONE) for name in ("a", "b")
    }
    measure(variants)
    assert calls[:6] == ["a", "b"] * 3
    assert calls.count("a") == calls.count("b") >= 4


def test_only_the_seconds_that_count_are_measured():
    variant = Variant(lambda: 0.25, lambda _: ONE, seconds=lambda result: result)
    assert measure({"a": variant}, "small") == {"a": 0.25}


def test_a_stage_lasts_until_the_next():
    moments = iter([0.0, 1.0, 4.0, 5.0, 7.0])
    stages = StageClock(lambda: next(moments))
    for name in ("read", "run", "write", "run", "write"):
        stages.on_stage(name)
    assert stages.seconds == {"read": 1.0, "run": 5.0, "write": 1.0}


# --- what was found ------------------------------------------------------------------------------

QUERY = np.array([0, 0, 1])
TIME = np.array([3, 4, 4])
COUNTS = np.array([2, 5, 7], np.uint64)


def test_rows_in_another_order_are_the_same():
    order = np.array([2, 0, 1])
    assert found_rows(QUERY[order], TIME[order], COUNTS[order]) == found_rows(QUERY, TIME, COUNTS)


@pytest.mark.parametrize(
    ("query", "time", "counts"),
    [
        ([0, 0, 0], [3, 4, 4], [2, 5, 7]),
        ([0, 0, 1], [3, 5, 4], [2, 5, 7]),
        ([0, 0, 1], [4, 3, 4], [2, 5, 7]),
        ([0, 0, 1], [3, 4, 4], [5, 2, 7]),
        ([1, 1, 0], [3, 4, 4], [2, 5, 7]),
        ([0, 0, 1], [3, 4, 4], [2, 5, 8]),
    ],
)
def test_a_count_elsewhere_is_not_the_same(query, time, counts):
    other = found_rows(np.array(query), np.array(time), np.array(counts, np.uint64))
    assert not other.agrees_with(found_rows(QUERY, TIME, COUNTS))


def test_parts_add_up():
    whole = found_rows(QUERY, TIME, COUNTS)
    parts = [found_rows(QUERY[i : i + 1], TIME[i : i + 1], COUNTS[i : i + 1]) for i in range(3)]
    assert parts[0] + parts[1] + parts[2] == whole
    assert (whole.rows, whole.matches) == (3, 14)


def test_counts_that_are_not_exact_are_left_out_of_the_sum():
    exact = np.array([True, False, True])
    assert found_rows(QUERY, TIME, COUNTS, exact).matches == 9


def results(rows):
    names = aggregate_schema(pa.int64()).names
    table = pa.Table.from_pylist(
        [dict(zip(names, row, strict=True)) for row in rows], schema=aggregate_schema(pa.int64())
    )
    return Results(table, match_schema(pa.int64()).empty_table())


def test_tables_of_results_are_found_as_counts_are():
    found = found_results(
        results(
            [
                ("b", None, 4, None, "COUNT(*)", 7.0, 7, True),
                ("a", None, 3, None, "COUNT(*)", 2.0, 2, True),
                ("a", None, 4, None, "COUNT(*)", 5.0, 5, True),
            ]
        ),
        ["a", "b"],
    )
    assert found == found_rows(QUERY, TIME, COUNTS)


def test_sums_may_differ_in_their_last_digits_only():
    one, same, other = (
        found_results(results([("a", None, 3, None, "SUM(x.y)", v, None, True)]), ["a"])
        for v in (0.3, 0.1 + 0.2, 0.3001)
    )
    assert one.agrees_with(same)
    assert not one.agrees_with(other)


def test_all_ways_find_the_same():
    case = make_case([sequence("q", ("A", "B", "C"), 50)], uniform(("A", "B", "C"), 300))
    variants = {name: way(case) for name, way in WAYS.items()}
    found = {name: variant.found(variant.run()) for name, variant in variants.items()}
    assert len(set(found.values())) == 1
    assert found["product"].rows > 0


def test_whole_runs_find_what_the_reference_finds():
    texts = [sequence("p", "ABC", 20), sequence("q", "AB", 20), sequence("r", "BCA", 9)]
    case = make_case(texts, uniform(("A", "B", "C"), 120))
    expected = found_results(run_oracle(case.workload, case.events), ["p", "q", "r"])
    assert expected.rows > 0
    plans = [
        planned(case.workload, case.document, case.events, sharing) for sharing in (True, False)
    ]
    assert [len(plan.groups) for plan in plans] == [1, 3]
    with stored(case.events.table) as events:
        for plan in (*plans, with_product(plans[1])):
            variant = events.running(plan)
            result = variant.run()
            assert variant.found(result) == expected
            assert variant.seconds(result) > 0


def test_the_number_of_matches_is_foreseen():
    length, width, events = 3, 100, 200_000
    stream = uniform(TICKERS, events)
    case = make_case([sequence("q", TICKERS[:length], width, slide=width)], stream)
    variant = WAYS["product"](case)
    made = variant.found(variant.run()).matches
    # Of all matches shorter than a window, one in three lies in one of windows side by side:
    # width * C(width - 1, 2) / C(width, 3) = 3.
    expected = constructed(length, width, len(TICKERS), events) / length
    assert made == pytest.approx(expected, rel=0.05)


@pytest.mark.slow
@pytest.mark.skipif(not can_measure(), reason=WHY_NOT)
def test_peak_memory_grows_with_the_stream():
    queries = [sequence("q", ("A", "B"), 50)]
    small, large = (peak_memory("product", queries, ("A", "B"), n) for n in (2_000, 400_000))
    # Prepared columns alone are 8 bytes an event each.
    assert large - small > 400_000 * 8


# --- showing -------------------------------------------------------------------------------------

ROWS = (
    Measured("b", "a table", "c1", 1000, {"fast": 0.001, "slow": 0.25}, memory={"fast": 1500000}),
    Measured("b", "a table", "c2", 1000, {"fast": 0.002}, {"slow": "too long"}),
    Said("b", "It is so.", {"factor": 2.0}),
)


def test_a_terminal_shows_speeds_ratios_memory_and_what_was_skipped():
    lines = [line.split() for line in tables.as_text(ROWS)]
    assert lines == [
        ["a", "table"],
        ["fast", "slow"],
        ["c1", "1", "M", "4", "k", "(250×)"],
        ["memory", "1.5", "MB", "-"],
        ["c2", "500", "k", "-"],
        ["slow", "skipped:", "too", "long"],
        ["It", "is", "so."],
    ]


def test_markdown_is_a_table():
    assert list(tables.as_markdown("b", "What it is.", ROWS)) == [
        "## b",
        "",
        "What it is.",
        "",
        "A table:",
        "",
        "| | fast | slow |",
        "|---|---|---|",
        "| c1 | 1 M | 4 k (250×) |",
        "| c1, memory | 1.5 MB | - |",
        "| c2 | 500 k | - |",
        "",
        "Left out: c2, slow: too long.",
        "",
        "It is so.",
        "",
    ]


def test_json_has_what_was_measured_and_what_follows():
    row = json.loads(tables.as_json(ROWS[0]))
    assert row["ratios"] == {"slow": 250.0}
    assert row["memory"] == {"fast": 1500000}
    assert json.loads(tables.as_json(ROWS[2]))["numbers"] == {"factor": 2.0}


GOALS = (
    Goal("b", "shop", "shared against one by one", 3, 2.5),
    Goal("b", "shop", "times of pyarrow", 6, 5.25, at_least=False),
)


def test_a_goal_is_shown_with_its_target_and_whether_it_holds():
    assert [goal.holds for goal in GOALS] == [False, True]
    lines = [line.split() for line in tables.as_text(GOALS)]
    assert [line[-4:] for line in lines] == [
        ["least", "3", "2.50", "missed"],
        ["most", "6", "5.25", "holds"],
    ]
    assert list(tables.as_markdown("b", "What it is.", GOALS))[3:] == [
        "",
        "| workload | what | target | measured |  |",
        "|---|---|---|---|---|",
        "| shop | shared against one by one | at least 3 | 2.50 | missed |",
        "| shop | times of pyarrow | at most 6 | 5.25 | holds |",
        "",
    ]
    assert json.loads(tables.as_json(GOALS[0]))["holds"] is False


def test_whole_runs_must_give_the_same_rows():
    def giving(rows):
        return lambda: Done(Cost(1, 1), rows)

    alike = {"shared": giving({"q": 2}), "one by one": giving({"q": 2}), "pyarrow": giving({})}
    assert set(interleaved(alike, "small")) == set(alike)
    with pytest.raises(BenchmarkError, match="one by one gives other numbers of rows"):
        interleaved({"shared": giving({"q": 2}), "one by one": giving({"q": 3})}, "small")


def test_an_unknown_row_of_whole_runs_is_said():
    result = CliRunner().invoke(app, ["bench", "whole", "shpo"])
    assert result.exit_code == 1
    assert "did you mean 'shop'?" in result.output
    result = CliRunner().invoke(app, ["bench", "length", "shop"])
    assert result.exit_code == 1


def test_a_crossing_lies_between_what_was_measured():
    assert crossing({1.0: 2.0, 4.0: 0.5}) == pytest.approx(2.0)
    assert crossing({1.0: 0.5, 4.0: 2.0}) == pytest.approx(2.0)
    # The line through all goes through (3, 0), in powers of 2.
    assert crossing({2.0: 4.0, 4.0: 1.0, 16.0: 1.0, 32.0: 0.25}) == pytest.approx(8.0)
    assert crossing({1.0: 2.0, 4.0: 1.5}) is None


# --- SQL -----------------------------------------------------------------------------------------

SQL = [sql.Asked(("A", "B", "C"), 40), sql.Asked(("C", "A"), 40)]


def counted_by_product(stream, asked):
    texts = [sequence(f"q{i}", query.parts, query.width) for i, query in enumerate(asked)]
    variant = WAYS["product"](make_case(texts, stream))
    return variant.found(variant.run())


@pytest.mark.parametrize("statement", [sql.by_joining(SQL), sql.by_prefixes(SQL)])
def test_duckdb_counts_what_the_product_counts(statement):
    pytest.importorskip("duckdb")
    stream = uniform(("A", "B", "C", "D"), 500)
    variant = sql.in_duckdb(statement, stream, 40)
    assert variant.found(variant.run()) == counted_by_product(stream, SQL)


def test_spark_counts_what_the_product_counts(spark):
    stream = uniform(("A", "B", "C", "D"), 200)
    short = SQL[1:]  # every join takes Spark a second to compile
    both = f"{sql.by_joining(short)} UNION ALL {sql.by_prefixes(short)}"
    variant = sql.in_spark(spark, both, stream, 40)
    once = counted_by_product(stream, short)
    assert variant.found(variant.run()) == once + once


def test_a_missing_duckdb_is_said(monkeypatch):
    monkeypatch.setitem(sys.modules, "duckdb", None)
    counted, found, *_ = sql.by_sql("small")
    assert counted.skipped["DuckDB join"] == "duckdb is not installed"
    assert set(counted.seconds) == {"product"}
    assert found.skipped["DuckDB"] == "duckdb is not installed"
    assert set(found.seconds) == {"trees", "to result rows"}


# --- one's own stream ----------------------------------------------------------------------------

OWN = """
stream: {time: ts, unit: ms, type: type}
queries:
  - QUERY one PATTERN SEQ(A, B, C) AGG COUNT(*) WITHIN 30 ms
  - QUERY two PATTERN SEQ(A, B) AGG COUNT(*) WITHIN 30 ms
  - QUERY three PATTERN SEQ(A, B+, C) AGG COUNT(*) WITHIN 20 ms
  - QUERY four PATTERN SEQ(A a, D d) RETURN a.ts, d.ts WITHIN 5 ms
"""


@pytest.fixture
def own(tmp_path):
    (tmp_path / "own.yaml").write_text(OWN)
    pq.write_table(uniform(("A", "B", "C", "D"), 300), tmp_path / "own.parquet")
    return ["--events", str(tmp_path / "own.parquet"), "--workload", str(tmp_path / "own.yaml")]


def test_ones_own_stream_is_measured(own):
    result = CliRunner().invoke(app, ["bench", "stream", *own, "--small", "--json"])
    assert result.exit_code == 0, result.output
    whole, found, simple, kleene = [json.loads(line) for line in result.stdout.splitlines()]
    assert set(whole["seconds"]) == {"shared", "one by one"}
    assert found["numbers"]["rows"] > 0
    assert set(simple["seconds"]) == {"product", "product one by one", "A-Seq", "PreTree"}
    assert set(kleene["seconds"]) == {"product", "product one by one"}
    assert kleene["skipped"]["A-Seq"] == "three: it has a group of events"


def test_ones_own_stream_needs_both_options(own):
    for given in (["stream"], ["stream", *own[:2]], ["length", *own]):
        result = CliRunner().invoke(app, ["bench", *given])
        assert result.exit_code == 1
        assert "--events and --workload go together" in result.output
