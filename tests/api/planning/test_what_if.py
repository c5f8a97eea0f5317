"""What a plan would be with fewer queries or other windows: as if the workload had been so."""

from dataclasses import replace
from typing import Any

import pytest

from api.planning.what_if import Changes, WhatIfError, other_windows, what_if
from optimizer.plan.load_plan import costs_rest_on
from optimizer.plan.plan import to_json
from sharing.planner import PlanOptions, plan
from workloads.errors import WorkloadError
from workloads.loading import load_workload
from workloads.workload import Workload

FIRST = "QUERY a PATTERN SEQ(View v, Cart c, Buy b) PARTITION BY user AGG COUNT(*) WITHIN 10 min"
DOCUMENT: dict[str, Any] = {
    "name": "shop",
    "stream": {"time": "ts", "type": "action"},
    "statistics": {"rates": {"View": 27.0, "Cart": 3.0, "Buy": 15.0}},
    "queries": [
        FIRST,
        "QUERY b PATTERN SEQ(View v, Cart c) PARTITION BY user AGG COUNT(*) WITHIN 10 min",
        "QUERY c PATTERN SEQ(View v, Cart c, Buy b) RETURN b.price WITHIN 1 min",
        {
            "name": "d",
            "eql": "sequence by user with maxspan=3m [View where true] [Cart where true]",
        },
        {
            "name": "e",
            "sql": "SELECT user, at FROM shop MATCH_RECOGNIZE (PARTITION BY user ORDER BY ts "
            "MEASURES LAST(B.ts) AS at PATTERN (A B) DEFINE A AS action = 'View', "
            "B AS action = 'Buy')",
        },
    ],
}
BOUNDS = (100_000, 10.0)


def planned(workload: Workload, **more: Any) -> dict[str, Any]:
    return to_json(plan(workload, None, PlanOptions(**more)).plan)


PLAN = planned(load_workload(DOCUMENT))


def cost(document: dict[str, Any]) -> float:
    return float(document["cost"]["shared"])


def test_without_changes_it_is_the_same_plan() -> None:
    found = what_if(PLAN, Changes(), *BOUNDS)
    assert found["cost"] == found["before"] == PLAN["cost"]
    assert all(q["cost"] == q["before"] and q["with"] == q["before_with"] for q in found["queries"])


def test_it_costs_what_the_changed_workload_costs() -> None:
    texts = DOCUMENT["queries"]
    fewer = load_workload(DOCUMENT | {"queries": [texts[0], *texts[2:]]})
    found = what_if(PLAN, Changes(without=("b",)), *BOUNDS)
    assert found["cost"]["shared"] == pytest.approx(cost(planned(fewer)))
    assert [q["name"] for q in found["queries"]] == ["a", "c", "e", "d"]
    assert found["queries"][0]["before_with"] == ["b"]
    assert found["queries"][0]["with"] == []
    assert "b" not in found["picture"].split('data-query="')[1].split('"')[0].split()

    other = FIRST.replace("10 min", "2 hour")
    longer = load_workload(DOCUMENT | {"queries": [other, *texts[1:]]})
    found = what_if(PLAN, Changes(windows={"a": "2 hour"}), *BOUNDS)
    assert found["cost"]["shared"] == pytest.approx(cost(planned(longer)))
    assert found["cost"]["shared"] > cost(PLAN)


def test_statistics_are_those_of_the_plan_whoever_gave_them() -> None:
    workload = load_workload(DOCUMENT)
    statistics, _ = costs_rest_on(PLAN)
    busy = replace(statistics, rates={name: 100 * rate for name, rate in statistics.rates.items()})
    measured = to_json(plan(workload, busy, PlanOptions(sharing=False)).plan)
    found = what_if(measured, Changes(), *BOUNDS)
    assert found["cost"] == measured["cost"] != PLAN["cost"]


def test_windows_of_others_are_tried_and_only_such_as_differ() -> None:
    found = other_windows(PLAN, "c", *BOUNDS)
    assert {each["window"]: each["of"] for each in found} == {"3 min": ["d"], "10 min": ["a", "b"]}
    costs = [each["cost"]["shared"] for each in found]
    assert costs == sorted(costs)
    for each in found:
        again = what_if(PLAN, Changes(windows={"c": each["window"]}), *BOUNDS)
        assert again["cost"] == each["cost"]
    assert [each["window"] for each in other_windows(PLAN, "d", *BOUNDS)] == ["1 min", "10 min"]
    with pytest.raises(WhatIfError, match="part of its text in sql"):
        other_windows(PLAN, "e", *BOUNDS)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (Changes(without=("f",)), "no query 'f'"),
        (Changes(without=tuple("abcde")), "no query is left"),
        (Changes(windows={"a": "10 mim"}), "'10 mim' is no window for 'a': unknown unit 'mim'"),
        (Changes(windows={"a": "1 s SLIDE 1 s"}), "is no window for 'a'"),
        (
            Changes(windows={"e": "1 s"}),
            "the window of 'e' cannot be changed: it is part of its text",
        ),
    ],
)
def test_what_cannot_be_changed_is_named(changes: Changes, said: str) -> None:
    with pytest.raises(WhatIfError, match=said):
        what_if(PLAN, changes, *BOUNDS)


def test_a_window_that_holds_nothing_is_an_error_of_the_query() -> None:
    with pytest.raises(WorkloadError, match="holds no event"):
        what_if(PLAN, Changes(windows={"a": "-1 s"}), *BOUNDS)
