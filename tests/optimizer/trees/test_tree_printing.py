"""Trees as text and as documents."""

from __future__ import annotations

import json
from typing import Any

import pytest

from optimizer.bind.binder import load_bound
from optimizer.ir.query import Window
from optimizer.statistics import Statistics
from optimizer.trees import (
    AndJoin,
    Closure,
    GivenFragment,
    KSeq,
    Leaf,
    NegTop,
    NSeq,
    OrMerge,
    SeqJoin,
    Shared,
    Tree,
    TreeError,
    best_tree,
    labels_of,
    print_steps,
    print_tree,
    steps_of,
)
from optimizer.trees.tree import Narrowed, from_document, to_document
from workloads.syntax import All, Exactly, Plus

A, B, C, D = map(Leaf, "ABCD")

TREES: list[tuple[Tree, str]] = [
    (SeqJoin(SeqJoin(A, B), C), "((A ; B) ; C)"),
    (AndJoin(A, SeqJoin(B, C)), "(A & (B ; C))"),
    (OrMerge((A, B, C)), "(A | B | C)"),
    (SeqJoin(A, NSeq(C, B, "left")), "(A ; NSEQ(!B ; C))"),
    (SeqJoin(NSeq(A, B, "right"), C), "(NSEQ(A ; !B) ; C)"),
    (NegTop(SeqJoin(A, C), SeqJoin(B, D)), "NEG((A ; C), !(B ; D))"),
    (KSeq(A, (Closure("B", Plus()),), C), "KSEQ(A ; B+ ; C)"),
    (KSeq(None, (Closure("B", Exactly(5)), Closure("C", All())), D), "KSEQ(B^5 ; ALL C ; D)"),
    (KSeq(A, (Closure("B", All()),), None), "KSEQ(A ; ALL B)"),
    (SeqJoin(A, Shared("s1", frozenset({"B", "C"}))), "(A ; <s1>)"),
]


@pytest.mark.parametrize(("tree", "text"), TREES)
def test_a_tree_is_one_line(tree: Tree, text: str) -> None:
    assert print_tree(tree) == text


@pytest.mark.parametrize(("tree", "text"), TREES)
def test_a_tree_survives_json(tree: Tree, text: str) -> None:
    assert from_document(to_document(tree, {"A": "A[x > 1] a"})) == tree


@pytest.mark.parametrize(
    "window", [Window(5), Window(5, is_count=True), Window(6, is_inclusive=True)]
)
def test_the_window_of_a_narrowed_tree_survives_json(window: Window) -> None:
    tree = Narrowed(SeqJoin(A, B), window, (), ())
    assert from_document(json.loads(json.dumps(to_document(tree)))) == tree


def test_a_document_names_operators_and_events() -> None:
    assert to_document(SeqJoin(A, NSeq(C, B, "left")), {"A": "A[x > 1] a"}) == {
        "operator": "SEQ",
        "parts": [
            {"event": "A[x > 1] a", "alias": "A"},
            {
                "operator": "NSEQ",
                "parts": [{"event": "C", "alias": "C"}],
                "negation": {"event": "B", "alias": "B"},
                "side": "left",
            },
        ],
    }


@pytest.mark.parametrize(
    "document",
    [
        {},
        {"operator": "SEQ", "parts": []},
        {"operator": "NSEQ", "parts": [{"event": "A", "alias": "A"}], "side": "up"},
        {
            "operator": "KSEQ",
            "parts": [None, None],
            "closures": [{"alias": "A", "quantifier": "?"}],
        },
    ],
)
def test_a_document_that_is_no_tree_is_refused(document: dict[str, Any]) -> None:
    with pytest.raises(TreeError, match="this is no"):
        from_document(document)


def test_every_operator_shows_its_cost_and_rows() -> None:
    text = (
        "PATTERN SEQ(A a, !B b, C c, D+ d, E e, F f, !G) "
        "WHERE b.x = c.x AND e.y > 4 AND e.x < f.x RETURN a WITHIN 10 s"
    )
    document = {"stream": {"time": "ts", "type": "kind"}, "queries": [text]}
    query = load_bound(document).queries[0]
    statistics = Statistics(
        dict.fromkeys("ABCFG", 1.0) | {"D": 0.4, "E": 4.0},
        {"E.y > 4": 0.25, "B.x = C.x": 0.5, '"E[y > 4]".x < F.x': 0.1},
    )
    given = [GivenFragment("ef", frozenset({"e", "f"}), cost=3.0)]
    found = best_tree(query, statistics, given)
    steps = steps_of(found.tree, query, statistics, given)
    assert "\n" + print_steps(steps, labels_of(query)) == EXPECTED
    assert steps[0].cost == pytest.approx(found.cost)
    assert sum(step.own for step in steps) == pytest.approx(found.cost)


# Between c and <ef>, of which there are 10 * 5 / 2 pairs, lie 4 / 4 events of D: 2^1 - 1 groups.
# Of the 10 * 25 / 2 pairs with a before them 1 - 1/4 * 1/2 have no B between; half of these no G.
EXPECTED = """
NEG of !G  [cost 164.1, rows 54.69]
  SEQ  [cost 234.4, rows 109.4]
    A a  [rows 10]
    KSEQ of D+ d  [cost 50, rows 25]
      NSEQ with !B b on its left  [cost 22.5, rows 10]
        C c  [rows 10]
        B b  [rows 10]
      <ef>  [cost 3, rows 5]
  G  [rows 10]
"""
