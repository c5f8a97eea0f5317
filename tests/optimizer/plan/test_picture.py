"""Pictures of plans: every query and who shares what with whom, at five queries and at hundreds."""

from __future__ import annotations

import random
import xml.etree.ElementTree as ET
from typing import Any

import pytest

from optimizer.bind.binder import bind
from optimizer.explain.shapes import MUTED_COLOR
from optimizer.explain.svg import MANY_QUERIES, MAX_FRAGMENTS_DRAWN, MAX_QUERIES_DRAWN, render_svg
from optimizer.plan.plan import Plan
from sharing.planner import make_plan
from tests.optimizer.plan.test_plan import plan_of
from workloads.loading import load_workload
from workloads.workload import to_document

SVG = "{http://www.w3.org/2000/svg}"
FIVE: dict[str, Any] = {
    "name": "five",
    "stream": {"time": "ts", "type": "kind"},
    "statistics": {"rates": {"A": 100.0, "B": 10.0, "C": 1.0, "D": 30.0, "E": 0.5, "F": 4.0}},
    "queries": [
        "QUERY one PATTERN SEQ(A a, B b, C c, D d) AGG COUNT(*) WITHIN 1 min",
        "QUERY two PATTERN SEQ(E e, B b, C c, D d) AGG COUNT(*) WITHIN 1 min",
        "QUERY three PATTERN SEQ(E e, !F f, A a, B b) AGG COUNT(*) WITHIN 1 min",
        "QUERY four PATTERN SEQ(F f, B b, C c, D d, A a) AGG COUNT(*) WITHIN 1 min",
        "QUERY five PATTERN SEQ(A a, B b, !E e) RETURN a.x WITHIN 90 s",
    ],
}


def sequences(number: int) -> dict[str, Any]:
    rng = random.Random(number)
    types = [f"T{i:02}" for i in range(20)]
    drawn = [rng.sample(types, rng.randint(3, 7)) for _ in range(number)]
    return {
        **FIVE,
        "statistics": {"rates": {name: 10 ** rng.uniform(-1, 2) for name in types}},
        "queries": [
            f"QUERY q{i} PATTERN SEQ({', '.join(parts)}) AGG COUNT(*) WITHIN 1 s"
            for i, parts in enumerate(drawn)
        ],
    }


def picture(plan: Plan) -> ET.Element:
    return ET.fromstring(render_svg(plan))


def boxes(root: ET.Element, css: str) -> dict[str, ET.Element]:
    """The boxes of a class by their text."""
    found = [g for g in root.iter(f"{SVG}g") if css in g.get("class", "").split()]
    return {g.findtext(f"{SVG}text") or "": g for g in found if g.find(f"{SVG}text") is not None}


def tooltip(element: ET.Element) -> str:
    return element.findtext(f"{SVG}title") or ""


def edges(root: ET.Element) -> list[ET.Element]:
    return [path for path in root.iter(f"{SVG}path") if path.find(f"{SVG}title") is not None]


def test_types_pieces_and_queries_stand_in_this_order() -> None:
    root = picture(plan_of(FIVE))
    right = 0.0
    for css, names in (
        ("type", {"A", "B", "C", "D", "E", "F"}),
        ("piece", {"B, C, D ×3"}),
        ("query", {"one", "two", "three", "four", "five"}),
    ):
        found = boxes(root, css)
        assert set(found) == names
        rectangles = [box.find(f"{SVG}rect") for box in found.values()]
        left = {float(rect.get("x", "")) for rect in rectangles if rect is not None}
        assert min(left) > right
        right = max(left)


def test_a_querys_way_leads_through_what_it_shares() -> None:
    ways = {
        name: {tooltip(e) for e in edges(picture(plan_of(FIVE))) if name in mine(e)}
        for name in ("two", "three", "five")
    }
    assert ways["two"] == {
        "B into B, C, D: 10 events a second",
        "C into B, C, D: 1 events a second",
        "D into B, C, D: 30 events a second",
        "two has B, C, D, computed once: 41 events a second",
        "E into two: 0.5 events a second",
    }
    assert "F must not occur in three: 4 events a second" in ways["three"]
    assert ways["five"] == {
        "A into five: 100 events a second",
        "B into five: 10 events a second",
        "E must not occur in five: 0.5 events a second",
    }


def mine(element: ET.Element) -> list[str]:
    return element.get("data-query", "").split()


def test_what_must_not_occur_is_dashed() -> None:
    for path in edges(picture(plan_of(FIVE))):
        dashed = "negated" in path.get("class", "").split()
        assert dashed == ("must not occur" in tooltip(path))


def test_lines_are_wider_where_more_events_come() -> None:
    widths = {
        tooltip(path).split(" into ")[0]: float(path.get("stroke-width", ""))
        for path in edges(picture(plan_of(FIVE)))
        if " into " in tooltip(path)
    }
    assert sorted(widths, key=lambda name: widths[name]) == ["E", "C", "F", "B", "D", "A"]
    assert max(widths.values()) < 8


def test_tooltips_say_who_shares_what_and_what_it_saves() -> None:
    plan = plan_of(FIVE)
    root = picture(plan)
    lines = tooltip(boxes(root, "piece")["B, C, D ×3"]).splitlines()
    assert lines[1] == "computed once (the sliding product) for one, two, four"
    assert lines[2].startswith("saves ")
    assert lines[3] == next(c.why for c in plan.candidates if c.pattern == ("B", "C", "D"))
    query = tooltip(boxes(root, "query")["one"]).splitlines()
    assert query[1] == "SEQ(A a, B b, C c, D d)"
    assert query[2].startswith("the sliding product, 1 min, ")
    assert query[3:] == ["shares B, C, D with two, four"]


@pytest.mark.parametrize("number", [MANY_QUERIES, MANY_QUERIES + 1, 100])
def test_every_query_is_shown_once(number: int) -> None:
    plan = plan_of(sequences(number))
    assert set(boxes(picture(plan), "query")) == set(plan.queries)


@pytest.mark.parametrize("number", [100, 1000])
def test_many_queries_stay_readable(number: int) -> None:
    root = picture(plan_of(sequences(number)))
    width, height = float(root.get("width", "")), float(root.get("height", ""))
    assert width < 1800
    assert height < 1100
    assert len(boxes(root, "piece")) <= MAX_FRAGMENTS_DRAWN
    assert len(boxes(root, "query")) == min(number, MAX_QUERIES_DRAWN)
    titles = [text.text or "" for text in root.iter(f"{SVG}text")]
    assert any("shared pieces are drawn" in title for title in titles)
    assert any("queries are not drawn" in title for title in titles) == (number > MAX_QUERIES_DRAWN)


def test_a_query_whose_pieces_are_not_drawn_is_not_said_to_share_nothing() -> None:
    """That a piece is one of the many that are not drawn does not make it unshared."""
    plan = plan_of(sequences(100))
    root = picture(plan)
    sharing = {
        name
        for operator in plan.operators
        if operator.kind == "segment" and len(operator.detail["queries"]) > 1
        for name in operator.detail["queries"]
    }
    drawn = boxes(root, "query")
    heights = {text.text: float(text.get("y", "")) for text in root.iter(f"{SVG}text")}
    assert len(sharing) > 90
    below = [name for name, box in drawn.items() if top(box) > heights["pieces not drawn"] - 12]
    assert len(below) > 10
    lowest = heights.get("nothing is shared", float("inf")) - 12
    for name in below:
        said = "not drawn here" in tooltip(drawn[name])
        assert said == (top(drawn[name]) < lowest) == (name in sharing), name


def top(box: ET.Element) -> float:
    rect = box.find(f"{SVG}rect")
    assert rect is not None
    return float(rect.get("y", ""))


def test_a_group_says_how_many_windows_it_has_and_its_pieces_which() -> None:
    document = sequences(60)
    for i, query in enumerate(document["queries"]):
        document["queries"][i] = query.replace("WITHIN 1 s", f"WITHIN {1 + i % 3} s")
    root = picture(plan_of(document))
    titles = [text.text or "" for text in root.iter(f"{SVG}text")]
    assert any(
        title.startswith("60 queries together: the sliding product, 3 windows, ")
        for title in titles
    )
    labels = list(boxes(root, "piece"))
    assert any(", 2 s ×" in label for label in labels)


@pytest.mark.parametrize("number", [12, 100])
def test_boxes_do_not_overlap_and_lie_within_the_picture(number: int) -> None:
    root = picture(plan_of(sequences(number)))
    places = []
    for css in ("type", "piece", "alone", "query"):
        for box in boxes(root, css).values():
            rect = box.find(f"{SVG}rect")
            assert rect is not None
            x, y, w, h = (float(rect.get(key, "")) for key in ("x", "y", "width", "height"))
            assert 0 <= x <= x + w <= float(root.get("width", ""))
            assert 0 <= y <= y + h <= float(root.get("height", ""))
            places.append((x, y, w, h))
    for i, (x, y, w, h) in enumerate(places):
        for x2, y2, w2, h2 in places[:i]:
            assert x + w <= x2 or x2 + w2 <= x or y + h <= y2 or y2 + h2 <= y


@pytest.mark.parametrize("document", [FIVE, sequences(100)], ids=["few", "many"])
def test_the_same_plan_gives_the_same_bytes(document: dict[str, Any]) -> None:
    assert render_svg(plan_of(document)) == render_svg(plan_of(document))


NESTED: dict[str, Any] = {
    **FIVE,
    "queries": [
        "QUERY one PATTERN SEQ(A a, B b, C c) AGG COUNT(*) WITHIN 1 min",
        "QUERY two PATTERN SEQ(A a, B b, C c, E e) AGG COUNT(*) WITHIN 1 min",
        "QUERY three PATTERN SEQ(A a, B b, D d) AGG COUNT(*) WITHIN 1 min",
    ],
}


def test_what_most_queries_share_is_drawn_and_leads_into_larger_pieces() -> None:
    root = picture(plan_of(NESTED))
    pieces = boxes(root, "piece")
    assert set(pieces) == {"A, B ×3", "A, B, C ×2"}
    assert mine(pieces["A, B ×3"]) == ["one", "two", "three"]
    ways = {tooltip(e) for e in edges(root)}
    assert "A, B is a part of A, B, C" in ways
    assert "three has A, B, computed once: 110 events a second" in ways
    assert "C into A, B, C: 1 events a second" in ways
    assert not any(way.startswith("A into A, B, C:") for way in ways)  # that comes by way of A, B


def test_colours_are_for_what_is_shared() -> None:
    root = picture(plan_of(NESTED))
    pieces = {label.split(" ×")[0]: box for label, box in boxes(root, "piece").items()}
    colours = {label: stroke(box) for label, box in pieces.items()}
    assert len(set(colours.values())) == len(colours)
    for path in edges(root):
        what = tooltip(path)
        if "to-piece" in path.get("class", ""):
            assert path.get("stroke") == colours[what.split(" into ")[1].split(":")[0]]
        if "to-query" in path.get("class", ""):
            assert path.get("stroke") == MUTED_COLOR
    assert stroke(boxes(root, "query")["three"]) == colours["A, B"]
    alone = picture(plan_of({**FIVE, "queries": FIVE["queries"][:1]}))
    assert stroke(boxes(alone, "query")["one"]) is None


def stroke(box: ET.Element) -> str | None:
    """The colour of a box, where it has one of its own."""
    found = {rect.get("stroke") for rect in box.iter(f"{SVG}rect")} - {None}
    return found.pop() if found else None


def test_types_and_queries_with_blanks_in_their_names_are_told_apart() -> None:
    document = {
        **FIVE,
        "statistics": {},
        "queries": [
            'QUERY "my query" PATTERN SEQ("page view" v, page p) AGG COUNT(*) WITHIN 1 min',
            "QUERY my PATTERN SEQ(page p, view w) AGG COUNT(*) WITHIN 1 min",
        ],
    }
    root = picture(plan_of(document))
    readers = {name: mine(box) for name, box in boxes(root, "type").items()}
    assert readers == {
        "page view": ["my%20query"],
        "page": ["my%20query", "my"],
        "view": ["my"],
    }


@pytest.mark.parametrize("document", [FIVE, NESTED, sequences(12), sequences(100)])
def test_every_box_and_line_says_whose_it_is(document: dict[str, Any]) -> None:
    plan = plan_of(document)
    root = picture(plan)
    for css in ("type", "piece", "query"):
        for box in boxes(root, css).values():
            assert mine(box), tooltip(box)
            assert set(mine(box)) <= set(plan.queries)
    assert all(mine(path) for path in edges(root))
    ids = {box.get("data-piece", "").split()[0] for box in boxes(root, "piece").values()}
    named = {id for e in root.iter() for id in e.get("data-piece", "").split()}
    assert named == ids


def test_many_queries_have_no_lines_and_groups_that_fold() -> None:
    plan = plan_of(sequences(100))
    root = picture(plan)
    assert edges(root) == []
    blocks = [g for g in root.iter(f"{SVG}g") if g.get("class") == "block"]
    assert blocks
    low = 0.0
    for block in blocks:
        y, height, folded = (
            float(block.get(f"data-{key}", "")) for key in ("y", "height", "folded")
        )
        assert y >= low
        assert 20 < folded <= min(height, 60)
        low = y + height
        for rect in block.iter(f"{SVG}rect"):
            assert y <= float(rect.get("y", ""))
            assert float(rect.get("y", "")) + float(rect.get("height", "")) <= low + 0.1
    assert low < float(root.get("height", ""))


def test_a_query_among_many_has_the_mark_of_each_piece_that_it_shares() -> None:
    plan = plan_of(sequences(100))
    root = picture(plan)
    pieces = {box.get("data-piece", "").split()[0]: box for box in boxes(root, "piece").values()}
    marked = 0
    for name, box in boxes(root, "query").items():
        through = box.get("data-piece", "").split()
        marks = [r for r in box.iter(f"{SVG}rect") if "mark" in r.get("class", "").split()]
        assert [r.get("stroke") for r in marks] == [stroke(pieces[id]) for id in through]
        assert all(name in mine(pieces[id]) for id in through)
        marked += bool(marks)
    assert marked > 10


def test_queries_that_run_alone_are_one_block_where_there_are_many() -> None:
    document = sequences(60)
    document["queries"] = [
        query.replace("AGG COUNT(*)", f"RETURN {query.split('(')[1].split(',')[0]}")
        for query in document["queries"]
    ]
    workload = load_workload(document)
    root = picture(make_plan(bind(workload), to_document(workload), sharing=False))
    titles = [text.text or "" for text in root.iter(f"{SVG}text")]
    assert "60 queries, each alone: a tree of joins" in titles
    assert len([r for r in root.iter(f"{SVG}rect") if r.get("class") == "panel"]) == 1
