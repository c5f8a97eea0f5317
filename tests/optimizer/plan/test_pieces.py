"""What groups compute once, and which pieces make up a query."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from optimizer.explain.blocks import Flow, flows
from optimizer.plan.groups import CountingGroup, Group
from optimizer.plan.lineage import (
    SharedSteps,
    computed_once,
    cover,
    is_part,
    shared_steps_of,
    steps_of,
    with_widest,
)
from optimizer.plan.load_plan import load_plan
from optimizer.plan.plan import to_json
from tests.optimizer.plan.test_plan import SHARED, plan_of

FOUR = {
    **SHARED,
    "queries": [
        "QUERY one PATTERN SEQ(A a, B b, C c) AGG COUNT(*) WITHIN 1 min",
        "QUERY two PATTERN SEQ(D d, B b, C c) AGG COUNT(*) WITHIN 1 min",
        "QUERY three PATTERN SEQ(D d, A a, B b) AGG COUNT(*) WITHIN 1 min",
        "QUERY alone PATTERN SEQ(D d, B b, C c) PARTITION BY k AGG COUNT(*) WITHIN 1 min",
    ],
}


@st.composite
def words(draw: st.DrawFn) -> dict[str, tuple[str, ...]]:
    several = draw(st.lists(st.text("ABC", min_size=2, max_size=7), min_size=2, max_size=6))
    return {f"q{i}": tuple(word) for i, word in enumerate(several)}


def common(words: dict[str, tuple[str, ...]]) -> list[SharedSteps]:
    """Every stretch of two letters or more that two words have, by looking at all of them."""
    found: dict[tuple[str, ...], list[str]] = {}
    for name, word in words.items():
        for i in range(len(word)):
            for j in range(i + 2, len(word) + 1):
                found.setdefault(word[i:j], []).append(name)
    unique = {steps: tuple(dict.fromkeys(names)) for steps, names in found.items()}
    return [SharedSteps(steps, names) for steps, names in sorted(unique.items()) if len(names) > 1]


def once(group: Group) -> dict[str, tuple[str, ...]]:
    return {", ".join(steps): queries for steps, queries in shared_steps_of(group).items()}


def test_the_product_computes_all_that_queries_of_a_group_have_in_common() -> None:
    plan = plan_of(FOUR)
    assert once(plan.groups[0]) == {"B, C": ("one", "two"), "A, B": ("one", "three")}
    found = {", ".join(piece.steps): piece.queries for piece in computed_once(plan)[0]}
    assert found == once(plan.groups[0])


def test_the_product_counts_once_for_each_window_and_panes_for_all() -> None:
    tail = {"one": "WITHIN 1 min", "two": "WITHIN 2 min", "three": "WITHIN 2 min"}
    text = "QUERY {} PATTERN SEQ(A a, B b, C c) AGG COUNT(*) {} SLIDE 20 s"
    document = {**SHARED, "queries": [text.format(*each) for each in tail.items()]}
    plan = plan_of(document)
    assert plan.groups[0].queries == tuple(tail)
    pieces = {"product": ("two", "three"), "panes": ("one", "two", "three")}
    for engine, queries in pieces.items():
        edited = to_json(plan)
        edited["groups"][0].update(engine=engine)
        found = {piece.steps: piece.queries for piece in computed_once(load_plan(edited))[0]}
        assert found == {("A", "B", "C"): queries}


def test_other_engines_compute_the_segments_that_several_queries_are_made_of() -> None:
    plan = plan_of(FOUR)
    group = replace(
        plan.groups[0],
        engine="chopconnect",
        segments=(("A",), ("B", "C"), ("D",), ("D", "A", "B")),
        uses={"one": (0, 1), "two": (2, 1), "three": (3,)},
    )
    assert once(group) == {"B, C": ("one", "two")}


def test_a_prefix_tree_computes_what_queries_begin_with_and_aseq_nothing() -> None:
    plan = plan_of(FOUR)
    tree, apart = (replace(plan.groups[0], engine=engine) for engine in ("pretree", "aseq"))
    assert once(tree) == {"D": ("two", "three")}
    assert once(apart) == {}


def test_panes_share_across_windows() -> None:
    plan = plan_of(FOUR)
    both = replace(
        plan.groups[0],
        engine="panes",
        queries=plan.queries,
        segments=(("A", "B", "C"), ("D", "B", "C"), ("D", "A", "B")),
        uses={"one": (0,), "two": (1,), "three": (2,), "alone": (1,)},
    )
    assert once(both) == {
        "A, B": ("one", "three"),
        "B, C": ("one", "two", "alone"),
        "D, B, C": ("two", "alone"),
    }


@given(words())
def test_the_longest_pieces_are_those_that_no_other_of_the_same_queries_contains(
    words: dict[str, tuple[str, ...]],
) -> None:
    uses = {name: (i,) for i, name in enumerate(words)}
    group = CountingGroup(tuple(words), "product", "", tuple(words.values()), uses=uses)
    every = {"".join(piece.steps): piece.queries for piece in common(words)}
    longest = {
        piece: queries
        for piece, queries in every.items()
        if not any(
            piece != other and piece in other and queries == others
            for other, others in every.items()
        )
    }
    found = shared_steps_of(group)
    assert {"".join(steps): queries for steps, queries in found.items()} == longest


def test_the_steps_of_queries_are_those_of_their_segments() -> None:
    assert steps_of(plan_of(FOUR).groups[0])["two"] == ("D", "B", "C")


@given(words(), st.integers(0, 4))
def test_a_cover_has_at_most_so_many_pieces_and_says_where_they_are(
    words: dict[str, tuple[str, ...]], most: int
) -> None:
    found = cover(common(words), words, most)
    assert len(found.pieces) <= most
    for name, places in found.places.items():
        for at, number in places:
            steps = found.pieces[number].steps
            assert words[name][at : at + len(steps)] == steps
        spans = {at: at + len(found.pieces[number].steps) for at, number in places}
        assert len(spans) == len(places)
        assert list(spans.values()) == sorted(set(spans.values()))
    assert all(found.queries(number) for number in range(len(found.pieces)))


@given(words())
def test_with_room_for_all_no_piece_would_cover_more_in_two_queries(
    words: dict[str, tuple[str, ...]],
) -> None:
    pieces = common(words)
    found = cover(pieces, words, len(pieces))
    free = {name: set(range(len(word))) for name, word in words.items()}
    for name, places in found.places.items():
        for at, number in places:
            free[name] -= set(range(at, at + len(found.pieces[number].steps)))
        assert found.uncovered(name, words[name]) == [words[name][i] for i in sorted(free[name])]
    for piece in pieces:
        size = len(piece.steps)
        more = [
            name
            for name, word in words.items()
            if any(
                word[at : at + size] == piece.steps and free[name] & set(range(at, at + size))
                for at in range(len(word))
            )
        ]
        assert len(more) < 2


def test_the_piece_that_covers_most_comes_first() -> None:
    words = {"q1": tuple("VBCD"), "q2": tuple("VBK"), "q3": tuple("VBCD"), "q5": tuple("IVB")}
    pieces = [SharedSteps(("V", "B"), tuple(words)), SharedSteps(tuple("VBCD"), ("q1", "q3"))]
    found = cover(pieces, words, 5)
    assert [piece.steps for piece in found.pieces] == [tuple("VBCD"), ("V", "B")]
    assert found.places == {"q1": ((0, 0),), "q2": ((0, 1),), "q3": ((0, 0),), "q5": ((1, 1),)}
    assert found.uncovered("q5", words["q5"]) == ["I"]


@given(words(), st.integers(0, 6))
def test_the_widest_pieces_are_added_to_a_cover_as_far_as_there_is_room(
    words: dict[str, tuple[str, ...]], most: int
) -> None:
    pieces = common(words)
    before = cover(pieces, words, most)
    found = with_widest(before, pieces, words, most)
    assert found.pieces[: len(before.pieces)] == before.pieces
    assert len(found.pieces) <= max(most, len(before.pieces))
    for name, places in found.places.items():
        for at, number in places:
            steps = found.pieces[number].steps
            assert words[name][at : at + len(steps)] == steps
    if len(found.pieces) < most:
        for piece in pieces:  # who shares it sees it, or something larger that as many share
            around = [other for other in found.pieces if is_part(piece.steps, other.steps)]
            assert not around or any(set(piece.queries) <= set(o.queries) for o in around)


def test_a_step_reads_its_type_and_those_that_it_negates() -> None:
    types = ["Buying", "Buy", "Rec", "B"]
    assert flows("Buy", types) == [Flow("Buy", False)]
    assert flows("Buying[x = ' !Rec'] !B !Rec[y > 1]", types) == [
        Flow("Buying", False),
        Flow("Rec", True),
        Flow("B", True),
    ]
