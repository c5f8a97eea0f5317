"""Groups that depend on no other component are leaves of trees: their rows are the reference's."""

from __future__ import annotations

from dataclasses import replace
from typing import get_args

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engines.input.event_table import from_table
from engines.reference.oracle import run_oracle
from engines.statistics.measure import measure
from optimizer.bind.binder import load_bound
from optimizer.cost.unit_costs import COMPILED, DEFAULTS
from optimizer.plan.groups import TreeGroup
from optimizer.plan.operators import operators
from optimizer.statistics import given as given_statistics
from optimizer.statistics import with_defaults
from optimizer.trees import Shape, TreeError, best_tree, cost_of, labels_of
from optimizer.trees.build_problem import compile_query
from optimizer.trees.search import solve
from optimizer.trees.tree import free_groups, leaf_groups, to_document
from tests.differential.test_local import multiset
from tests.differential.test_tree_matrix import table_of
from tests.running import How, run_local
from tests.strategies import event_rows, stream_document

PARTS = ["A a", "B b", "C c", "A+ g", "B+ h", "B^2 h", "A^1 g", "ALL C c", "AND(A e, B+ f)"]
CONDITIONS = ["a.x < c.x", "b.x <= c.y", "sum(g.x) > 1", "g.x > 0", "h.y < 2", "a.x = b.x"]


@st.composite
def grouped_queries(draw):
    """A sequence with groups, negations and a condition or two on what it has."""
    parts, taken = [], set()
    for part in draw(st.lists(st.sampled_from(PARTS), min_size=3, max_size=4)):
        aliases = {word[0] for word in part.replace("(", " ").split() if word[0].islower()}
        if not aliases & taken:
            taken |= aliases
            parts.append(part)
            if draw(st.integers(0, 3)) == 0:
                parts.append(f"!D n{len(parts)}")
    if not any(part[1:2] in "+^" for part in parts):
        parts.insert(draw(st.integers(0, len(parts))), "D+ d")
    conditions = [
        text
        for text in draw(st.lists(st.sampled_from(CONDITIONS), max_size=2, unique=True))
        if {text[i - 1] for i, letter in enumerate(text) if letter == "."} <= taken
    ]
    where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
    key = draw(st.sampled_from(["", " PARTITION BY k"]))
    window = draw(st.sampled_from(["3 ms", "6 ms", "5 EVENTS"]))
    names = ", ".join(sorted(taken)) or "d"
    return f"PATTERN SEQ({', '.join(parts)}){where}{key} RETURN {names} WITHIN {window}"


def plan_with(workload, trees):
    """A plan whose queries run by these trees."""
    plan = How(counting=False).plan(workload)
    documents = {
        query.name: to_document(tree, labels_of(query))
        for query, tree in zip(workload.queries, trees, strict=True)
    }
    groups = (TreeGroup(tuple(documents), "", documents),)
    known = with_defaults(given_statistics(workload.statistics, workload.queries), workload.queries)
    graph = operators(workload, groups, known, DEFAULTS, True)
    return replace(plan, groups=groups, operators=graph)


@settings(max_examples=200, deadline=None)
@given(
    grouped_queries(),
    st.sampled_from(get_args(Shape)),
    event_rows(sequence=True, max_size=9),
)
def test_rows_are_those_of_the_reference(text, shape, rows):
    workload = load_bound({"stream": stream_document(True), "queries": [f"QUERY q {text}"]})
    (query,) = workload.queries
    free = free_groups(query)
    known = with_defaults(given_statistics(workload.statistics, workload.queries), workload.queries)
    events = from_table(table_of(workload, rows), workload.stream)
    expected = multiset(run_oracle(workload, events))
    for leaves in {free, frozenset(sorted(free)[:1]), frozenset()}:
        problem = compile_query(query, known, (), COMPILED, leaves)
        try:
            found = solve(problem, shape)
        except TreeError:
            found = solve(problem)
        assert leaf_groups(found.tree) >= leaves
        costed = cost_of(found.tree, query, known, model=COMPILED)
        assert costed.cost == pytest.approx(found.cost)
        plan = plan_with(workload, [found.tree])
        assert multiset(run_local(workload, events, plan=plan)) == expected


def stream(n, rare):
    rng = np.random.default_rng(3)
    kinds = rng.choice(list("ABCD"), n, p=[(1 - rare) / 3, rare, (1 - rare) / 3, (1 - rare) / 3])
    return pa.table({"ts": np.arange(n), "kind": kinds, "x": rng.integers(0, 9, n)})


@pytest.mark.parametrize(("rare", "is_leaf"), [(0.01, True), (0.4, False)])
def test_a_group_is_a_leaf_where_its_events_are_rare(rare, is_leaf):
    text = "SEQ(A a, B+ b, C c, D d) WHERE a.x < d.x RETURN a, b WITHIN 20 ms"
    document = {
        "stream": {"time": "ts", "unit": "ms", "type": "kind"},
        "queries": [f"QUERY q PATTERN {text}"],
    }
    workload = load_bound(document)
    events = from_table(stream(5_000, rare), workload.stream)
    known = measure(workload, events)
    found = best_tree(workload.queries[0], known, model=COMPILED)
    assert (leaf_groups(found.tree) == {"b"}) == is_leaf
    if is_leaf:
        run = run_local(workload, events, plan=How(counting=False).plan(workload, known))
        other = run_local(workload, events, how=How(counting=False, detection="left"))
        assert run.matches.num_rows > 100
        assert multiset(run) == multiset(other)


TIED = {
    "SEQ(A a, B+ b, C c)": {"b"},
    "SEQ(A a, B+ b, C c) WHERE a.x < b.x": set(),
    "SEQ(A a, B+ b, C^3 c) WHERE sum(b.x) > a.x": {"c"},
    "SEQ(A a, ALL B b, C+ c) WHERE c.x > 1": {"c"},
    "SEQ(A a, !N n, B+ b, C c) WHERE n.x = b.x": set(),
    "B+ b": set(),
    "SEQ(A a, !SEQ(C c, D+ d, C e), B b)": set(),
    "SEQ(A a, B+ b)": set(),
}


@pytest.mark.parametrize("text", TIED)
def test_groups_that_other_components_decide_are_no_leaves(text):
    queries = [f"QUERY q PATTERN {text} RETURN a WITHIN 9 ms".replace("RETURN a", "RETURN b")]
    workload = load_bound({"stream": stream_document(), "queries": queries})
    assert free_groups(workload.queries[0]) == TIED[text]
