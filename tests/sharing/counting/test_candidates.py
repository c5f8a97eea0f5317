"""Candidates against a plain enumeration of all stretches of all queries."""

from __future__ import annotations

import time
from collections import defaultdict

import pytest
from hypothesis import given

from optimizer.ir.query import Window
from sharing.counting.candidates import (
    CandidateKind,
    CandidatePosition,
    Candidates,
    CountSetting,
    QuerySteps,
    Step,
    mine,
)
from tests.sharing.chains import SECOND, queries, query, random_queries, words, workloads

Found = dict[tuple[object, ...], list[CandidatePosition]]


def every_stretch(of: list[QuerySteps], negations: bool = True) -> Found:
    """Setting and steps of whatever two queries have, with all places that do not overlap."""
    found: Found = defaultdict(list)
    for q in of:
        for length in range(2, len(q.steps) + 1):
            ends: dict[tuple[object, ...], int] = defaultdict(int)
            for i in range(len(q.steps) - length + 1):
                steps = q.steps[i : i + length]
                content = steps if negations else tuple(Step(step.symbol) for step in steps)
                if ends[content] <= i:
                    ends[content] = i + length
                    found[(q.setting.shared, *content)].append(CandidatePosition(q.name, i))
    return {c: places for c, places in found.items() if len({p.query for p in places}) > 1}


def mined(of: list[QuerySteps], *kinds: CandidateKind) -> Found:
    setting = {q.name: q.setting.shared for q in of}
    return {
        (setting[c.queries[0]], *c.steps): list(c.places) for c in mine(of, kinds or ("substring",))
    }


def shown(candidates: Candidates) -> list[tuple[str, str, list[CandidatePosition]]]:
    return sorted((words(c.steps), c.kind, list(c.places)) for c in candidates)


@given(workloads())
def test_apriori_finds_what_plain_enumeration_finds(of: list[QuerySteps]) -> None:
    assert mined(of) == every_stretch(of)


def test_what_both_begins_and_ends_queries_is_found_once() -> None:
    of = queries("A B", "A B", "C A B C")
    assert shown(mine(of, ("substring", "prefix", "suffix"))) == [
        ("A B", "prefix", [("q1", 0), ("q2", 0)]),
        ("A B", "substring", [("q1", 0), ("q2", 0), ("q3", 1)]),
    ]


@given(workloads())
def test_no_candidate_is_found_twice(of: list[QuerySteps]) -> None:
    found = mine(of, ("substring", "prefix", "suffix", "bitmark"))
    assert len({c.id for c in found}) == len(found)


@given(workloads())
def test_a_kind_says_where_all_places_are(of: list[QuerySteps]) -> None:
    lengths = {q.name: len(q.steps) for q in of}
    for c in mine(of):
        begins = all(place.position == 0 for place in c.places)
        ends = all(place.position + len(c.steps) == lengths[place.query] for place in c.places)
        assert c.kind == ("prefix" if begins else "suffix" if ends else "substring")


@given(workloads())
def test_prefixes_and_suffixes_are_the_places_at_an_edge(of: list[QuerySteps]) -> None:
    lengths = {q.name: len(q.steps) for q in of}
    kinds: tuple[CandidateKind, ...] = ("prefix", "suffix")
    for kind in kinds:
        expected: Found = {}
        for content, places in every_stretch(of).items():
            length = len(content) - 1
            edge = [
                p
                for p in places
                if (
                    p.position == 0 if kind == "prefix" else p.position + length == lengths[p.query]
                )
            ]
            if len({p.query for p in edge}) > 1:
                expected[content] = edge
        assert mined(of, kind) == expected


@given(workloads())
def test_bitmarks_have_the_same_symbols_and_different_negations(of: list[QuerySteps]) -> None:
    steps = {q.name: q.steps for q in of}
    expected = {}
    for content, places in every_stretch(of, negations=False).items():
        length = len(content) - 1
        if len({steps[p.query][p.position : p.position + length] for p in places}) > 1:
            expected[content] = places
    assert mined(of, "bitmark") == expected


@given(workloads())
def test_the_columns_say_what_the_candidates_say(of: list[QuerySteps]) -> None:
    found = mine(of)
    assert [len(c.places) for c in found] == found.places.tolist()
    assert [len(c.queries) for c in found] == found.queries.tolist()
    assert [len(c.steps) for c in found] == found.length.tolist()


def test_the_thesis_example_is_found() -> None:
    """(VKindle, BKindle) is in all five queries of section 4.2's example, at different places."""
    of = queries("VK BK VC BC", "VK BK VC BF", "VK BK VF BF", "VK BK VF BC", "VP VF VK BK")
    pairs = {words(c.steps): c for c in mine(of) if len(c.steps) == 2}
    assert pairs["VK BK"].queries == ("q1", "q2", "q3", "q4", "q5")
    assert pairs["VK BK"].kind == "substring"
    assert pairs["VK BK"].places[-1] == ("q5", 2)


def test_a_query_is_served_at_several_places() -> None:
    assert shown(mine(queries("A B C A B", "A B"))) == [
        ("A B", "substring", [("q1", 0), ("q1", 3), ("q2", 0)])
    ]


def test_places_of_one_candidate_never_overlap() -> None:
    of = queries("A A A A A", "B A A A", "A A")
    assert shown(mine(of)) == [
        ("A A", "substring", [("q1", 0), ("q1", 2), ("q2", 1), ("q3", 0)]),
        ("A A A", "substring", [("q1", 0), ("q2", 1)]),
    ]


def test_one_query_alone_shares_nothing_with_itself() -> None:
    assert len(mine(queries("A B A B"))) == 0
    assert len(mine([])) == 0


def test_a_negation_within_makes_another_substring() -> None:
    assert shown(mine(queries("A !X B", "A B"))) == []
    assert shown(mine(queries("A !X B C", "D A !X B E"))) == [
        ("A !X B", "substring", [("q1", 0), ("q2", 1)])
    ]


def test_a_negation_before_a_substring_does_not_matter_and_one_after_it_does() -> None:
    assert [words(c.steps) for c in mine(queries("A !X B C", "B C"))] == ["B C"]
    assert [words(c.steps) for c in mine(queries("B C !X A", "B C"))] == []


@pytest.mark.parametrize(
    "other",
    [
        CountSetting(("user",), Window(SECOND)),
        CountSetting((), Window(SECOND, is_count=True)),
        CountSetting((), Window(SECOND, is_count=True), slide=1),
        CountSetting((), Window(SECOND), order=("ts",)),
    ],
)
def test_queries_of_different_settings_do_not_share(other: CountSetting) -> None:
    assert len(mine([query("q1", "A B"), query("q2", "A B", other)])) == 0


@pytest.mark.parametrize(
    "other", [CountSetting((), Window(2 * SECOND)), CountSetting((), Window(SECOND), slide=1)]
)
def test_windows_and_slides_may_differ(other: CountSetting) -> None:
    assert len(mine([query("q1", "A B"), query("q2", "A B", other)])) == 1


def test_an_id_follows_from_content() -> None:
    first, second = queries("A B C", "A B D"), queries("A B E", "A B F")
    assert mine(first)[0].id == mine(second)[0].id
    assert mine(first)[0].id != mine(queries("A C", "A C"))[0].id
    assert mine(queries("A !X B", "A !X B"))[0].id != mine(queries("A B", "A B"))[0].id


@pytest.mark.slow
def test_ten_thousand_queries_take_less_than_twenty_seconds() -> None:
    of = random_queries(10_000)
    began = time.process_time()
    found = mine(of, ("substring", "prefix", "suffix", "bitmark"))
    assert time.process_time() - began < 20
    assert len(found) > 2500
