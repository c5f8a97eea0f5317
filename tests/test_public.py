"""`import sheaf`: what Python users type, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

import sheaf

WORKLOAD = {
    "name": "cards",
    "stream": {"time": "ts", "unit": "s", "type": "kind"},
    "queries": [
        "QUERY spent PATTERN SEQ(Reset r, Payment p) PARTITION BY card "
        "AGG COUNT(*), SUM(p.amount) WITHIN 1 min",
        "QUERY pairs PATTERN SEQ(Payment a, Payment b) WHERE a.amount < b.amount AND [card] "
        "RETURN a.amount, b.amount WITHIN 1 min",
    ],
}
EVENTS = """ts,kind,card,amount
1,Reset,c1,
2,Payment,c1,5
3,Payment,c1,7
4,Payment,c2,9
"""


@pytest.fixture
def events(tmp_path: Path) -> Path:
    path = tmp_path / "events.csv"
    path.write_text(EVENTS)
    return path


def test_the_public_names_are_those_of_the_readme() -> None:
    names = {
        "Client",
        "Plan",
        "Results",
        "SheafError",
        "Workload",
        "load",
        "plan",
        "run",
        "transform",
    }
    assert set(sheaf.__all__) == names


def test_a_workload_is_planned_and_run(events: Path) -> None:
    plan = sheaf.plan(sheaf.load(WORKLOAD), events)
    results = sheaf.run(plan, events)
    counts = [
        (row["time"], row["value"])
        for row in results.aggregates.to_pylist()
        if row["aggregate"] == "COUNT(*)"
    ]
    assert counts == [(2, 1.0), (3, 2.0)]
    assert results.matches.column("match").to_pylist() == ['{"a":{"amount":5},"b":{"amount":7}}']
    assert results.report["plan"] == plan.id
    assert [o["id"] for o in results.report["operators"]] == [
        operator.id for operator in plan.physical.operators
    ]
    assert results.to_pandas("matches")["query"].tolist() == ["pairs"]


def test_a_plan_comes_back_from_its_file_as_it_was(events: Path, tmp_path: Path) -> None:
    plan = sheaf.plan(WORKLOAD, events, sharing=False)
    plan.save(tmp_path / "plan.json")
    again = sheaf.Plan.read(tmp_path / "plan.json")
    assert again.id == plan.id == sheaf.Plan.read(plan.document).id
    assert str(again) == plan.text()
    assert plan._repr_svg_().startswith("<svg")


def test_an_edited_plan_runs_on_the_engine_that_it_names(events: Path) -> None:
    document = sheaf.plan(WORKLOAD, events).document
    group = next(group for group in document["groups"] if "segments" in group)
    group["engine"] = other = "aseq" if group["engine"] == "product" else "product"
    plan = sheaf.Plan.read(document)
    results = sheaf.run(plan, events)
    counters = [o["about"] for o in results.report["operators"] if o["kind"] == "counter"]
    assert counters == [f"{other}: spent"]
    assert results.aggregates.num_rows == 4


def test_rows_go_to_a_file_where_one_is_named(events: Path, tmp_path: Path) -> None:
    results = sheaf.run(WORKLOAD, events, tmp_path / "rows.jsonl")
    assert [Path(name).name for name in results.files] == [
        "rows.aggregates.jsonl",
        "rows.matches.jsonl",
    ]
    assert results.aggregates.num_rows == 0


def test_a_workload_may_be_text(events: Path) -> None:
    text = yaml.safe_dump(WORKLOAD)
    assert sheaf.load(text).queries == sheaf.load(WORKLOAD).queries
    with pytest.raises(sheaf.SheafError, match="'stream' is missing"):
        sheaf.load("name: w\nqueries: [QUERY q PATTERN SEQ(A a]")


def test_mistakes_are_errors_with_their_place() -> None:
    with pytest.raises(sheaf.SheafError, match="query q"):
        sheaf.load({**WORKLOAD, "queries": ["QUERY q PATTERN SEQ(A a"]})


def test_results_print_as_their_queries_and_say_which_there_are(
    events: Path, tmp_path: Path
) -> None:
    results = sheaf.run(WORKLOAD, events)
    assert repr(results) == "rows, by query\n  spent: 4\n  pairs: 1"
    with pytest.raises(KeyError) as error:
        results["pears"]
    assert str(error.value) == "there is no query 'pears'; did you mean 'pairs'?"
    out = tmp_path / "found.parquet"
    assert str(out.with_name("found.matches.parquet")) in repr(sheaf.run(WORKLOAD, events, out))
    with pytest.raises(TypeError, match="there are no events"):
        sheaf.run(WORKLOAD, None)
