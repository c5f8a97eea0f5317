"""A stream's state goes on with a query that says the same, also in a later version."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, make_dataclass, replace

import pyarrow as pa
import pytest

from engines.live.query_digest import query_digest, written
from engines.program import CountingUnit
from engines.spark.stream import checkpoint
from optimizer.bind.binder import load_bound
from optimizer.ir.query import Query
from tests.running import How

STREAM = {"time": "ts", "unit": "ms", "type": "kind"}


@dataclass(frozen=True)
class Part:
    alias: str
    place: int = field(default=0, compare=False)


def bound(text: str) -> Query:
    return load_bound({"stream": STREAM, "queries": [text]}).queries[0]


def digest(query: Query) -> str:
    return query_digest(query, {query.name: "events"}, (query,))


def test_a_field_that_is_added_with_a_default_changes_nothing() -> None:
    old = make_dataclass("Made", [("parts", tuple), ("size", int)], frozen=True)
    added = [("mark", str, ""), ("more", Mapping, field(default_factory=dict))]
    new = make_dataclass("Made", [("parts", tuple), ("size", int), *added], frozen=True)
    parts = (Part("a"), Part("b", 7))
    assert written(old(parts, 5)) == written(new(parts, 5)) == written(new(parts, 5, "", {}))
    assert written(new(parts, 5, "x")) != written(old(parts, 5))
    assert written(new((Part("a"),), 5)) != written(old(parts, 5))


def test_a_set_is_written_in_one_order() -> None:
    assert written(frozenset("badc")) == "{'a', 'b', 'c', 'd'}"


TEXT = "QUERY q PATTERN SEQ(A a, B b) WHERE a.x < b.x RETURN a.x WITHIN 5 ms"


@pytest.mark.parametrize(
    "other",
    [
        TEXT.replace("5 ms", "6 ms"),
        TEXT.replace("<", "<="),
        TEXT.replace("B b", "C b"),
        TEXT.replace("RETURN a.x", "RETURN b.x"),
        TEXT.replace("WITHIN", "PARTITION BY k WITHIN"),
        TEXT.replace("WITHIN", "STRATEGY NEXT WITHIN"),
        TEXT.replace("RETURN a.x", "AGG COUNT(*)"),
    ],
)
def test_another_query_has_another_digest(other: str) -> None:
    query = bound(TEXT)
    assert digest(bound(other)) != digest(query)
    assert digest(bound(TEXT.replace("QUERY q", "QUERY  q -- renamed later\n"))) == digest(query)
    assert digest(replace(query, name="another")) == digest(query)


def test_queries_that_are_counted_together_are_looked_at_together(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each look is at all of them."""
    texts = [f"QUERY q{n} PATTERN SEQ(A a, B b) AGG COUNT(*) WITHIN {n} ms" for n in range(1, 9)]
    program = How().program(load_bound({"stream": STREAM, "queries": texts}))
    looked: list[int] = []
    continues = checkpoint.continues

    def counted(unit: CountingUnit) -> bool:
        looked.append(len(unit.queries))
        return continues(unit)

    monkeypatch.setattr(checkpoint, "continues", counted)
    schema = pa.schema([("ts", pa.int64()), ("kind", pa.string())])
    manifest = checkpoint.manifest_of(program, schema, 10**6, 2, 2)
    assert set(manifest.queries) == {f"q{n}" for n in range(1, 9)}
    assert sum(looked) == 8
