"""`INTO Name`, as it is written: what is made, what is refused, and what is printed again."""

from __future__ import annotations

from typing import Any

import pytest

from optimizer.bind.binder import load_bound
from optimizer.ir.produced import ProducedField, chains_of, rounds_of
from optimizer.ir.query import BoundWorkload
from workloads.errors import WorkloadError
from workloads.parser import parse_query
from workloads.printing import print_query

PAIRS = "QUERY pairs PATTERN SEQ(A a, B b) PARTITION BY k RETURN a.x, b.x AS u WITHIN 5 s INTO P"


def bound(*queries: str, **stream: Any) -> BoundWorkload:
    said = {"time": "ts", "unit": "s", "type": "kind", **stream}
    return load_bound({"name": "w", "stream": said, "queries": list(queries)})


def refused(*queries: str, **stream: Any) -> str:
    with pytest.raises(WorkloadError) as found:
        bound(*queries, **stream)
    return str(found.value)


def test_a_match_gives_what_it_returns_and_its_key() -> None:
    (made,) = bound(PAIRS).produced
    assert made.fields == (
        ProducedField("x", ("a", "x")),
        ProducedField("u", ("u",)),
        ProducedField("k", None),
    )
    assert made.lasts


def test_single_events_and_aggregates_make_moments() -> None:
    single = "QUERY one PATTERN A a RETURN a.x WITHIN 1 s INTO S"
    count = "QUERY n PATTERN SEQ(A a, B b) AGG COUNT(*), MAX(a.x) WITHIN 1 s INTO N"
    found = {made.name: made for made in bound(single, count).produced}
    assert not found["S"].lasts
    assert not found["N"].lasts
    assert found["N"].names == ("aggregate", "value", "count", "exact")


def test_queries_stand_in_any_order_and_run_in_rounds() -> None:
    last = "QUERY last PATTERN SEQ(R r, C c) RETURN c.x WITHIN 5 s"
    middle = "QUERY middle PATTERN SEQ(P p, C c) RETURN p.u WITHIN 5 s INTO R"
    alone = "QUERY alone PATTERN SEQ(A a, C c) RETURN a.x WITHIN 5 s"
    queries = bound(last, alone, middle, PAIRS).queries
    assert [query.name for query in queries] == ["last", "alone", "middle", "pairs"]
    names = [[query.name for query in round_] for round_ in rounds_of(queries)]
    assert names == [["alone", "pairs"], ["middle"], ["last"]]
    assert chains_of(queries) == (("last", "middle", "pairs"),)


def test_a_cycle_is_shown() -> None:
    found = refused(
        "QUERY one PATTERN SEQ(Q q, A a) RETURN a.x WITHIN 5 s INTO P",
        "QUERY two PATTERN SEQ(P p, A a) RETURN a.x WITHIN 5 s INTO Q",
    )
    assert "queries read their own rows: two (INTO Q) -> one (INTO P) -> two" in (
        found.replace("one (INTO P) -> two (INTO Q) -> one", "two (INTO Q) -> one (INTO P) -> two")
    )
    own = refused("QUERY self PATTERN SEQ(P p, A a) RETURN a.x WITHIN 5 s INTO P")
    assert "self (INTO P) -> self" in own
    assert "^" in own


@pytest.mark.parametrize(
    ("queries", "said"),
    [
        ((PAIRS, PAIRS.replace("pairs", "other")), "query pairs makes events of type 'P' already"),
        (
            ("QUERY q PATTERN SEQ(A a, B b) RETURN a.x, b.x WITHIN 5 s INTO P",),
            "two fields of P would be called 'x'",
        ),
        (("QUERY q PATTERN A a RETURN a WITHIN 5 s INTO P",), "returns whole events"),
        (("QUERY q PATTERN A+ a RETURN a.x WITHIN 5 s INTO P",), "'a' is a group"),
        (("QUERY q PATTERN A a RETURN a.time WITHIN 5 s INTO P",), "which every event has"),
        (
            ("QUERY q PATTERN A a PARTITION BY k RETURN a.x AS k WITHIN 5 s INTO P",),
            "'k' is of the key",
        ),
        ((PAIRS, "QUERY q PATTERN P p RETURN p.y WITHIN 5 s"), "'P' has no field 'y'"),
        (
            (PAIRS, "QUERY q PATTERN P p PARTITION BY y RETURN p.u WITHIN 5 s"),
            "events of P have no 'y'",
        ),
        (
            (PAIRS, "QUERY q PATTERN SEQ(P p, A a) STRATEGY NEXT RETURN a.x WITHIN 5 s"),
            "STRATEGY NEXT stands in a query that reads P",
        ),
        ((PAIRS, "QUERY q PATTERN SEQ(P p, : A a) RETURN a.x WITHIN 5 s"), "reads P"),
        ((PAIRS, "QUERY q PATTERN SEQ(P p, A a) RETURN a WITHIN 5 s"), "a whole event is returned"),
        (
            (PAIRS, "QUERY q PATTERN ALL P p RETURN max(p.u) AS m WITHIN 5 s"),
            "which events 'p' has",
        ),
        (
            (PAIRS, "QUERY q PATTERN SEQ(P p, !A a) RETURN p.u WITHIN 5 s"),
            "a match that ends with a negation is certain when its window closes",
        ),
        ((PAIRS, "QUERY q PATTERN SEQ(!P p, A a) RETURN a.x WITHIN 5 s"), "before the first event"),
        ((PAIRS, "QUERY q PATTERN AND(P p, A a) AGG COUNT(*) WITHIN 5 s"), "AND or OR"),
        (
            (PAIRS, "QUERY q PATTERN JOIN(P p WITHIN 1 s, A a WITHIN 1 s) RETURN a.x"),
            "a JOIN compares the times of events",
        ),
        ((PAIRS, "QUERY q PATTERN P p AGG COUNT(*) WITHIN SESSION 5 s"), "a session is about gaps"),
    ],
)
def test_what_is_not_taken_is_said(queries: tuple[str, ...], said: str) -> None:
    found = refused(*queries)
    assert said in found
    assert "^" in found
    assert "help:" in found


def test_a_type_of_the_stream_is_not_made_again() -> None:
    types = {"P": "x > 1", "A": "x = 1", "B": "x = 2"}
    assert "the stream has a type 'P' already" in refused(PAIRS, types=types)


def test_a_field_of_another_kind_than_the_column_is_refused() -> None:
    said = "'u' of P is a number, and a column of the events of that name is a string"
    assert said in refused(PAIRS, attributes={"k": "int", "x": "int", "u": "string"})


@pytest.mark.parametrize(
    "text",
    [
        PAIRS,
        "QUERY s DEFINE F AS speed > 7 PATTERN F RETURN F.start AS began WITHIN 9 s INTO S",
    ],
)
def test_into_is_printed_as_it_is_read(text: str) -> None:
    parsed = parse_query(text)
    assert parsed.into is not None
    assert parse_query(print_query(parsed)) == parsed


def test_into_is_a_name_elsewhere() -> None:
    workload = bound("QUERY into PATTERN SEQ(A into, B b) RETURN into.into WITHIN 5 s INTO into")
    assert workload.produced[0].names == ("into",)
