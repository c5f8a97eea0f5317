"""The registry of engines: what plans can name."""

from __future__ import annotations

import ast
from dataclasses import replace
from pathlib import Path
from typing import get_args

import pytest

from optimizer.bind.binder import load_bound
from optimizer.engines import COUNTING, ENGINES, PASSING, counting_engine, engine, label, takes
from optimizer.ir.query import Window
from optimizer.plan.groups import CountingGroup, Group, PassGroup, group_type

ROOT = Path(__file__).parents[2]
QUERIES = {
    "chain": "SEQ(A a, !C c, B b) AGG COUNT(*) WITHIN 1 min",
    "slides": "SEQ(A a, B b) AGG COUNT(*) WITHIN 1 min SLIDE 10 s",
    "either": "SEQ(A a, OR(B b, C c)) AGG COUNT(*) WITHIN 1 min",
    "tied": "SEQ(A a, B b) WHERE a.x < b.x AGG COUNT(*) WITHIN 1 min",
    "single": "A a AGG SUM(a.x) WITHIN 1 min",
    "latest": "SEQ(A a, B b) STRATEGY LATEST RETURN a",
    "situations": "S DEFINE S AS x > 1 RETURN S WITHIN 1 min",
    "alone": "A a RETURN a WITHIN 1 min",
    "strict": "SEQ(A a, : B b) AGG COUNT(*) WITHIN 1 min SLIDE 10 s",
}
BOUND = load_bound(
    {
        "name": "nine",
        "stream": {"time": "ts", "unit": "ms", "type": "kind"},
        "queries": [f"QUERY {name} PATTERN {text}" for name, text in QUERIES.items()],
    }
)


def test_names_are_unique_and_the_kinds_of_groups_are_theirs() -> None:
    names = [each.NAME for each in ENGINES]
    assert len(set(names)) == len(names)
    counting = {each.NAME for each in COUNTING}
    kinds = {group_type({"engine": name}) for name in names}
    assert kinds == set(get_args(Group)) - (set() if PASSING else {PassGroup})
    assert {n for n in names if group_type({"engine": n}) is CountingGroup} == counting
    assert all(label(name) == each.LABEL for name, each in zip(names, ENGINES, strict=True))
    assert engine("other") is None


@pytest.mark.parametrize(
    ("name", "takes_them"),
    [
        ("product", ["chain", "slides", "either", "single", "strict"]),
        ("aseq", ["chain", "slides", "single", "strict"]),
        ("pretree", ["chain", "slides", "single", "strict"]),
        ("chopconnect", ["chain", "slides", "single", "strict"]),
        ("sem", ["chain", "slides", "either", "single", "strict"]),
        ("panes", ["slides", "strict"]),
        ("folds", ["single"]),
        ("fenwick", ["tied"]),
        ("runs", ["strict"]),
        ("trees", ["chain", "slides", "either", "tied", "single", "alone", "strict"]),
        ("deferred-trees", ["chain", "slides", "either", "tied", "single", "alone", "strict"]),
        ("stepwise", ["chain", "slides", "either", "tied", "single", "alone", "strict"]),
        ("compact", ["alone"]),
        ("latest", ["latest"]),
        ("situations", ["situations"]),
        ("selection", ["alone"]),
    ],
)
def test_an_engine_refuses_what_it_cannot_run(name: str, takes_them: list[str]) -> None:
    found = engine(name)
    assert found is not None
    assert [q.name for q in BOUND.queries if found.refusal(q) is None] == takes_them
    if name in {each.NAME for each in COUNTING}:
        chain, slides = BOUND.query("chain"), BOUND.query("slides")
        assert takes(counting_engine(name), [chain, slides]) == (
            name not in ("panes", "folds", "sem", "fenwick", "runs")
        )
        counts = replace(chain, window=Window(5, is_count=True))
        assert not takes(counting_engine(name), [chain, counts])


def test_names_of_engines_are_spelled_in_their_own_modules_alone() -> None:
    """But for the model of Qi's thesis, which has the name of an engine."""
    names = {each.NAME for each in COUNTING} - {"aseq"}
    spelled = {
        str(path.relative_to(ROOT))
        for folder in ("optimizer", "sharing")
        for path in (ROOT / folder).rglob("*.py")
        if path.parent.name != "engines"
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and node.value in names
    }
    assert spelled == set()
