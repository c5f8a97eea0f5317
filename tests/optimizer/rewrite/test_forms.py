"""The forms that a planner may choose from, and which events exclude each other."""

from __future__ import annotations

import pytest

from optimizer.bind.binder import load_bound
from optimizer.ir.pattern import events
from optimizer.rewrite.body import Body, print_body
from optimizer.rewrite.exclusion import exclusive
from optimizer.rewrite.normalize import alternative_forms, normalize_query
from tests.optimizer.rewriting import bound


def forms(text: str) -> list[tuple[tuple[str, ...], bool]]:
    workload = bound(text)
    found = alternative_forms(workload.queries[0], workload.stream)
    return [(form.rules, form.is_projected) for form in found]


def test_the_planning_form_comes_first() -> None:
    workload = bound("SEQ(A a, SEQ(B b, OR(D d, C c)))")
    first, *others = alternative_forms(workload.queries[0], workload.stream)
    assert first.query == normalize_query(workload.queries[0])
    assert [print_body(Body(form.query.pattern)) for form in others] == [
        "OR(SEQ(A a, B b, C c), SEQ(A a, B b, D d))"
    ]


def test_a_plain_sequence_has_no_other_form() -> None:
    assert forms("SEQ(A a, !B b, C c)") == [((), False)]


def test_each_rule_gives_a_form_of_its_own() -> None:
    assert forms("SEQ(A a, !SEQ(B b, C c), D d)") == [((), False), (("push-down",), True)]
    assert forms("SEQ(A a, !AND(B b, C c), D d)") == [((), False), (("negated-and",), True)]
    assert forms("SEQ(A a, OR(B b, C c))") == [((), False), (("distribute",), False)]


def test_several_rules_together_give_another() -> None:
    text = "OR(SEQ(A a, !SEQ(B b, C c), D d), SEQ(A a2, !AND(B b2, C c2), OR(X x, D d2)))"
    assert forms(text) == [
        ((), False),
        (("distribute",), False),
        (("distribute", "push-down"), True),
        (("negated-and",), True),
        (("distribute", "push-down", "negated-and"), True),
    ]


def test_without_the_stream_no_types_are_known_to_exclude_each_other() -> None:
    query = bound("SEQ(A a, !AND(B b, C c), D d)").queries[0]
    assert len(alternative_forms(query)) == 1


STREAM = {
    "time": "ts",
    "type": "kind",
    "types": {
        "View": None,
        "Buy": None,
        "ViewBook": "kind = 'View' AND item = 'book'",
        "ViewCase": "kind = 'View' AND item = 'case'",
        "Cheap": "price < 5",
    },
}


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ("View x", "Buy y", True),
        ("ViewBook x", "ViewCase y", True),
        ("ViewBook x", "Buy y", True),
        ("ViewBook x", "View y", False),
        ("Cheap x", "Buy y", False),
        ("Buy x", "Buy y", False),
    ],
)
def test_types_that_exclude_each_other(first: str, second: str, expected: bool) -> None:
    text = f"PATTERN SEQ({first}, {second}) RETURN x WITHIN 1 s"
    workload = load_bound({"stream": STREAM, "queries": [text]})
    one, other = (event.symbol for event in events(workload.queries[0].pattern))
    assert exclusive(one, other, workload.stream) is expected
    assert exclusive(other, one, workload.stream) is expected


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ("x.item = 'a' AND y.item = 'b'", True),
        ("x.item = 'a' AND y.item = 'a'", False),
        ("x.item = 'a' AND y.price = 1", False),
        ("x.price = 1 AND y.price = 1.0", False),
        ("x.item = 'a' AND y.item != 'a'", False),
    ],
)
def test_constants_that_exclude_each_other(where: str, expected: bool) -> None:
    text = f"PATTERN SEQ(Buy x, Buy y) WHERE {where} RETURN x WITHIN 1 s"
    workload = load_bound({"stream": STREAM, "queries": [text]})
    one, other = (event.symbol for event in events(workload.queries[0].pattern))
    assert exclusive(one, other, workload.stream) is expected
