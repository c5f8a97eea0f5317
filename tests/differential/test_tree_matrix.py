"""Every construct as trees of every shape, in slices of every size, shared and separate.

Against the reference: whatever is chosen, the rows are those that a query means.
"""

from dataclasses import replace
from typing import get_args

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engines.input.event_table import Faults, from_table
from engines.input.lateness import Lateness
from engines.local.run import SlicedRun
from engines.local.slices import SliceSize, cut
from engines.reference.oracle import run_oracle
from engines.results.tables import empty_results, joined_results
from optimizer.bind.binder import load_bound
from optimizer.ir.query import BoundWorkload
from optimizer.trees import Shape as TreeShape
from tests.differential.test_local import multiset
from tests.differential.test_slices import COLUMNS, MILLISECOND, batches, disorder_of
from tests.running import How
from tests.strategies import SHAPE, Row, event_rows, has_sequence, workloads

RETURNED = replace(SHAPE, outputs=("return",), types=("A", "B", "C"), local=False)
SINGLE = replace(RETURNED, kleene=False, groups=False, group_conditions=False)
CONSTRUCTS = {
    "SEQ": replace(SINGLE, operators=("SEQ",), negation=False),
    "AND and OR": replace(SINGLE, negation=False),
    "negation": replace(SINGLE, nested_negation=False, max_depth=2),
    "negations in negations": SINGLE,
    "E+": replace(RETURNED, groups=False, max_components=3),
    "groups": replace(RETURNED, operators=("SEQ",), max_components=4),
    "all of it": replace(RETURNED, types=("A", "B")),
    "aggregates": replace(RETURNED, outputs=("trigger", "slide")),
}

Case = tuple[BoundWorkload, list[Row]]


def cases(construct: str) -> st.SearchStrategy[Case]:
    shape = CONSTRUCTS[construct]
    return workloads(shape, max_queries=3).flatmap(
        lambda found: st.tuples(
            st.just(found), event_rows(has_sequence(found), shape.types, max_size=9)
        )
    )


def table_of(workload: BoundWorkload, rows: list[Row]) -> pa.Table:
    """The events in the order in which they come."""
    columns = COLUMNS | ({"seq": pa.int64()} if has_sequence(workload) else {})
    return pa.Table.from_pylist(rows, pa.schema(columns))


def check(workload: BoundWorkload, rows: list[Row], how: How, slice_rows: int) -> None:
    """The rows of slices, of batches as large, are those of the reference over the whole."""
    table = table_of(workload, rows)
    events = from_table(table, workload.stream)
    run = SlicedRun(how.program(workload), MILLISECOND, how.context())
    pieces = cut(
        batches(table, slice_rows),
        table.schema,
        workload.stream,
        Lateness(disorder_of(rows), True, MILLISECOND, "ts", Faults()),
        run.reach,
        SliceSize(slice_rows, grow=False),
        run.carried,
    )
    found = [empty_results(events.time_type), *(run.run(piece) for piece in pieces)]
    assert multiset(joined_results(found)) == multiset(run_oracle(workload, events))


@pytest.mark.parametrize("slice_rows", [1, 7, 4096])
@pytest.mark.parametrize("shape", get_args(TreeShape))
@pytest.mark.parametrize("sharing", [True, False])
def test_rows_are_those_of_the_reference(slice_rows: int, shape: TreeShape, sharing: bool) -> None:
    how = How(counting=False, detection=shape, sharing=sharing)

    @given(st.sampled_from(list(CONSTRUCTS)).flatmap(cases))
    @settings(max_examples=6)
    def each(case: Case) -> None:
        check(*case, how, slice_rows)

    each()


# --- negations that read far, and such as come last ----------------------------------------------

FAR = [
    "SEQ(A a, !B b, C c, D d)",
    "SEQ(A a, C c, !B b, D d)",
    "SEQ(A a, !SEQ(B b, B e), C c, D d)",
    "SEQ(!B b, A a, C c, D d)",
    "SEQ(A a, C c, D d, !B b)",
    "SEQ(A a, C c, D d, !SEQ(B b, C e))",
    "AND(SEQ(A a, !B b, C c), D d)",
    "SEQ(A+ a, !B b, C c, D d)",
    "SEQ(A a, !B b, ALL C c, D d)",
]
comparisons = st.sampled_from(["=", "!=", "<", "<=", ">", ">="])


@given(
    st.sampled_from(FAR),
    st.tuples(comparisons, comparisons),
    st.sampled_from(["", " AND [k]"]),
    st.sampled_from(["4 ms", "7 ms", "5 EVENTS"]),
    st.sampled_from(get_args(TreeShape)),
    event_rows(sequence=True, max_size=10),
    st.sampled_from([1, 7, 4096]),
)
@settings(max_examples=50)
def test_negations_whose_conditions_reach_further(
    pattern: str,
    tests: tuple[str, str],
    key: str,
    window: str,
    shape: TreeShape,
    rows: list[Row],
    slice_rows: int,
) -> None:
    where = f"b.x {tests[0]} a.x AND b.y {tests[1]} d.y{key}"
    workload = bound(f"{pattern} WHERE {where} RETURN a, d WITHIN {window}")
    check(workload, rows, How(detection=shape), slice_rows)


def bound(query: str) -> BoundWorkload:
    return load_bound(
        {
            "name": "one",
            "stream": {"time": "ts", "unit": "ms", "type": "kind", "sequence": "seq"},
            "queries": [f"QUERY q PATTERN {query}"],
        }
    )


def test_a_last_negation_is_reported_when_its_window_closes_though_nothing_comes_anymore() -> None:
    workload = bound("SEQ(A a, C c, !B b) WHERE b.x = a.x RETURN a.ts WITHIN 10 ms")
    kinds = [(1, "A", 1), (3, "C", 0), (5, "A", 2), (6, "C", 0), (8, "B", 2)]
    rows: list[Row] = [
        {"ts": ts, "seq": 0, "kind": kind, "k": 1, "x": x, "y": 0} for ts, kind, x in kinds
    ]
    for slice_rows in (1, 4096):
        table = table_of(workload, rows)
        run = SlicedRun(How().program(workload), MILLISECOND)
        pieces = cut(
            batches(table, slice_rows),
            table.schema,
            workload.stream,
            Lateness(0, True, MILLISECOND, "ts", Faults()),
            run.reach,
            SliceSize(slice_rows, grow=False),
            run.carried,
        )
        found = joined_results([run.run(piece) for piece in pieces]).matches
        # The B at 8 rules out the A at 5; that at 1 is certain at 11, and the stream ends at 8.
        shown = found.select(["start", "end", "time"]).to_pylist()
        assert sorted(shown, key=lambda row: row["end"]) == [
            {"start": 1, "end": 3, "time": 11},
            {"start": 1, "end": 6, "time": 11},
        ]
