"""Workloads that are large or deep on purpose are planned, or refused with a reason, in seconds.

The limits are generous: they tell an hour from a second, and not one second from two.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from optimizer.bind.binder import bind
from optimizer.explain.text import render_text
from optimizer.ir.automaton import countable
from optimizer.plan.plan import Plan
from optimizer.trees.sequence_search import BLOCK_ITEMS
from sharing import planner
from sharing.matching import build_nodes
from sharing.planner import LATE, CostsError, PlanOptions, plan
from workloads.errors import TooLargeError
from workloads.loading import load_workload

HANG_SECONDS = 60.0


def workload(patterns: Iterable[str], gives: str) -> dict[str, Any]:
    queries = [
        f"QUERY q{i} PATTERN {pattern} {gives} WITHIN 1 min" for i, pattern in enumerate(patterns)
    ]
    stream = {"time": "ts", "unit": "s", "type": "type"}
    return {"name": "large", "stream": stream, "queries": queries}


def planned(document: dict[str, Any], **options: Any) -> Plan:
    with not_hanging():
        return plan(bind(load_workload(document)), None, PlanOptions(**options), document).plan


@contextmanager
def not_hanging() -> Iterator[None]:
    """Fails where the work takes more processor time than any of it should."""
    start = time.process_time()
    yield
    assert time.process_time() - start < HANG_SECONDS


def components(number: int, prefix: str = "") -> str:
    return ", ".join(f"T{prefix}{i} a{prefix}{i}" for i in range(number))


def nested_negations(depth: int) -> str:
    found = "SEQ(A a, B b)"
    for i in range(depth):
        found = f"SEQ(A{i} a{i}, !{found}, B{i} b{i})"
    return found


def sequences(number: int, length: int, kinds: int, negations: bool = False) -> list[str]:
    chance = random.Random(1)
    found = []
    for _ in range(number):
        parts = []
        for j in range(length):
            parts.append(f"T{chance.randrange(kinds)} a{j}")
            if negations and j + 1 < length and chance.random() < 0.5:
                parts.append(f"!N{chance.randrange(kinds)} n{j}")
        found.append(f"SEQ({', '.join(parts)})")
    return found


COUNT, RETURN = "AGG COUNT(*)", "RETURN a0"

TOO_MANY_STATES = {
    "an AND of 30": f"AND({components(30)})",
    "an AND of 8 SEQs": "AND("
    + ", ".join(f"SEQ({components(3, f'{i}_')})" for i in range(8))
    + ")",
    "24 nested negations": nested_negations(24),
}


@pytest.mark.parametrize("pattern", TOO_MANY_STATES.values(), ids=TOO_MANY_STATES)
def test_what_takes_too_many_states_to_count_is_constructed(pattern: str) -> None:
    made = planned(workload([pattern], COUNT))
    assert [group.engine for group in made.groups] == ["deferred-trees"]
    assert "its automaton has" in made.groups[0].why


def test_an_and_of_twelve_is_still_counted() -> None:
    asked = bind(load_workload(workload([f"AND({components(12)})"], COUNT))).queries[0]
    with not_hanging():
        assert countable(asked) is None
    more = bind(load_workload(workload([f"AND({components(13)})"], COUNT))).queries[0]
    assert countable(more) == "its automaton has more than 4,096 states"


@pytest.mark.parametrize("gives", [COUNT, RETURN])
def test_an_and_of_three_hundred_is_refused_for_its_costs(gives: str) -> None:
    with pytest.raises(CostsError):
        planned(workload([f"AND({components(300)})"], gives))


@pytest.mark.parametrize("gives", [COUNT, "RETURN a"])
def test_an_and_with_sixty_negations_is_planned(gives: str) -> None:
    absent = ", ".join(f"!N{i} n{i}" for i in range(60))
    assert len(planned(workload([f"AND(A a, B b, {absent})"], gives)).groups) == 1


def depth(tree: Any) -> int:
    if isinstance(tree, dict):
        return max((depth(value) for value in tree.values()), default=0) + ("parts" in tree)
    if isinstance(tree, list):
        return max(map(depth, tree), default=0)
    return 0


def test_the_tree_of_nine_hundred_components_is_shallow_and_not_said_to_be_the_best() -> None:
    made = planned(workload([f"SEQ({components(900)})"], RETURN))
    (group,) = made.groups
    assert depth(group.trees) <= 2 * BLOCK_ITEMS + 900 // BLOCK_ITEMS  # type: ignore[union-attr]
    assert made.status == "feasible"
    with not_hanging():
        assert "a899" in render_text(made, verbose=True)


def test_nine_hundred_components_are_counted() -> None:
    made = planned(workload([f"SEQ({components(900)})"], COUNT))
    assert [group.engine for group in made.groups] == ["product"]


def test_a_long_or_in_a_sequence_is_planned() -> None:
    pattern = f"SEQ(A a, OR({components(300)}), B b)"
    assert len(planned(workload([pattern], COUNT)).groups) == 1


LARGE = {
    "1,000 queries": (sequences(1_000, 6, 40), COUNT),
    "30 of 100 components": (sequences(30, 100, 40), COUNT),
    "10 of 600 components": (sequences(10, 600, 40), COUNT),
    "200 that return matches": (sequences(200, 6, 40), RETURN),
    "10 of 100 components that return matches": (sequences(10, 100, 40), RETURN),
    "100 with negations": (sequences(100, 6, 40, negations=True), RETURN),
    "20 that are equal but for their last of 200": (
        [f"SEQ({components(199)}, L{i} l)" for i in range(20)],
        COUNT,
    ),
}


@pytest.mark.parametrize(("patterns", "gives"), LARGE.values(), ids=LARGE)
def test_large_workloads_are_planned(patterns: list[str], gives: str) -> None:
    made = planned(workload(patterns, gives))
    assert {name for group in made.groups for name in group.queries} == set(made.queries)
    with not_hanging():
        assert render_text(made)


def test_a_plan_that_left_nodes_out_does_not_claim_to_be_the_best(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    document = workload(["SEQ(A a0, B b, C c)", "SEQ(A a0, B b, D d)"], RETURN)
    document["statistics"] = {"rates": dict.fromkeys("ABCD", 2.0)}
    assert planned(document).status == "optimal"
    monkeypatch.setattr(build_nodes, "MAX_NODES", 0)
    made = planned(document)
    assert made.status == "feasible"
    assert made.bound > made.objective


def test_too_many_components_to_join_are_refused_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(planner, "MAX_JOINED", 40)
    assert planned(workload(sequences(4, 10, 40), RETURN))
    with pytest.raises(TooLargeError, match="have 50 components together, and at most 40"):
        planned(workload(sequences(5, 10, 40), RETURN))


def test_when_the_time_is_up_the_rest_is_planned_quickly_and_the_plan_says_so() -> None:
    document = workload(sequences(20, 6, 8), RETURN)
    made = planned(document, seconds=0.0)
    assert made.obstacles == (LATE,)
    assert made.status == "feasible"
    assert set(made.queries) == {name for group in made.groups for name in group.queries}
    assert LATE not in planned(document, seconds=1000.0).obstacles


def test_a_plan_has_the_same_id_in_every_process() -> None:
    script = (
        "import sys, json; from sharing.planner import plan, PlanOptions\n"
        "from optimizer.bind.binder import bind; from workloads.loading import load_workload\n"
        "document = json.loads(sys.stdin.read())\n"
        "options = PlanOptions(solver='cpsat')\n"
        "print(plan(bind(load_workload(document)), None, options, document).plan.id)"
    )
    document = workload([*sequences(12, 5, 6), *sequences(12, 4, 6, negations=True)], COUNT)
    document["statistics"] = {
        "rates": {f"{kind}{i}": 0.2 + 0.1 * i for kind in "TN" for i in range(6)}
    }
    ids = set()
    for seed in ("1", "2", "3"):
        ran = subprocess.run(
            [sys.executable, "-c", script],
            input=json.dumps(document),
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
            timeout=120,
        )
        ids.add(ran.stdout.strip())
    assert len(ids) == 1
