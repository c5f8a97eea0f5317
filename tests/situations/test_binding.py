"""Queries about situations are read as written, and mistakes in them are named."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from optimizer.bind.binder import load_bound
from optimizer.bind.path_consistency import (
    Contradiction,
    composition,
    possible_relations,
    relation,
)
from optimizer.bind.situation_notes import situation_notes
from tests.situations.random_situations import queries
from workloads.errors import WorkloadError
from workloads.loading import load_workload
from workloads.parser import parse_query
from workloads.printing import print_query
from workloads.situations.relations import ALL, NAMES, converse
from workloads.situations.syntax import Situations
from workloads.workload import to_document

STREAM: dict[str, Any] = {
    "time": "ts",
    "type": "kind",
    "types": ["Car", "Bus"],
    "attributes": {"speed": "float", "accel": "float", "car_id": "int"},
    "situations": {"Fast": "speed > 70"},
}


def message_of(text: str) -> str:
    with pytest.raises(WorkloadError) as caught:
        load_bound({"name": "w", "stream": STREAM, "queries": [text]})
    return str(caught.value)


@settings(max_examples=150, deadline=None)
@given(queries(most=4))
def test_what_is_printed_parses_to_what_was_printed(text: str) -> None:
    query = parse_query(text)
    assert isinstance(query.output, Situations)
    assert parse_query(print_query(query)) == query


def test_its_words_are_names_everywhere_else() -> None:
    words = ["define", "emit", "early", "complete", "before", "gap", "least", "overlaps", "of"]
    for word in words:
        query = parse_query(
            f"PATTERN SEQ({word} a, B {word}) WHERE a.{word} > 1 RETURN a WITHIN 1 s"
        )
        assert not isinstance(query.output, Situations)
        text = f"DEFINE {word} OF {word} AS {word} > 1 PATTERN {word} RETURN {word} WITHIN 1 s"
        assert isinstance(parse_query(text).output, Situations), word


BODY = "RETURN A WITHIN 10 s"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (f"DEFINE A AS speed > 1, B AS speed > 2 PATTERN A befor B {BODY}", "before"),
        (
            f"DEFINE A AS speed > 1, B AS speed > 2 PATTERN A before D {BODY}",
            "unknown situation 'D'",
        ),
        (f"DEFINE A AS sped > 1 PATTERN A {BODY}", "speed"),
        (f"DEFINE A OF Cra AS speed > 1 PATTERN A {BODY}", "Car"),
        (f"DEFINE A AS speed > 1, A AS speed > 2 PATTERN A {BODY}", "defined twice"),
        (f"DEFINE A AS speed > 1, B AS speed > 2 PATTERN A {BODY}", "A any B"),
        (f"DEFINE A AS speed > 1 PATTERN A before A {BODY}", "related to itself"),
        (f"DEFINE A AS avg(A.speed) > 1 PATTERN A {BODY}", "WHERE"),
        (f"DEFINE A AS speed > 1 BETWEEN 5 s AND 2 s PATTERN A {BODY}", "shorter one first"),
        (f"DEFINE A AS speed > 1 AT LEAST 5 EVENTS PATTERN A {BODY}", "in time"),
        ("DEFINE A AS speed > 1 PATTERN A RETURN A.speed WITHIN 1 s", "first(A.speed)"),
        ("DEFINE A AS speed > 1 PATTERN A RETURN A WITHIN 5 EVENTS", "as a time"),
        ("DEFINE A AS speed > 1 PATTERN A RETURN A", "WITHIN is missing"),
        (f"DEFINE A AS speed > 1 PATTERN A {BODY} EMIT LATE", "EARLY"),
        (f"DEFINE A AS speed > 1 PATTERN A {BODY} SLIDE 1 s", "no clause of a query about"),
        (f"DEFINE A AS speed > 1 PATTERN A WHERE A.speed > 1 {BODY}", "A.speed"),
        (f"DEFINE A AS speed > 1 AT LEST 5 s PATTERN A {BODY}", "'LEAST'"),
        (f"DEFINE A AS speed > 1 GAP PATTERN A {BODY}", "such as 5 s"),
        (f"DEFINE A speed > 1 PATTERN A {BODY}", "expected OF or AS"),
        (f"DEFINE A AS speed > 1, B AS speed < 1 PATTERN NOT A before B {BODY}", "negated"),
        (f"DEFINE A AS speed > 1, B AS speed < 1 PATTERN A before B OR A after B {BODY}", "';'"),
        ("DEFINE A AS speed > 1 PATTERN A RETURN A.end - A.start AS d WITHIN 1 s", "AT LEAST"),
        ("DEFINE A AS speed > 1 PATTERN A RETURN count(A) AS n WITHIN 1 s", "count(A.x)"),
        (f"DEFINE A AS Fast AND accel > 3 PATTERN A {BODY}", "a situation of the stream"),
        (f"FROM other DEFINE A AS speed > 1 PATTERN A {BODY}", "other"),
    ],
)
def test_a_mistake_is_named_with_a_way_out(text: str, said: str) -> None:
    assert said in message_of(text)


def test_what_is_odd_and_allowed_is_noted() -> None:
    text = (
        "QUERY q DEFINE A AS speed > 1 AT LEAST 10 s, B AS speed > 2 "
        f"PATTERN A contains;finishes B {BODY}"
    )
    finishes, long = situation_notes(
        load_bound({"name": "w", "stream": STREAM, "queries": [text]}).queries
    )
    assert "'A finished by B' meant?" in finishes
    assert "no match" in long
    text = f"QUERY q DEFINE A AS speed > 1, B AS speed > 2 PATTERN A intersects B {BODY}"
    document = {"name": "w", "stream": STREAM, "queries": [text]}
    assert situation_notes(load_bound(document).queries) == []


def test_names_of_attributes_may_be_words_of_durations() -> None:
    for condition in ("at > 1 AND gap > at", "gap = 1 OR at = gap", "NOT at > 1"):
        text = f"DEFINE A AS {condition} AT LEAST 5 s GAP 2 s PATTERN A RETURN A WITHIN 10 s"
        found = parse_query(text).output
        assert isinstance(found, Situations)
        assert found.definitions[0].gap is not None
        assert found.definitions[0].at_least is not None


def test_constraints_that_exclude_each_other_are_refused_with_what_proves_it() -> None:
    text = (
        "DEFINE A AS speed > 1, B AS speed > 2, C AS speed > 3 "
        f"PATTERN A before B AND B before C AND C before A {BODY}"
    )
    said = message_of(text)
    assert "this pattern never matches" in said
    assert "'A before B' and 'B before C' leave nothing of 'A after C'" in said


def test_the_converse_of_a_relation_is_what_the_second_has_to_the_first() -> None:
    stretches = [(a, b) for a, b in itertools.combinations(range(5), 2)]
    for first, second in itertools.product(stretches, stretches):
        assert converse(1 << relation(first, second)) == 1 << relation(second, first)


def test_composition_has_what_allen_says() -> None:
    table = composition()
    place = NAMES.index
    before, during, meets = place("before"), place("during"), place("meets")
    assert table[before][before] == 1 << before
    assert table[meets][meets] == 1 << before
    assert table[during][during] == 1 << during
    assert table[before][place("after")] == ALL
    names = ("before", "meets", "overlaps", "starts", "during")
    assert table[before][during] == sum(1 << place(name) for name in names)


def test_the_converse_of_a_composition_is_that_of_the_converses_the_other_way_round() -> None:
    table = composition()
    for first, second in itertools.product(range(13), range(13)):
        mine, theirs = (converse(1 << place).bit_length() - 1 for place in (first, second))
        assert converse(table[first][second]) == table[theirs][mine]


masks = st.integers(1, ALL)


@settings(max_examples=60, deadline=None)
@given(masks, masks, masks)
def test_only_sets_without_any_three_stretches_are_refused(ab: int, bc: int, ca: int) -> None:
    stretches = [(a, b) for a, b in itertools.combinations(range(6), 2)]
    seen: set[tuple[int, int]] = set()
    for a, b in itertools.product(stretches, stretches):
        if not ab >> relation(a, b) & 1:
            continue
        for c in stretches:
            if bc >> relation(b, c) & 1 and ca >> relation(c, a) & 1:
                seen |= {(1, relation(a, b)), (2, relation(b, c)), (3, relation(c, a))}
    found = possible_relations(3, [(0, 1, ab), (1, 2, bc), (2, 0, ca)])
    assert isinstance(found, Contradiction) == (not seen)
    if not isinstance(found, Contradiction):
        for number, pair in enumerate([(0, 1), (1, 2), (2, 0)], 1):
            assert found[pair] == sum(1 << r for which, r in seen if which == number)


SPEEDING = {"of": "Car", "when": "speed > 70", "gap": "30 s"}


def test_a_situation_of_the_stream_stands_for_its_definition() -> None:
    stream = STREAM | {"situations": {"Speeding": SPEEDING, "Slow": "speed < 10"}}
    tied = "PATTERN B before S RETURN B WITHIN 1 min"
    named = f"QUERY a DEFINE B AS Speeding AT LEAST 4 s, S AS Slow GAP 1 s {tied}"
    spelled = (
        "QUERY b DEFINE B OF Car AS speed > 70 AT LEAST 4 s GAP 30 s, "
        f"S AS speed < 10 GAP 1 s {tied}"
    )
    document = {"name": "w", "stream": stream, "queries": [named, spelled]}
    first, second = load_bound(document).queries
    assert first.output == second.output
    workload = load_workload(document)
    assert load_workload(to_document(workload)).stream == workload.stream


@pytest.mark.parametrize(
    ("defined", "said"),
    [
        ({"Speeding": SPEEDING | {"wen": "x"}}, "when"),
        ({"Speeding": {"of": "Car"}}, "has no condition 'when'"),
        ({"Speeding": SPEEDING | {"gap": "soon"}}, "situations.Speeding.gap"),
        ({"Speeding": "speed >"}, "situation 'Speeding'"),
        ({"Speeding": SPEEDING | {"of": "Cra"}}, "Car"),
        (["Speeding"], "no map"),
        ({"Speding": SPEEDING}, "did you mean 'Speding'"),
    ],
)
def test_a_mistake_in_a_situation_of_the_stream_is_named(defined: Any, said: str) -> None:
    text = f"QUERY q DEFINE A AS Speeding PATTERN A {BODY}"
    with pytest.raises(WorkloadError) as caught:
        load_bound({"stream": STREAM | {"situations": defined}, "queries": [text]})
    assert said in str(caught.value)
