"""The operators of a plan with what a job has counted of each."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from api.jobs.account import Batch, JobAccount, read_account, write_account
from api.jobs.counts import Counting, Counts, counts_of, read_counts
from api.jobs.operators import Counted, Holding, counted
from tests.plans.test_plans import HERE

OPERATORS = json.loads((HERE / "mixed.json").read_text())["operators"]
KEYED = ["counted", "big", "any", "groups", "longer"]
UNKEYED = ["tied", "found", "without"]


def by_what(counts: Counts | None) -> dict[str, Counted]:
    """By the query that an operator's rows come of, or by its kind and what it is about."""
    found = counted(OPERATORS, counts)
    assert [one.id for one in found] == [operator["id"] for operator in OPERATORS]
    return {f"{one.kind} {one.about.split(': S')[0]}": one for one in found}


def numbers(one: Counted) -> tuple[int | None, int | None]:
    return one.rows_in, one.rows_out


def test_without_counts_an_operator_says_what_it_is_and_whom_it_serves() -> None:
    found = by_what(None)
    assert {numbers(one) for one in found.values()} == {(None, None)}
    assert found["scan in the order of ts"].queries == 8
    assert found["partition by user"].queries == 5
    assert found["engine product: big, any, groups"].queries == 3
    assert found["segment B, D"].queries == 3
    assert found["output tied"].queries == 1
    assert (found["sink aggregates"].queries, found["sink matches"].queries) == (6, 2)


def test_a_job_over_stored_events() -> None:
    rows = {"big": 5, "any": 7, "groups": 0, "tied": 2, "found": 11}
    taken = dict.fromkeys(KEYED, 90) | dict.fromkeys(UNKEYED, 110)
    found = by_what(Counts(100, rows, taken))
    assert numbers(found["scan in the order of ts"]) == (100, 100)
    assert numbers(found["partition by user"]) == (90, 90)
    assert numbers(found["partition no key"]) == (110, 110)
    assert numbers(found["engine product: big, any, groups"]) == (90, 12)
    assert numbers(found["join (A ; B)"]) == (110, 2)
    assert numbers(found["output found"]) == (11, 11)
    assert numbers(found["output counted"]) == (0, 0)  # nothing yet is a number too
    # `found` alone gives matches; `without` has none.
    assert numbers(found["sink matches"]) == (11, 11)
    for silent in ("symbol A", "segment B, D", "join (A[x > 6] ; B)"):
        assert numbers(found[silent]) == (None, None)
    assert numbers(by_what(Counts(None, {}, {}))["scan in the order of ts"]) == (None, None)


@pytest.fixture
def account() -> JobAccount:
    """Two batches: `old` is gone after the first, and `big` has come."""
    user = {"key": ["user"], "queries": [name for name in KEYED if name != "big"]}
    none = {"key": [], "queries": UNKEYED}
    first = Batch(
        0,
        1.0,
        events=50,
        bad=1,
        aggregates=9,
        rows={"any": 4, "old": 5},
        routes=(
            {**user, "queries": [*user["queries"], "old"], "arrived": 40, "taken": 30},
            {**none, "arrived": 50, "taken": 45},
        ),
    )
    second = Batch(
        1,
        1.0,
        events=20,
        aggregates=3,
        matches=2,
        rows={"any": 1, "big": 2, "tied": 2},
        groups=(
            {"queries": ["any", "groups", "longer"], "events": 6, "bytes": 600},
            {"queries": ["big"], "events": 3, "bytes": 30},
        ),
        routes=(
            {**user, "queries": KEYED, "arrived": 20, "taken": 25, "waiting": 5},
            {**none, "arrived": 20, "taken": 20, "waiting": 5},
        ),
    )
    return JobAccount().add(first).add(second)


def test_a_stream_whose_queries_change(account: JobAccount) -> None:
    counts = counts_of(account)
    assert counts is not None
    found = by_what(counts)
    assert numbers(found["scan in the order of ts"]) == (71, 70)
    assert found["partition by user"].state == Holding(5, None, 5)
    assert numbers(found["partition by user"]) == (60, 55)
    engine = found["engine product: big, any, groups"]
    assert numbers(engine) == (55, 7)
    # Two states serve it, and one of them `longer` too.
    assert engine.state == Holding(9, 630, 4)
    assert numbers(found["output big"]) == (2, 2)
    assert counts.taken["big"] == 25  # from when it was there
    # What goes to the sink is counted with the rows of queries that are gone.
    assert numbers(found["sink aggregates"]) == (12, 12)
    assert counts_of(JobAccount()) is None


def test_a_batch_that_runs_again_changes_no_number(account: JobAccount, tmp_path: Path) -> None:
    assert account.last is not None
    write_account(tmp_path / "account.json", account)
    again = read_account(tmp_path / "account.json").add(account.last)  # by the next process
    assert again == account
    more = counts_of(account.add(replace(account.last, number=2)))
    assert more is not None
    assert more.rows == {"any": 6, "old": 5, "big": 4, "tied": 4}


def test_what_was_counted_last_is_kept_though_the_job_fails(tmp_path: Path) -> None:
    path = tmp_path / "counts.json"
    assert read_counts(path) is None

    def fail() -> None:
        with Counting(path) as counting:
            counting.put(3, {}, {"any": 3})
            counting.put(None, {"any": 1}, {"any": 5})
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert read_counts(path) == Counts(None, {"any": 1}, {"any": 5})
