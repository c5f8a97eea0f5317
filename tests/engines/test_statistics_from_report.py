"""A run's report says what to plan by."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from api.cli.main import app
from engines.calibration.stage_trials import STREAM, stage_table
from engines.report import report_document
from engines.run import EventSource, RowSink, run
from engines.statistics.from_report import ReportError, from_report, is_report
from optimizer.bind.binder import load_bound
from optimizer.cost.unit_costs import DEFAULTS
from optimizer.plan.plan import to_json
from optimizer.statistics import given, with_defaults
from sharing.planner import make_plan

QUERIES = [
    "QUERY a PATTERN SEQ(A a, B b) WHERE [k] AND a.x < b.x RETURN a.x, b.x WITHIN 2 s",
    "QUERY b PATTERN SEQ(C, D) WHERE [k] AGG COUNT(*) WITHIN 2 s",
]
EVENTS = 20_000  # an event each millisecond, of eight types that are drawn alike


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    """A workload whose author is wrong about rates, and the report of its run."""
    import pyarrow.parquet as pq

    folder = tmp_path_factory.mktemp("run")
    pq.write_table(stage_table(EVENTS), folder / "events.parquet")
    document = {
        "name": "w",
        "stream": STREAM,
        "statistics": {
            "rates": {"A": 1.0, "B": 1000.0, "C": 5.0, "D": 5.0},
            "selectivities": {"A.x < B.x": 0.01},
            "keys": {"k": {"cardinality": 100, "heaviest": 0.01}},
        },
        "queries": QUERIES,
    }
    bound = load_bound(document)
    plan = make_plan(bound, document)
    source, sink = EventSource(str(folder / "events.parquet")), RowSink(str(folder / "r.parquet"))
    report = json.loads(json.dumps(report_document(plan, run(plan, source, sink))))
    return document, bound, plan, report


def replanned(ran):
    document, bound, _, report = ran
    known = with_defaults(given(bound.statistics, bound.queries), bound.queries)
    return from_report(
        report,
        bound,
        known,
        DEFAULTS,
        lambda statistics, costs: make_plan(
            bound, document, statistics=statistics, unit_costs=costs
        ),
    )


def test_rates_are_those_of_the_events(ran):
    statistics = replanned(ran).statistics
    for name in "ABCD":
        assert statistics.rates[name] == pytest.approx(125, rel=0.1)
    assert statistics.events == EVENTS
    assert statistics.span == pytest.approx(EVENTS / 1000, rel=0.01)
    assert statistics.source == "running"


def test_a_selectivity_follows_from_the_rows_of_its_query(ran):
    found = replanned(ran).statistics.selectivities["A.x < B.x"]
    assert found == pytest.approx(0.5, rel=0.2)  # of two numbers that are drawn alike


def test_the_new_plan_predicts_what_the_run_took(ran):
    document, bound, before, report = ran
    # As if every operator that took anything had taken 20 ms.
    operators = [o | {"cpu_seconds": 0.02 if o["cpu_seconds"] else 0} for o in report["operators"]]
    statistics, costs = replanned((document, bound, before, report | {"operators": operators}))
    plan = make_plan(bound, document, statistics=statistics, unit_costs=costs)
    assert costs.source == f"a run of {EVENTS:,} events"
    seconds = EVENTS / 1000
    for kind in ("scan", "partition"):
        (expected,) = (o.cost for o in plan.operators if o.kind == kind)
        assert expected * seconds / 1e9 == pytest.approx(0.02, rel=0.1)


def test_a_report_is_told_from_a_plan(ran):
    _, _, plan, report = ran
    assert is_report(report)
    assert not is_report(to_json(plan))
    assert not is_report([])


def test_a_report_without_events_is_refused(ran):
    _, bound, plan, report = ran
    with pytest.raises(ReportError, match="no events"):
        from_report(report | {"events": 0}, bound, bound.statistics, DEFAULTS, lambda *_: plan)


def test_the_command_plans_from_a_report(ran, tmp_path):
    import yaml

    document, _, _, report = ran
    (tmp_path / "w.yaml").write_text(yaml.safe_dump(document))
    (tmp_path / "report.json").write_text("some progress\n" + json.dumps(report) + "\n")
    command = ["plan", str(tmp_path / "w.yaml"), "--from", str(tmp_path / "report.json")]
    done = CliRunner().invoke(app, [*command, "--format", "json"])
    assert done.exit_code == 0, done.output
    assert f"known: measured by a run of {EVENTS:,} events" in done.stderr
    plan = json.loads(done.stdout)
    assert plan["statistics"]["source"] == "running"
    assert plan["rates"]["A"] == pytest.approx(125, rel=0.1)
