"""The operators of a plan with what a job has counted of each."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from api.jobs.account import BatchAccount, JobAccount, read_account, write_account
from api.jobs.counts import CountWriter, JobCounts, counts_of, read_counts
from api.jobs.operators import HeldState, JobOperator, job_operators
from optimizer.bind.binder import bind
from optimizer.plan.plan import to_json
from sharing.planner import make_plan
from workloads.loading import load_workload

DOCUMENT: Mapping[str, Any] = {
    "name": "mixed",
    "stream": {"time": "ts", "unit": "ms", "type": "kind"},
    "statistics": {"rates": {"A": 2.0, "B": 3.0, "C": 0.5, "D": 1.0}, "events": 65, "span": 10.0},
    "queries": [
        "QUERY big PATTERN SEQ(A a, B b, D d) WHERE [user] AND a.x > 3 AGG COUNT(*) WITHIN 4 s",
        "QUERY any PATTERN SEQ(A a, B b, D d) WHERE [user] AGG COUNT(*), MAX(d.x) WITHIN 4 s",
        "QUERY tied PATTERN SEQ(A a, B b) WHERE a.x < b.x AGG COUNT(*) WITHIN 2 s",
        "QUERY found PATTERN SEQ(A a, C c) RETURN a.x WITHIN 2 s",
    ],
}
KEYED, UNKEYED = ["big", "any"], ["tied", "found"]
PLAN = make_plan(bind(load_workload(DOCUMENT)), DOCUMENT)
OPERATORS = to_json(PLAN)["operators"]


def id_of(kind: str, about: str = "") -> str:
    """The operator of this kind whose details have this text."""
    (found,) = (o["id"] for o in OPERATORS if o["kind"] == kind and about in str(o["detail"]))
    return str(found)


SCAN, CONDITIONS = id_of("scan"), id_of("conditions")
COUNTER, JOIN = id_of("counter"), id_of("join", "(A ; B)")


def totals(*counted: tuple[str, int, int, int]) -> dict[str, dict[str, int]]:
    """Rows in, rows out and milliseconds, as an engine's account has them."""
    return {
        "rows_in": {id: rows for id, rows, _, _ in counted},
        "rows_out": {id: rows for id, _, rows, _ in counted},
        "nanoseconds": {id: spent * 1_000_000 for id, _, _, spent in counted},
    }


def by_what(counts: JobCounts | None) -> dict[str, JobOperator]:
    """By kind and what an operator is about, in the plan's order."""
    found = job_operators(OPERATORS, counts)
    assert [one.account.id for one in found][: len(OPERATORS)] == [o["id"] for o in OPERATORS]
    return {f"{one.account.kind} {one.account.about.split(': S')[0]}": one for one in found}


def numbers(one: JobOperator) -> tuple[int | None, int | None]:
    return one.account.rows_in, one.account.rows_out


def test_without_counts_an_operator_says_what_it_is_and_whom_it_serves() -> None:
    found = by_what(None)
    assert {numbers(one) for one in found.values()} == {(None, None)}
    assert {one.account.cpu_seconds for one in found.values()} == {None}
    assert {one.account.predicted_seconds for one in found.values()} == {None}
    assert found["scan in the order of ts"].account.queries == 4
    assert found["conditions 5 symbols"].account.queries == 4
    assert found["partition by user"].account.queries == 2
    assert found["counter product: big, any"].account.queries == 2
    assert found["output tied"].account.queries == 1
    assert found["sink aggregates"].account.queries == 3
    assert found["sink matches"].account.queries == 1


def test_a_job_over_stored_events() -> None:
    rows = {"big": 5, "any": 7, "tied": 2, "found": 11}
    counted = totals((COUNTER, 90, 12, 30), (JOIN, 110, 2, 4), (SCAN, 0, 0, 1))
    found = by_what(JobCounts(130, rows, counted))
    assert numbers(found["scan in the order of ts"]) == (130, 130)
    counter = found["counter product: big, any"].account
    assert (counter.rows_in, counter.rows_out, counter.cpu_seconds) == (90, 12, 0.03)
    assert numbers(found["join (A ; B)"]) == (110, 2)
    assert numbers(found["output found"])[1] == 11
    assert numbers(found["sink aggregates"]) == (14, 14)
    assert numbers(found["sink matches"]) == (11, 11)
    assert numbers(by_what(JobCounts(None, {}, {}))["scan in the order of ts"]) == (None, None)


def test_what_is_predicted_follows_the_events_that_were_read() -> None:
    # The stream has 6.5 events a second: 130 events are 20 seconds of it.
    found = by_what(JobCounts(130, {}, {}))
    (cost,) = (o["cost"] for o in OPERATORS if o["id"] == COUNTER)
    (rows,) = (o["rows"] for o in OPERATORS if o["id"] == COUNTER)
    counter = found["counter product: big, any"].account
    assert counter.predicted_seconds == pytest.approx(20 * cost / 1e9)
    assert counter.predicted_rows == pytest.approx(20 * rows)
    assert counter.cpu_seconds == 0.0


def test_without_a_rate_of_all_events_predictions_follow_the_time_that_they_span() -> None:
    (scan,) = (o for o in OPERATORS if o["id"] == SCAN)
    unknown = [{**o, "rows": None} if o is scan else o for o in OPERATORS]
    for report, seconds in (({"span_seconds": 20.0}, 20.0), ({}, None)):
        found = job_operators(unknown, JobCounts(130, {}, {}, report=report))
        (counter,) = (one.account for one in found if one.account.id == COUNTER)
        (cost,) = (o["cost"] for o in OPERATORS if o["id"] == COUNTER)
        expected = None if seconds is None else pytest.approx(seconds * cost / 1e9)
        assert counter.predicted_seconds == expected


def test_a_union_passes_on_what_the_readings_of_an_or_find() -> None:
    joins = [o["id"] for o in OPERATORS if o["kind"] == "join"][:2]
    union = {"id": "union-a", "kind": "union", "inputs": joins, "detail": {"pattern": "A | B"}}
    counted = totals((joins[0], 9, 2, 1), (joins[1], 9, 3, 1))
    operators = [*OPERATORS, {**union, "cost": 0.0, "rows": None}]
    found = job_operators(operators, JobCounts(130, {}, counted))
    (passed,) = (one for one in found if one.account.id == "union-a")
    assert numbers(passed) == (5, 5)


def test_operators_of_a_plan_of_an_earlier_version_are_listed() -> None:
    engine = {"id": "engine-a", "kind": "engine", "inputs": [], "detail": {}, "cost": 0, "rows": 1}
    assert [one.account.about for one in job_operators([OPERATORS[0], engine], None)][1:] == [""]


def test_an_operator_that_ran_in_place_of_a_planned_one_is_listed_behind_them() -> None:
    counted = totals((COUNTER, 90, 12, 30), ("join-0123456789ab", 7, 3, 2))
    *planned, other = job_operators(OPERATORS, JobCounts(130, {}, counted))
    assert [one.account.id for one in planned] == [o["id"] for o in OPERATORS]
    assert not any(one.account.unplanned for one in planned)
    assert (other.account.id, other.account.kind) == ("join-0123456789ab", "join")
    assert (numbers(other), other.account.cpu_seconds) == ((7, 3), 0.002)
    assert other.account.unplanned


@pytest.fixture
def account() -> JobAccount:
    """Two batches: `old` is gone after the first, and `big` has come."""
    user = {"key": ["user"], "queries": ["any"]}
    none = {"key": [], "queries": UNKEYED}
    first = BatchAccount(
        0,
        1.0,
        events=50,
        bad=1,
        aggregates=9,
        rows={"any": 4, "old": 5},
        routes=(
            {**user, "queries": ["any", "old"], "arrived": 40, "taken": 30},
            {**none, "arrived": 50, "taken": 45},
        ),
        operators=totals((COUNTER, 30, 4, 10), ("counter-ofthepast", 30, 5, 3)),
        fallbacks=("it is so",),
    )
    second = BatchAccount(
        1,
        1.0,
        events=20,
        aggregates=3,
        matches=2,
        rows={"any": 1, "big": 2, "tied": 2},
        groups=(
            {"queries": ["any", "old"], "events": 6, "bytes": 600},
            {"queries": ["big"], "events": 3, "bytes": 30},
        ),
        routes=(
            {**user, "queries": KEYED, "arrived": 20, "taken": 25, "waiting": 5},
            {**none, "arrived": 20, "taken": 20, "waiting": 5},
        ),
        operators=totals((COUNTER, 25, 3, 5)),
        fallbacks=("it is so", "and so"),
        trees=({"what": "changed"},),
    )
    return JobAccount().add(first).add(second)


def test_a_stream_whose_queries_change(account: JobAccount) -> None:
    counts = counts_of(account)
    assert counts is not None
    found = by_what(counts)
    assert numbers(found["scan in the order of ts"]) == (71, 70)
    assert found["partition by user"].state == HeldState(5, None, 2)
    assert numbers(found["partition by user"]) == (60, 55)
    counter = found["counter product: big, any"]
    assert (numbers(counter), counter.account.cpu_seconds) == ((55, 7), 0.015)
    # Two states serve it, and one of them `old` too.
    assert counter.state == HeldState(9, 630, 3)
    assert numbers(found["output big"])[1] == 2
    # What goes to the sink is counted with the rows of queries that are gone.
    assert numbers(found["sink aggregates"]) == (12, 12)
    # An operator of the plan before is still accounted for.
    assert found["counter not in this plan"].account.cpu_seconds == 0.003
    assert counts.report == {"fallbacks": ["it is so", "and so"], "trees": [{"what": "changed"}]}
    assert counts_of(JobAccount()) is None


def test_a_batch_that_runs_again_changes_no_number(account: JobAccount, tmp_path: Path) -> None:
    assert account.last is not None
    write_account(tmp_path / "account.json", account)
    again = read_account(tmp_path / "account.json").add(account.last)  # by the next process
    assert again == account
    more = counts_of(account.add(replace(account.last, number=2)))
    assert more is not None
    assert more.rows == {"any": 6, "old": 5, "big": 4, "tied": 4}
    assert more.operators["rows_in"][COUNTER] == 80


def test_what_was_counted_last_is_kept_though_the_job_fails(tmp_path: Path) -> None:
    path = tmp_path / "counts.json"
    assert read_counts(path) is None

    def fail() -> None:
        with CountWriter(path) as counting:
            counting.put(3, {}, totals((COUNTER, 3, 0, 1)))
            counting.put(None, {"any": 1}, totals((COUNTER, 5, 1, 2)))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert read_counts(path) == JobCounts(None, {"any": 1}, totals((COUNTER, 5, 1, 2)))
