"""What is read of stored events gives the rows that all of them give: any workload, any blocks."""

import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engines.access import build_index, choice, light_index, probe_choice
from engines.access.choice import AccessChoice, choose_access
from engines.execution import Access
from engines.input.batches import FileSource
from engines.input.event_table import Faults, from_table
from engines.reference.oracle import run_oracle
from engines.results.tables import Results
from optimizer.access import joint_choice
from optimizer.access.anchors import NotIndexedError, needed_events
from optimizer.access.joint_choice import ProbeProblem, ProbeSet
from optimizer.bind.binder import load_bound
from optimizer.ir.query import BoundWorkload
from tests.running import run_local
from tests.strategies import SHAPE, Row, Shape, event_rows, has_sequence, workloads

COLUMNS = {"ts": pa.int64(), "kind": pa.string(), "k": pa.int64(), "x": pa.int64(), "y": pa.int64()}
TIMED = replace(SHAPE, count_windows=False, max_window=5)
# Negations at the edges, and matches that are certain only when their window has closed.
DENSE = replace(TIMED, types=("A", "B", "C"), max_components=4, operators=("SEQ", "AND"))
COUNTED = replace(TIMED, outputs=("trigger", "slide"), groups=False)

Case = tuple[BoundWorkload, list[Row]]


def cases(shape: Shape) -> st.SearchStrategy[Case]:
    return workloads(shape, max_queries=2).flatmap(
        lambda found: st.tuples(
            st.just(found),
            event_rows(has_sequence(found), shape.types, max_size=14, max_gap=4),
        )
    )


def multiset(results: Results) -> tuple[Counter[Any], Counter[Any]]:
    aggregates, matches = results.aggregates.to_pylist(), results.matches.to_pylist()
    return (
        Counter(tuple(row.values()) for row in aggregates),
        Counter(tuple(row.values()) for row in matches),
    )


def written(folder: str, table: pa.Table, group_rows: int, files: int) -> None:
    size = -(-max(table.num_rows, 1) // files)
    for number in range(files):
        part = table.slice(number * size, size)
        pq.write_table(part, Path(folder) / f"{number}.parquet", row_group_size=group_rows)


@dataclass(frozen=True)
class Indexes:
    """What is indexed: blocks of so many rows, of so many of the files, and these attributes."""

    block_rows: int
    files: int
    on: tuple[str, ...]

    def build(self, folder: str) -> None:
        with (
            mock.patch.object(light_index, "BLOCK_ROWS", self.block_rows),
            mock.patch.object(build_index, "RUN_GROUP_ROWS", 2),
        ):
            for file in sorted(Path(folder).glob("*.parquet"))[: self.files]:
                build_index.build_indexes(str(file), self.on)


@contextmanager
def forced(probes: int | None) -> Iterator[Access]:
    """With the probes whose bits are set, whatever they cost; all without a number."""
    if probes is None:
        yield "index"
        return

    def chosen(problem: ProbeProblem) -> ProbeSet:
        made = frozenset(p for p in range(len(problem.prices)) if probes >> p & 1)
        return ProbeSet(made, problem.cost(made), 0.0)

    with (
        mock.patch.dict(joint_choice.SOLVERS, {"greedy": chosen}),
        mock.patch.object(choice, "INDEX_NANOSECONDS", 0.0),
        mock.patch.object(probe_choice, "TRIED_PART", 0.0),
    ):
        yield "auto"


def check(
    case: Case,
    group_rows: int,
    files: int,
    indexes: Indexes | None = None,
    probes: int | None = None,
) -> AccessChoice:
    workload, rows = case
    columns = COLUMNS | ({"seq": pa.int64()} if has_sequence(workload) else {})
    table = pa.Table.from_pylist(rows, pa.schema(columns))
    with tempfile.TemporaryDirectory() as folder:
        written(folder, table, group_rows, files)
        if indexes is not None:
            indexes.build(folder)
        source = FileSource(folder, workload.stream, Faults())
        with forced(probes) as wanted:
            access = choose_access(source, workload, wanted, with_sums=False)
        if access.groups is not None:
            source.only(access.groups)
        read = [batch.table for batch in source.batches(table.column_names)]
    kept = from_table(pa.concat_tables([table.schema.empty_table(), *read]), workload.stream)
    assert access.groups is None or len(kept) == access.events
    assert access.warnings == ()
    wanted = multiset(run_oracle(workload, from_table(table, workload.stream)))
    assert multiset(run_oracle(workload, kept)) == wanted
    assert multiset(run_local(workload, kept)) == wanted
    return access


groups = st.sampled_from([1, 1, 1, 2, 3, 5])
numbers_of_files = st.sampled_from([1, 1, 2, 3])


@given(cases(TIMED), groups, numbers_of_files)
@settings(max_examples=100)
def test_any_workload(case: Case, group_rows: int, files: int) -> None:
    check(case, group_rows, files)


@given(cases(DENSE), groups, numbers_of_files)
@settings(max_examples=100)
def test_negations_and_groups_at_the_edges(case: Case, group_rows: int, files: int) -> None:
    check(case, group_rows, files)


@given(cases(COUNTED), groups, numbers_of_files)
@settings(max_examples=60)
def test_aggregates_per_trigger_and_per_slide(case: Case, group_rows: int, files: int) -> None:
    check(case, group_rows, files)


@given(cases(replace(SHAPE, max_window=4)), groups)
@settings(max_examples=40)
def test_windows_of_events_read_everything(case: Case, group_rows: int) -> None:
    access = check(case, group_rows, 1)
    if any(query.window.is_count for query in case[0].queries):
        assert access.method == "scan"


some_indexes = st.builds(
    Indexes,
    st.sampled_from([1, 1, 2, 3]),
    st.integers(1, 3),
    st.sets(st.sampled_from(["kind", "k", "x", "y"])).map(sorted).map(tuple),
)


@given(cases(TIMED), groups, numbers_of_files, some_indexes)
@settings(max_examples=100)
def test_any_workload_by_indexes(case: Case, group_rows: int, files: int, indexes: Indexes) -> None:
    check(case, group_rows, files, indexes)


@given(cases(DENSE), groups, numbers_of_files, some_indexes)
@settings(max_examples=60)
def test_negations_and_groups_by_indexes(
    case: Case, group_rows: int, files: int, indexes: Indexes
) -> None:
    check(case, group_rows, files, indexes)


@given(cases(TIMED), groups, numbers_of_files, some_indexes, st.integers(0, 31))
@settings(max_examples=50)
def test_any_workload_by_any_set_of_probes(
    case: Case, group_rows: int, files: int, indexes: Indexes, probes: int
) -> None:
    check(case, group_rows, files, indexes, probes)


def workload_of(query: str, **stream: Any) -> BoundWorkload:
    document = {"time": "ts", "type": "kind", "unit": "ms", **stream}
    return load_bound({"name": "w", "stream": document, "queries": [f"QUERY q {query}"]})


SELECTIVE = "PATTERN SEQ(A a, !C c, B b) WHERE a.x > 5 RETURN a.x, b.x WITHIN 3 ms"


def test_a_row_group_that_no_match_can_touch_is_not_read() -> None:
    kinds, values = ["A", "B", "C", "A", "C", "B", "A", "B"], [1, 1, 1, 9, 1, 1, 1, 1]
    rows = [
        {"ts": t, "kind": kind, "k": 1, "x": x, "y": 0}
        for t, (kind, x) in enumerate(zip(kinds, values, strict=True))
    ]
    access = check((workload_of(SELECTIVE), rows), 1, 1)
    # The A of time 3, the C behind it, which forbids the match, and the B that would end it.
    assert access.groups is not None
    assert list(access.groups.values()) == [[2, 3, 4, 5]]


def test_a_negation_far_from_every_candidate_is_not_read() -> None:
    times = [0, 100, 101, 102, 200]
    rows = [
        {"ts": t, "kind": kind, "k": 1, "x": 9, "y": 0}
        for t, kind in zip(times, ["C", "A", "C", "B", "C"], strict=True)
    ]
    access = check((workload_of(SELECTIVE), rows), 1, 1)
    assert access.groups is not None
    assert list(access.groups.values()) == [[1, 2, 3]]


@pytest.mark.parametrize(
    ("query", "why"),
    [
        ("PATTERN SEQ(A a, B b) RETURN a WITHIN 3 EVENTS", "counts events"),
        ("PATTERN SEQ(A a, B b) RETURN a WITHIN 3 ms STRATEGY strict", "strategy"),
    ],
)
def test_what_cannot_be_pruned_says_why(query: str, why: str) -> None:
    workload = workload_of(query, sequence="seq")
    with pytest.raises(NotIndexedError, match=why):
        needed_events(workload.queries[0])


def test_text_files_are_read_as_a_whole(tmp_path: Path) -> None:
    (tmp_path / "events.csv").write_text("ts,kind,x\n1,A,9\n2,B,1\n")
    workload = workload_of("PATTERN SEQ(A a, B b) RETURN a.x WITHIN 3 ms")
    source = FileSource(str(tmp_path / "events.csv"), workload.stream, Faults())
    access = choose_access(source, workload, "index")
    assert access.method == "scan"
    assert "events.csv" in access.why
