"""Sessions, counted types, windows from the first event, empty rows: as the reference has them."""

from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from engines.input.event_table import Faults, from_table
from engines.input.lateness import Lateness
from engines.local.run import SlicedRun
from engines.local.slices import SliceSize, cut
from engines.reference.oracle import run_oracle
from optimizer.bind.binder import load_bound
from optimizer.ir.query import BoundWorkload
from tests.differential.test_local import COLUMNS, events_of
from tests.differential.test_slices import MILLISECOND, batches, disorder_of, multiset
from tests.running import How, run_local
from tests.strategies import Row, event_rows

PATTERNS = (
    "A a",
    "SEQ(A a, B b)",
    "SEQ(A a, !C n, B b)",
    "SEQ(A a, !B n)",
    "SEQ(!C n, A a)",
    "SEQ(!C n, A a, !B m)",
    "SEQ(A a, B b, !C n)",
    "AND(A a, B b)",
    "AND(A a, !C n)",
    "SEQ(A a, B+ g)",
    "OR(A a, SEQ(B b, A a2))",
)
CONDITIONS = ("", "WHERE a.x > 0", "WHERE [k]", "WHERE [k] AND a.x > 0")
TIMED = ("WITHIN 3 ms SLIDE 2 ms", "WITHIN 2 ms SLIDE 3 ms", "WITHIN 4 ms SLIDE 4 ms")
COUNTED = ("WITHIN 2 EVENTS OF (A)", "WITHIN 3 EVENTS OF (A, C)", "WITHIN 1 EVENTS OF (B)")
AGGREGATED = "AGG COUNT(*), SUM(a.x), MAX(a.y)"


@st.composite
def framed(draw: st.DrawFn) -> BoundWorkload:
    queries = []
    for number in range(draw(st.integers(1, 3))):
        pattern = draw(st.sampled_from(PATTERNS))
        where = draw(st.sampled_from(CONDITIONS if "OR" not in pattern else CONDITIONS[::2]))
        having = draw(st.sampled_from(("", " HAVING COUNT(*) < 2")))
        empty = draw(st.sampled_from(("", " EMPTY ROWS")))
        gap = draw(st.sampled_from((1, 2, 3)))
        counted = draw(st.sampled_from(COUNTED))
        forms = (
            f"{AGGREGATED}{having} WITHIN SESSION {gap} ms{empty}",
            f"RETURN a.x, a.y WITHIN SESSION {gap} ms",
            f"{AGGREGATED}{having} {draw(st.sampled_from(TIMED))} WINDOWS FROM FIRST{empty}",
            f"{AGGREGATED}{having} {draw(st.sampled_from(TIMED))} EMPTY ROWS",
            f"{AGGREGATED}{having} WITHIN 2 ms EMPTY ROWS",
            f"{AGGREGATED}{having} {counted}{empty}",
            f"{AGGREGATED}{having} {counted} SLIDE 2 EVENTS{empty}",
            f"RETURN a.x, a.y {counted}",
        )
        chosen = draw(st.sampled_from(forms))
        queries.append(f"QUERY q{number} PATTERN {pattern} {where} {chosen}")
    stream: dict[str, Any] = {"time": "ts", "type": "kind", "unit": "ms", "sequence": "seq"}
    return load_bound({"name": "w", "stream": stream, "queries": queries})


@given(framed(), event_rows(sequence=True, max_size=12, types=("A", "B", "C")), st.booleans())
@settings(max_examples=100)
def test_frames(workload: BoundWorkload, rows: list[Row], sharing: bool) -> None:
    events = events_of(workload, rows)
    found = run_local(workload, events, how=How(sharing=sharing))
    assert multiset([found]) == multiset([run_oracle(workload, events)])


sizes = st.sampled_from([1, 2, 3, 7])


@given(framed(), event_rows(sequence=True, max_size=12, types=("A", "B", "C")), sizes)
@settings(max_examples=40)
def test_frames_of_slices(workload: BoundWorkload, rows: list[Row], size: int) -> None:
    schema = pa.schema({**COLUMNS, "seq": pa.int64()})
    table = pa.Table.from_pylist(rows, schema)
    run = SlicedRun(How().program(workload), MILLISECOND)
    lateness = Lateness(disorder_of(rows), True, MILLISECOND, "ts", Faults())
    given_ = (table.schema, workload.stream, lateness, run.reach, SliceSize(size), run.carried)
    found = [run.run(piece) for piece in cut(batches(table, 3), *given_)]
    assert multiset(found) == multiset([run_oracle(workload, from_table(table, workload.stream))])


def rows_of(query: str, events: list[tuple[int, str, int]]) -> list[tuple[int, str, int | None]]:
    """The time, the aggregate and the value of each row over events of time, type and key."""
    stream = {"time": "ts", "type": "kind", "unit": "ms", "sequence": "seq"}
    workload = load_bound({"stream": stream, "queries": [f"QUERY q {query}"]})
    rows = [
        {"ts": time, "seq": place, "kind": kind, "k": key, "x": time, "y": 0}
        for place, (time, kind, key) in enumerate(events)
    ]
    found = run_local(workload, events_of(workload, rows)).aggregates.to_pylist()
    return sorted((row["time"], row["aggregate"], row["value"]) for row in found)


def test_a_session_ends_with_a_gap_and_gives_a_row_then() -> None:
    events = [(1, "A", 0), (2, "A", 0), (3, "C", 0), (5, "A", 0)]
    assert rows_of("PATTERN A a AGG COUNT(*) WITHIN SESSION 3 ms", events) == [
        (5, "COUNT(*)", 2),
        (8, "COUNT(*)", 1),
    ]
    # Events of all types of the query keep a session going, and no others.
    pattern = "PATTERN SEQ(A a, !B n) AGG COUNT(*) WITHIN SESSION 3 ms"
    with_b = [(1, "A", 0), (3, "B", 0), (5, "A", 0)]
    assert rows_of(pattern, with_b) == [(8, "COUNT(*)", 1)]


def test_a_negation_in_an_and_of_a_session_looks_no_further_than_the_last_event() -> None:
    stream = {"time": "ts", "type": "kind", "unit": "ms", "sequence": "seq"}
    text = "PATTERN AND(A a, !C n) RETURN a.x WITHIN SESSION 3 ms"
    workload = load_bound({"stream": stream, "queries": [text]})
    rows = [{"ts": 1, "seq": n, "kind": "AC"[n], "k": 0, "x": 0, "y": 0} for n in range(2)]
    events = events_of(workload, rows)
    found = run_local(workload, events)
    assert multiset([found]) == multiset([run_oracle(workload, events)])
    assert found.matches.num_rows == 1


def test_a_condition_on_no_component_has_a_cost() -> None:
    query = "PATTERN SEQ(A a, B b) WHERE 1 < 2 AGG COUNT(*) WITHIN SESSION 3 ms"
    assert rows_of(query, [(1, "A", 0), (2, "B", 0)]) == [(5, "COUNT(*)", 1)]


def test_windows_from_the_first_event_of_each_partition() -> None:
    events = [(3, "A", 0), (4, "A", 1), (8, "A", 0)]
    query = "PATTERN A a PARTITION BY k AGG COUNT(*) WITHIN 4 ms SLIDE 4 ms WINDOWS FROM FIRST"
    # [3, 7) and [7, 11) of the one, [4, 8) of the other; a row has the last time of its window.
    assert rows_of(query, events) == [(6, "COUNT(*)", 1), (7, "COUNT(*)", 1), (10, "COUNT(*)", 1)]


def test_empty_windows_count_nothing_and_sum_to_null() -> None:
    events = [(1, "A", 0), (9, "A", 0)]
    query = "PATTERN A a AGG COUNT(*), SUM(a.x) WITHIN 2 ms SLIDE 4 ms EMPTY ROWS"
    assert rows_of(query, events) == [
        (4, "COUNT(*)", 0),
        (4, "SUM(a.x)", None),
        (8, "COUNT(*)", 0),
        (8, "SUM(a.x)", None),
    ]
    first = f"{query.replace(' EMPTY', ' WINDOWS FROM FIRST EMPTY')}"
    assert [row for row in rows_of(first, events) if row[1] == "COUNT(*)"] == [
        (2, "COUNT(*)", 1),
        (6, "COUNT(*)", 0),
        (10, "COUNT(*)", 1),
    ]


def test_a_window_counts_only_events_of_the_types_that_it_names() -> None:
    events = [(1, "A", 0), (2, "C", 0), (3, "C", 0), (4, "A", 0), (5, "A", 0)]
    query = "PATTERN A a AGG COUNT(*) WITHIN 2 EVENTS OF (A)"
    assert rows_of(query, events) == [(1, "COUNT(*)", 1), (4, "COUNT(*)", 2), (5, "COUNT(*)", 2)]
