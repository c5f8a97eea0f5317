"""The form in which queries are planned: what is equal in it, and what it never has."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from optimizer.bind.binder import bind, load_bound
from optimizer.ir.fingerprint import fingerprint
from optimizer.ir.pattern import (
    NEVER,
    Proj,
    rename,
    walk,
)
from optimizer.ir.query import BoundWorkload, Query
from optimizer.rewrite.body import Body, positive_aliases, print_body
from optimizer.rewrite.normalize import normalize_query, normalize_workload, planning_form
from tests.optimizer.rewriting import query_of
from tests.pattern_strategies import FLAT
from tests.strategies import constants_with_rows, workloads
from workloads import expressions as ex
from workloads.loading import read_workload
from workloads.workload import AttributeKind


def planned(text: str) -> str:
    query = normalize_query(query_of(text))
    return print_body(Body(query.pattern, query.conditions))


PAIRS = [
    ("SEQ(A a, SEQ(B b, C c))", "SEQ(A a, B b, C c)"),
    ("SEQ(A a, !OR(B b, C c), D d)", "SEQ(A a, !B b, !C c, D d)"),
    ("SEQ(A a, !C c, !B b, D d)", "SEQ(A a, !B b, !C c, D d)"),
    ("SEQ(A a, AND(!B b, !C c), D d)", "SEQ(A a, !B b, !C c, D d)"),
    ("SEQ(A a, !B b, !B b2, C c)", "SEQ(A a, !B b, C c)"),
    ("SEQ(A a, !B b, !SEQ(B b2, D d), C c)", "SEQ(A a, !B b, C c)"),
    ("SEQ(A a, B b) WHERE b.x > 1 + 1", "SEQ(A a, B b) WHERE b.x > 2"),
    ("SEQ(A a, B b) WHERE b.x IN (2)", "SEQ(A a, B b) WHERE b.x = 2"),
    ("AND(A a, B b, C c)", "AND(B b, A a, C c)"),
    ("AND(A a, AND(B b, C c))", "AND(C c, B b, A a)"),
    ("OR(A a, SEQ(B b, C c))", "OR(SEQ(B b, C c), A a)"),
    ("SEQ(A a, OR(C c, B b))", "SEQ(A a, OR(B b, C c))"),
    ("SEQ(A a, !SEQ(B+ b, C c), D d)", "SEQ(A a, !SEQ(B b, C c), D d)"),
    (
        "SEQ(A a, B b, C c) WHERE a.m = b.m AND b.m = 't'",
        "SEQ(A a, B b, C c) WHERE a.m = 't' AND b.m = 't'",
    ),
]


@pytest.mark.parametrize(("one", "other"), PAIRS)
def test_what_means_the_same_is_planned_as_the_same(one: str, other: str) -> None:
    first, second = normalize_query(query_of(one)), normalize_query(query_of(other))
    assert fingerprint(first) == fingerprint(second)
    assert first == replace(second, output=first.output)


@pytest.mark.parametrize(("one", "other"), PAIRS)
def test_aliases_make_no_difference(one: str, other: str) -> None:
    query = query_of(other)
    names = {name: f"z{name}" for name in "abcd"}
    renamed = replace(
        query,
        pattern=rename(query.pattern, names),
        conditions=tuple(ex.rename(c, names) for c in query.conditions),
    )
    assert fingerprint(normalize_query(query_of(one))) == fingerprint(normalize_query(renamed))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        # A comparison with null is false, and its NOT is true
        ("A a WHERE NOT a.x <= 5", "A a WHERE a.x > 5"),
        ("A a WHERE NOT a.x IN (1, 2)", "A a WHERE a.x NOT IN (1, 2)"),
        ("SEQ(A a, !SEQ(B b, C c), D d)", "SEQ(A a, !AND(B b, C c), D d)"),
        ("SEQ(A a, !B b, D d)", "SEQ(A a, D d, !B b)"),
    ],
)
def test_what_means_something_else_stays_different(one: str, other: str) -> None:
    first, second = normalize_query(query_of(one)), normalize_query(query_of(other))
    assert fingerprint(first) != fingerprint(second)


def test_a_key_that_is_fixed_is_part_of_no_fingerprint_but_its_constants_are() -> None:
    rest = "AGG COUNT(*) WITHIN 9 ms"
    fixed = normalize_query(query_of("SEQ(A a, B b) WHERE a.m = 't' AND [m]", rest))
    local = normalize_query(query_of("SEQ(A a, B b) WHERE a.m = 't' AND b.m = 't'", rest))
    keyed = normalize_query(query_of("SEQ(A a, B b) WHERE [m]", rest))
    assert fingerprint(fixed) == fingerprint(local) != fingerprint(keyed)


def test_ors_are_not_written_out_and_negations_not_pushed_down() -> None:
    for text in ("SEQ(A a, OR(B b, C c), D d)", "SEQ(A a, !SEQ(B b, C c), D d)"):
        assert planned(text) == text


def test_a_query_that_never_matches_keeps_its_components() -> None:
    assert planned("SEQ(A a, B b) WHERE a.x < NULL") == "SEQ(A[FALSE] a, B b)"
    assert planned("OR(A a, B b) WHERE a.x < NULL") == "OR(A[FALSE] a, B b)"


def test_rules_can_be_left_out_by_name() -> None:
    query = query_of("SEQ(A a, SEQ(B b, C c)) WHERE a.m = b.m AND a.m = 't'")
    assert planning_form(query, off=["flatten", "constants"]).trace == ()
    steps = [step.rule for step in planning_form(query).trace]
    assert steps == ["flatten", "constants"]


ANY = st.one_of(
    workloads(),
    workloads(nested=True),
    constants_with_rows().map(lambda case: case[0]),
)


@settings(max_examples=200)
@given(ANY)
def test_a_planning_form_is_its_own_and_keeps_what_is_returned(workload: BoundWorkload) -> None:
    found = normalize_workload(workload)
    assert normalize_workload(found) == found
    for query, form in zip(workload.queries, found.queries, strict=True):
        assert planning_form(form).trace == ()
        assert form.pattern != NEVER
        assert not any(isinstance(node, Proj) for node in walk(form.pattern))
        assert positive_aliases(form.pattern) == positive_aliases(query.pattern)
        assert [name for name, _ in form.result_key] == list(query.key)
        assert (
            replace(
                form,
                pattern=query.pattern,
                conditions=query.conditions,
                key=query.key,
                fixed_key=(),
            )
            == query
        )


@settings(max_examples=100)
@given(workloads(replace(FLAT, local=False, constants=False, ties=False, group_conditions=False)))
def test_what_is_left_alone_is_what_no_rule_changes(workload: BoundWorkload) -> None:
    for query in workload.queries:
        assert normalize_query(query) == planning_form(query).query


# --- bundled workloads ---------------------------------------------------------------------------

BUNDLED = Path(__file__).parents[3] / "workloads" / "bundled"
COLUMNS: dict[str, AttributeKind] = {
    "ts": "int",
    "seq": "int",
    "action": "string",
    "item": "string",
    "user": "string",
    "price": "float",
    "model": "string",
    "campaign": "string",
}


def test_the_columns_of_the_events_change_nothing() -> None:
    workload, _ = read_workload(BUNDLED / "shop.yaml")
    assert workload is not None
    assert normalize_workload(bind(workload)) == normalize_workload(bind(workload, COLUMNS))


def test_the_shops_query_of_one_model_is_keyed_by_user() -> None:
    query: Query = normalize_workload(load_bound(BUNDLED / "shop.yaml")).query("touch_case")
    assert query.key == ("user",)
    assert query.result_key == (("user", None), ("model", "touch"))
    assert print_body(Body(query.pattern, query.conditions)) == (
        "SEQ(VKindle[model = 'touch'] vk, BKindle[model = 'touch'] bk, "
        "VCase[model = 'touch'] vc, BCase[model = 'touch'] bc)"
    )
