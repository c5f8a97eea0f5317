"""Plans as golden files, and run: text and JSON beside each workload of this folder.

`REGENERATE=1 pytest tests/plans` writes them anew; read the difference before you commit it. The
plan's id is left out, and numbers may differ in their last digits, as processors do.
"""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from engines.counting import chopconnect
from engines.input.event_table import Events, from_table
from engines.reference.oracle import run_oracle
from engines.results.tables import Results
from optimizer.bind.binder import bind, load_bound
from optimizer.explain.query_text import render_query
from optimizer.explain.text import render_text
from optimizer.ir.query import BoundWorkload
from optimizer.plan.diff import render_change
from optimizer.plan.groups import CountingGroup
from optimizer.plan.plan import (
    Model,
    Plan,
    from_json,
    to_json,
)
from sharing.planner import make_plan
from tests.benchmarks.ways import WAYS, case_of, counting
from tests.running import How, run_local
from workloads import bundled
from workloads.loading import load_workload
from workloads.workload import to_document

HERE = Path(__file__).parent
WORKLOADS = sorted(HERE.glob("*.yaml"))
each = pytest.mark.parametrize("path", WORKLOADS, ids=lambda path: path.stem)


def planned(path: Path) -> Plan:
    workload = load_workload(path)
    model: Model = "aseq" if path.stem == "shared" else "measured"  # the thesis' own choice
    return make_plan(bind(workload), to_document(workload), model=model)


def shown(plan: Plan) -> str:
    return without_id(render_text(plan))


def without_id(text: str) -> str:
    return re.sub(r"plan-[0-9a-f]{12}", "plan-…", text)


def golden(path: Path, ending: str, content: str) -> str:
    beside = path.with_suffix(ending)
    if os.environ.get("REGENERATE"):
        beside.write_text(content, encoding="utf-8")
    return beside.read_text(encoding="utf-8")


def expected_plan(path: Path) -> Plan:
    return from_json(json.loads(path.with_suffix(".json").read_text(encoding="utf-8")))


def near(value: Any) -> Any:
    """Values to compare with: numbers with some tolerance, wherever they are."""
    if isinstance(value, dict):
        return {key: near(one) for key, one in value.items()}
    if isinstance(value, list):
        return [near(one) for one in value]
    return pytest.approx(value, rel=1e-9) if isinstance(value, float) else value


@each
def test_the_text_of_a_plan(path: Path) -> None:
    text = shown(planned(path))
    assert text == golden(path, ".txt", text)


@each
def test_the_json_of_a_plan(path: Path) -> None:
    content = {key: value for key, value in to_json(planned(path)).items() if key != "id"}
    written = golden(path, ".json", json.dumps(content, indent=1, ensure_ascii=False) + "\n")
    assert content == near(json.loads(written))


# --- what people read of the bundled shop ---------------------------------------------------------


def shop(change: Callable[[dict[str, Any]], None] = lambda document: None) -> Plan:
    """The shop's plan, of a changed workload where one is wanted."""
    document = to_document(load_workload(bundled.path("shop")))
    change(document)
    workload = load_workload(document)
    return make_plan(bind(workload), document)


def test_the_text_of_the_shop() -> None:
    text = shown(shop())
    assert text == golden(HERE / "shop.yaml", ".txt", text)


@pytest.mark.parametrize("name", ["q1", "second_thoughts"])
def test_one_querys_way_through_the_shop(name: str) -> None:
    text = without_id(render_query(shop(), name))
    assert text == golden(HERE / "shop.yaml", f".{name}.txt", text)


def test_what_changes_when_queries_come_and_go() -> None:
    def other(document: dict[str, Any]) -> None:
        kept = [text for text in document["queries"] if not text.startswith("QUERY q4")]
        new = "QUERY q6 PATTERN SEQ(VCase, BCase, VLight) PARTITION BY user AGG COUNT(*)"
        document["queries"] = [*kept, f"{new} WITHIN 10 min"]

    text = without_id(render_change(shop(), shop(other)))
    assert text == golden(HERE / "shop.yaml", ".change.txt", text)


# --- what the plans give -------------------------------------------------------------------------


def small_stream(workload: BoundWorkload, seed: int) -> Events:
    """160 events of two users, many of them at the time of another."""
    rng = np.random.default_rng(seed)
    number = 160
    gap = 5 if workload.name == "measured" else 150  # windows are short there
    table = pa.table(
        {
            "ts": pa.array(np.sort(rng.integers(0, number * gap, number)) // gap * gap),
            "kind": pa.array(rng.choice(list("ABCDEF"), number)),
            "user": pa.array(rng.integers(0, 2, number)),
            "x": pa.array(rng.integers(0, 9, number)),
        }
    )
    return from_table(table, workload.stream)


def rows(results: Results) -> tuple[Counter[Any], Counter[Any]]:
    return (
        Counter(tuple(row.values()) for row in results.aggregates.to_pylist()),
        Counter(tuple(row.values()) for row in results.matches.to_pylist()),
    )


@each
@pytest.mark.parametrize("seed", range(3))
def test_a_shared_plan_gives_what_separate_queries_give(path: Path, seed: int) -> None:
    plan = expected_plan(path)
    workload = load_bound(plan.document)
    events = small_stream(workload, seed)
    shared = rows(run_local(workload, events, plan=plan))
    assert shared == rows(run_local(workload, events, how=How(sharing=False)))
    assert {row[0] for part in shared for row in part} == {q.name for q in workload.queries}


def test_a_plan_gives_what_its_queries_mean() -> None:
    """By brute force, where windows are short enough for it."""
    plan = expected_plan(HERE / "assumed.yaml")
    workload = load_bound(plan.document)
    events = small_stream(workload, 0)
    found = run_local(workload, events, plan=plan)
    assert rows(found) == rows(run_oracle(workload, events))


@pytest.mark.parametrize("seed", range(3))
def test_chop_connect_with_the_segments_of_a_plan_gives_the_same(seed: int) -> None:
    plan = expected_plan(HERE / "shared.yaml")
    groups = [g for g in plan.groups if isinstance(g, CountingGroup) and g.engine == "chopconnect"]
    lengths = {
        name: [len(group.segments[number]) for number in numbers]
        for group in groups
        for name, numbers in group.uses.items()
    }
    assert all(len(parts) > 1 for parts in lengths.values())
    workload = load_bound(plan.document)
    queries = [query for query in workload.queries if query.name in lengths]
    assert len(queries) == 4
    case = case_of(workload, queries, small_stream(workload, seed))
    chopped, alone = counting(chopconnect, case, lengths=lengths), WAYS["A-Seq"](case)
    assert chopped.found(chopped.run()) == alone.found(alone.run())
