"""Windows of every form and joins, as they are written, printed and refused."""

import pytest

from optimizer.bind.binder import load_bound
from optimizer.ir.query import JoinWindows, Query, Window
from workloads.errors import WorkloadError
from workloads.parser import parse_query
from workloads.printing import print_query

SECOND = 10**9


def bound(text: str, stream: dict[str, object] | None = None) -> Query:
    given = {"time": "ts", "unit": "s", "type": "kind", "sequence": "seq"}
    return load_bound({"stream": stream or given, "queries": [text]}).queries[0]


def message(text: str, stream: dict[str, object] | None = None) -> str:
    with pytest.raises(WorkloadError) as error:
        bound(text, stream)
    found = error.value.diagnostics[0]
    return f"{found.message} | {found.hint}"


def test_windows_are_bound_as_written() -> None:
    session = bound("QUERY q PATTERN L l AGG COUNT(*) WITHIN SESSION 3 s")
    assert session.window == Window(3 * SECOND, session=True)
    counted = bound("QUERY q PATTERN SEQ(L l, R r) RETURN l WITHIN 2 EVENTS OF (R, L)")
    assert counted.window == Window(2, is_count=True, of=("L", "R"))
    tumbling = bound(
        "QUERY q PATTERN L l AGG COUNT(*) WITHIN 4 s SLIDE 4 s WINDOWS FROM FIRST EMPTY ROWS"
    )
    assert (tumbling.from_first, tumbling.empty_rows) == (True, True)
    join = bound("QUERY q PATTERN LEFT JOIN(L l WITHIN 5 s, R r WITHIN 2 EVENTS) RETURN l, r")
    assert join.join == JoinWindows(Window(5 * SECOND), Window(2, is_count=True), outer=True)


@pytest.mark.parametrize(
    "text",
    [
        "PATTERN E windows RETURN windows WITHIN 1 s",
        "PATTERN SEQ(empty, into i) RETURN i.of AS rows WITHIN 1 s",
        "PATTERN left join RETURN join WITHIN 1 s",
        "PATTERN session s WHERE s.left > s.join AGG COUNT(*) WITHIN 1 s",
    ],
)
def test_words_of_windows_are_names_elsewhere(text: str) -> None:
    query = parse_query(text)
    assert parse_query(print_query(query)) == query


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("PATTERN L l AGG COUNT(*) WITHIN SESION 3 s", "did you mean 'SESSION'?"),
        ("PATTERN L l AGG COUNT(*) WITHIN SESSION 3 EVENTS", "a session ends with a gap in time"),
        ("PATTERN L l AGG COUNT(*) WITHIN SESSION 3 s SLIDE 1 s", "a session has no slide"),
        ("PATTERN L l AGG COUNT(*) WITHIN 3 s OF (L)", "this window is one of time"),
        ("PATTERN L l AGG COUNT(*) WITHIN 3 s WINDOWS FROM FIRST", "give WITHIN and SLIDE in time"),
        ("PATTERN L l RETURN l WITHIN 3 s EMPTY ROWS", "EMPTY ROWS goes with AGG"),
        ("PATTERN L l AGG COUNT(*) WITHIN 3 s SLIDE 1 s WINDOWS FROM LAST", "'LAST' stands"),
        ("PATTERN JOIN(L l WITHIN 1 s, R r WITHIN 1 s) RETURN l WITHIN 2 s", "no further WITHIN"),
        ("PATTERN JOIN(L l WITHIN 1 s, R+ r WITHIN 1 s) RETURN l", "a side of a JOIN is one event"),
        ("PATTERN JOIN(L l WITHIN 1 s, R r WITHIN 1 s) AGG COUNT(*)", "no window to aggregate"),
        ("PATTERN AND(A, JOIN(L l WITHIN 1 s, R r WITHIN 1 s)) RETURN A WITHIN 1 s", "whole"),
        ("PATTERN JOIN(L l WITHIN 0 s, R r WITHIN 1 s) RETURN l", "give a positive amount"),
        ("PATTERN JOIN(L l WITHIN 1 s, R r WITHIN 1 s) RETURN l LIMIT 1", "LIMIT"),
        ("PATTERN L l AGG COUNT(*) WITHIN SESSION 3 s STRATEGY NEXT", "STRATEGY"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused_with_a_remedy(text: str, expected: str) -> None:
    assert expected in message(f"QUERY q {text}")


def test_counted_types_are_types_of_the_stream() -> None:
    text = "QUERY q PATTERN Login l AGG COUNT(*) WITHIN 3 EVENTS OF (Logn)"
    stream = {"time": "ts", "sequence": "seq", "types": {"Login": "x > 1"}}
    assert message(text, stream) == "unknown type 'Logn' | did you mean 'Login'?"


def test_a_side_counted_in_events_needs_an_order() -> None:
    text = "QUERY q PATTERN JOIN(L l WITHIN 1 s, R r WITHIN 3 EVENTS) RETURN l"
    assert "declare the stream's 'sequence' column" in message(
        text, {"time": "ts", "unit": "s", "type": "kind"}
    )
