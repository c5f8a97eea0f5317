"""What has occurred of what queries ask for: types, attributes with a value, keys."""

from itertools import permutations
from typing import Any

import pyarrow as pa
import pytest

from engines.columns import occurrences
from engines.columns.occurrences import Occurrences, merged
from optimizer.bind.binder import bind
from optimizer.ir.query import BoundWorkload
from workloads.loading import load_workload

STREAM: dict[str, Any] = {"time": "ts", "unit": "s", "type": "kind"}


def bound(*queries: str, **stream: Any) -> BoundWorkload:
    return bind(load_workload({"name": "w", "stream": STREAM | stream, "queries": list(queries)}))


def table(*rows: tuple[Any, ...]) -> pa.Table:
    """Rows of kind, key and value, a second apart."""
    columns = {name: [row[i] for row in rows] for i, name in enumerate(("kind", "key", "x"))}
    return pa.table(
        {
            "ts": pa.array(range(len(rows)), pa.int64()),
            "kind": pa.array(columns["kind"], pa.string()),
            "key": pa.array(columns["key"], pa.string()),
            "x": pa.array(columns["x"], pa.float64()),
        }
    )


def notes(workload: BoundWorkload, *tables: pa.Table) -> list[str]:
    seen = Occurrences(workload)
    for each in tables:
        seen.add(each)
    return seen.notes()


QUERY = "QUERY q PATTERN SEQ(A a, !B b, C c) WHERE [key] AND c.x > 1 RETURN a.ts WITHIN 9 s"
ALL = table(("A", "k", None), ("B", "k", None), ("C", "k", 2.0))


def test_nothing_is_said_where_all_is_there() -> None:
    assert notes(bound(QUERY), ALL) == []


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([("A", "k", 1), ("b", "k", 1), ("C", "k", 1)], "no event has 'B'; did you mean 'b'?"),
        ([("A", "k", 1), ("B", "k", 1)], "no event has 'C'; there are A, B"),
        (
            [("A", "k", 1), ("B", None, 1), ("C", "k", 1)],
            "its key 'key' is null in every event of 'B', and an event without a key is in no "
            "match",
        ),
        (
            [("A", "k", 1), ("B", "k", 1), ("C", "k", None)],
            "'x' is null in every event of 'C'",
        ),
        (
            [("A", "k", 1), ("B", "k", 1), ("C", "k", float("nan"))],
            "'x' is null in every event of 'C'",
        ),
    ],
)
def test_what_is_not_there_is_said(rows: list[tuple[Any, ...]], said: str) -> None:
    """Also of a negated component, without which a query finds too much."""
    assert notes(bound(QUERY), table(*rows)) == [f"query q: {said}"]


def test_events_without_a_type_are_of_none() -> None:
    said = notes(bound(QUERY), table((None, "k", 1), ("A", "k", 1)))
    assert said == [f"query q: no event has '{name}'; there are A" for name in "BC"]


def test_an_attribute_may_be_null_where_a_query_asks_for_that() -> None:
    rows = table(("A", "k", None))
    null = "QUERY q PATTERN A a WHERE a.x IS NULL AGG COUNT(*) WITHIN 9 s"
    assert notes(bound(null), rows) == []
    value = null.replace("IS NULL", "IS NOT NULL")
    assert notes(bound(value), rows) == ["query q: 'x' is null in every event of 'A'"]


def test_types_by_a_condition_are_looked_for_by_it() -> None:
    types = {"types": {"Large": "x > 9"}}
    query = "QUERY q PATTERN SEQ(A a, Large l) WHERE [key] AGG COUNT(*) WITHIN 9 s"
    small, large = table(("A", "k", 1)), table(("C", "k", 10))
    assert notes(bound(query, **types), small) == ["query q: no event is 'Large', which is x > 9"]
    assert notes(bound(query, **types), small, large) == []
    keyless = table(("C", None, 10))
    (said,) = notes(bound(query, **types), small, keyless)
    assert "its key 'key' is null in every event of 'Large'" in said


def test_parts_together_have_seen_what_the_whole_has() -> None:
    workload = bound(QUERY, "QUERY r PATTERN SEQ(A a, D d) WHERE [key] AGG COUNT(*) WITHIN 9 s")
    rows = [("A", None, 1), ("B", "k", None), ("C", "k", 3), ("A", "k", None), ("E", "k", 1)]
    whole = Occurrences(workload)
    whole.add(table(*rows))
    assert whole.notes() == ["query r: no event has 'D'; there are A, B, C, E"]
    parts = []
    for row in rows:
        part = Occurrences(workload)
        part.add(table(row))
        parts.append(part.seen())
    for order in list(permutations(parts))[::17]:
        again = Occurrences(workload)
        again.merge(merged(order))
        assert (again.notes(), again.events) == (whole.notes(), len(rows))


def test_a_rare_type_behind_the_first_rows_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(occurrences, "FIRST_ROWS", 2)
    assert notes(bound(QUERY), table(*[("A", "k", 1)] * 50, ("B", "k", 1), ("C", "k", 1))) == []


def test_what_is_remembered_and_said_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(occurrences, "MAX_NAMES", 5)
    monkeypatch.setattr(occurrences, "MAX_NOTES", 3)
    queries = [f"QUERY q{i} PATTERN T{i} a AGG COUNT(*) WITHIN 9 s" for i in range(7)]
    seen = Occurrences(bound(*queries))
    for start in range(0, 100, 10):
        seen.add(table(*[(f"kind {i}", "k", 1) for i in range(start, start + 10)]))
    assert (len(seen.names), len(seen.types)) == (5, 0)
    said = seen.notes()
    assert (len(said), said[-1]) == (4, "4 more that queries ask for and no event has")
