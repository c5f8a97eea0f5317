"""How many rows a plan expects of windows that are longer than the stream, and what it warns of."""

import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

from engines.input.event_table import from_table
from engines.statistics.measure import measure, sample_files
from optimizer.bind.binder import load_bound
from optimizer.explain.text import render_text, row_warnings
from optimizer.plan.plan import Plan
from optimizer.statistics import Statistics
from sharing.planner import make_plan
from workloads.loading import load_workload


def payments(size: int) -> pa.Table:
    random = np.random.default_rng(1)
    return pa.table(
        {
            "time": np.arange(size) * 1_000,
            "kind": random.choice(["pay", "fail", "refund", "other"], size),
        }
    )


def document(*queries: str) -> dict[str, object]:
    return {
        "name": "payments",
        "stream": {"time": "time", "unit": "ms", "type": "kind"},
        "queries": [f"QUERY q{i} PATTERN {text}" for i, text in enumerate(queries)],
    }


def planned(text: str, size: int) -> Plan:
    workload = load_bound(document(text))
    events = from_table(payments(size), workload.stream)
    return make_plan(workload, {}, statistics=measure(workload, events))


def expected_rows(plan: Plan) -> float:
    (output,) = (operator for operator in plan.operators if operator.kind == "output")
    assert output.rows is not None
    return output.rows * plan.statistics["span"]


@pytest.mark.parametrize("window", ["10 hours", "365 days"])
def test_a_window_longer_than_the_stream_holds_no_more_than_the_stream(window: str) -> None:
    size = 4_000  # a little more than an hour
    kinds = np.array(payments(size)["kind"].to_pylist())
    pairs = np.cumsum(kinds == "pay") * (kinds == "fail")
    triples = np.cumsum(pairs) * (kinds == "refund")
    for pattern, rows in (
        ("pay a, fail b", pairs.sum()),
        ("pay a, fail b, refund c", triples.sum()),
    ):
        plan = planned(f"SEQ({pattern}) RETURN a WITHIN {window}", size)
        assert expected_rows(plan) == pytest.approx(float(rows), rel=0.15)


def test_windows_that_slide_behind_the_end_of_the_stream_are_expected() -> None:
    plan = planned("SEQ(pay a, fail b) AGG COUNT(*) WITHIN 10 hours SLIDE 1 s", 100)
    # Every second of ten hours, but for the first few of the stream.
    assert expected_rows(plan) == pytest.approx(36_000 + 100, rel=0.05)


def test_many_rows_are_warned_of_with_their_number() -> None:
    plan = planned("SEQ(pay a, fail b, refund c) RETURN a WITHIN 365 days", 4_000)
    (warning,) = row_warnings(plan)
    numbers = re.match(r"query q0 is expected to give about ([\d,]+) rows, ([\d,]+) for", warning)
    assert numbers is not None
    kinds = np.array(payments(4_000)["kind"].to_pylist())
    rows = (np.cumsum(np.cumsum(kinds == "pay") * (kinds == "fail")) * (kinds == "refund")).sum()
    assert int(numbers[1].replace(",", "")) == pytest.approx(rows, rel=0.15)
    assert int(numbers[2].replace(",", "")) == pytest.approx(rows / 4_000, rel=0.15)
    for remedy in ("--row-limit", "shorten its window (365 day)", "by a key"):
        assert remedy in warning
    shown = " ".join(render_text(plan).split())
    assert f"warning {warning}" in shown


def test_few_rows_are_not_warned_of() -> None:
    for window in ("1 min", "365 days"):
        plan = planned(f"SEQ(pay a, fail b) RETURN a WITHIN {window}", 400)
        assert not list(row_warnings(plan))
        assert "warning" not in render_text(plan)


def test_what_is_only_assumed_is_not_warned_of() -> None:
    stream = {"time": "time", "unit": "ms", "type": "kind", "sequence": "n"}
    text = "SEQ(pay a, fail b, refund c) RETURN a WITHIN 1000 events"
    plan = make_plan(load_bound({**document(text), "stream": stream}), {})
    assert plan.assumed
    assert not list(row_warnings(plan))


def test_only_a_measured_span_shortens_windows() -> None:
    minute = 60 * 10**9
    assert Statistics(span=10.0, source="sampled").held_seconds(minute) == 10
    assert Statistics(span=10.0, source="running").held_seconds(5 * 10**9) == 5
    assert Statistics(span=10.0, source="given").held_seconds(minute) == 60
    assumed = Statistics(span=10.0, source="sampled", assumed=("events: span",))
    assert assumed.held_seconds(minute) == 60
    assert Statistics(source="sampled").held_seconds(minute) == 60


def test_given_rates_are_warned_of_by_event() -> None:
    rates = {"rates": {"pay": 10.0, "fail": 10.0}, "events": 20, "span": 1.0}
    text = "SEQ(pay a, fail b) RETURN a WITHIN 1 hour"
    plan = make_plan(load_bound({**document(text), "statistics": rates}), {})
    # Each second ten events, each with those of an hour: 360,000 rows of 20 events.
    (warning,) = row_warnings(plan)
    assert warning.startswith("query q0 is expected to give about 18,000 rows for each event:")


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_the_length_of_a_long_file_is_that_of_its_sample_and_the_rest(
    ending: str, tmp_path: Path
) -> None:
    path = str(tmp_path / f"events.{ending}")
    if ending == "csv":
        pyarrow.csv.write_csv(payments(400_000), path)
    else:
        pyarrow.parquet.write_table(payments(400_000), path, row_group_size=20_000)
    workload = load_workload(document("SEQ(pay a, fail b) RETURN a WITHIN 1 min"))
    found = sample_files(workload, path, rows=100_000).statistics
    assert found is not None
    # Text is read ahead of what is sampled, so that the rest seems shorter than it is.
    assert 150_000 < found.events < 450_000
    assert found.events / found.span == pytest.approx(1.0, rel=0.01)
    whole = sample_files(workload, path, rows=500_000).statistics
    assert whole is not None
    assert (whole.events, whole.span) == (400_000, 399_999.0)
