"""What is read of stored events gives the rows that all of them give: any workload, any blocks."""

import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engines.access import build_index, light_index, merge_runs, sorted_runs
from engines.access.choice import AccessChoice, choose_access
from engines.execution import Access
from engines.input.batches import FileSource
from engines.input.event_table import Faults, from_table
from engines.reference.oracle import run_oracle
from engines.results.tables import Results
from optimizer.access.anchors import NotIndexedError, needed_events
from optimizer.bind.binder import load_bound
from optimizer.ir.pattern import events
from optimizer.ir.query import BoundWorkload
from tests.differential.agreement import is_run
from tests.running import run_local
from tests.strategies import SHAPE, Row, Shape, event_rows, has_sequence, workloads

COLUMNS = {"ts": pa.int64(), "kind": pa.string(), "k": pa.int64(), "x": pa.int64(), "y": pa.int64()}
TIMED = replace(SHAPE, count_windows=False, max_window=5)
# Negations at the edges, and matches that are certain only when their window has closed.
DENSE = replace(TIMED, types=("A", "B", "C"), max_components=4, operators=("SEQ", "AND"))
COUNTED = replace(TIMED, outputs=("trigger", "slide"), groups=False)

RANKED = replace(SHAPE, keys=False, outputs=("return", "trigger"), max_window=6)
# What may not lie between the events of a match, which may be any event.
LOOSE = replace(TIMED, types=("A", "B", "C"), optional=True, counted=True, prev=True)
STRICT = replace(LOOSE, strategies=("strict",), max_components=4)
NEXT = replace(LOOSE, strategies=("next",), operators=("SEQ",), max_components=4, max_depth=2)
SKIPS = [replace(shape, skips=True, outputs=("return",)) for shape in (STRICT, NEXT)]
GAPS = st.sampled_from([replace(LOOSE, marks=True), STRICT, NEXT, *SKIPS])
# Aggregates of single columns, split by a component, and keys that differ by component.
GROUPED = replace(
    TIMED, outputs=("trigger", "slide"), grouped=True, constants=False, group_conditions=False,
    types=("A", "B", "C"), max_components=4,
)  # fmt: skip
KEYED = replace(
    TIMED, component_keys=True, marks=True, constants=False, types=("A", "B", "C"),
    max_components=4,
)  # fmt: skip
SPLIT = st.sampled_from([GROUPED, KEYED, replace(GROUPED, strategies=("strict",))])

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
    """What is indexed: blocks of so many rows, of so many of the files, and these attributes.

    Runs are merged where there are more than `runs` of an attribute.
    """

    block_rows: int
    files: int
    on: tuple[str, ...]
    runs: int = 8

    def build(self, folder: str) -> None:
        with (
            mock.patch.object(light_index, "BLOCK_ROWS", self.block_rows),
            mock.patch.dict(sorted_runs.RUN_FORM, row_group_size=2),
            mock.patch.object(sorted_runs, "FEW_VALUES", 1),
            mock.patch.object(merge_runs, "MOST_RUNS", self.runs),
        ):
            for file in sorted(Path(folder).glob("*.parquet"))[: self.files]:
                build_index.build_indexes(str(file), self.on)


def check(
    case: Case,
    group_rows: int,
    files: int,
    indexes: Indexes | None = None,
    every: Sequence[Access] = ("index",),
) -> AccessChoice:
    """That the rows are the same, whatever is read by any of these ways."""
    workload, rows = case
    columns = COLUMNS | ({"seq": pa.int64()} if has_sequence(workload) else {})
    table = pa.Table.from_pylist(rows, pa.schema(columns))
    with tempfile.TemporaryDirectory() as folder:
        written(folder, table, group_rows, files)
        if indexes is not None:
            indexes.build(folder)
        source = FileSource(folder, workload.stream, Faults())
        chosen = [choose_access(source, workload, way, with_sums=False) for way in every]
        found = {str((access.groups, _shown(access))): access for access in chosen}
        tables = []
        for access in found.values():
            if access.groups is not None:
                source.only(access.groups, access.rows)
            tables.append([batch.table for batch in source.batches(table.column_names)])
    wanted = multiset(run_oracle(workload, from_table(table, workload.stream)))
    for access, read in zip(found.values(), tables, strict=True):
        kept = from_table(pa.concat_tables([table.schema.empty_table(), *read]), workload.stream)
        assert access.groups is None or len(kept) == access.events
        assert multiset(run_oracle(workload, kept)) == wanted
        assert multiset(run_local(workload, kept)) == wanted
    assert all("no index can be asked" in said for each in chosen for said in each.warnings)
    return chosen[0]


def _shown(access: AccessChoice) -> list[list[int]]:
    return [ranges.rows().tolist() for ranges in (access.rows or {}).values()]


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


@given(st.one_of(cases(RANKED), cases(replace(RANKED, max_window=3))), groups, numbers_of_files)
@settings(max_examples=100)
def test_windows_of_events(case: Case, group_rows: int, files: int) -> None:
    check(case, group_rows, files)


def test_a_window_of_events_needs_what_lies_around_its_matches() -> None:
    rows = [
        {"ts": t, "seq": 0, "kind": "AB"[t % 2], "k": 1, "x": 9 if t in (6, 30) else 1, "y": 0}
        for t in range(40)
    ]
    asked = "PATTERN SEQ(A a, B b) WHERE a.x > 5 RETURN a.x, b.x WITHIN 4 EVENTS"
    access = check((workload_of(asked, sequence="seq"), rows), 2, 1)
    assert access.groups is not None
    assert list(access.groups.values()) == [[*range(1, 8), *range(13, 20)]]


def test_a_match_that_waits_for_the_rank_of_any_event_needs_all() -> None:
    asked = "PATTERN OR(A a, SEQ(C c, !B b)) RETURN a, c WITHIN 3 EVENTS"
    with pytest.raises(NotIndexedError, match="when its matches are certain"):
        needed_events(workload_of(asked, sequence="seq").queries[0], with_blocks=True)


def test_what_left_out_events_would_bring_together_is_read() -> None:
    kinds = "ABCCACCCCCBCCCAB"
    rows = [
        {"ts": t, "seq": 0, "kind": kind, "k": 1, "x": 0, "y": 0} for t, kind in enumerate(kinds)
    ]
    asked = "PATTERN SEQ(A a, B b) RETURN a, b WITHIN 5 EVENTS"
    access = check((workload_of(asked, sequence="seq"), rows), 1, 1)
    assert "needs all events" in access.why


@given(GAPS.flatmap(cases).filter(is_run), groups, numbers_of_files)
@settings(max_examples=100)
def test_strategies_marks_and_optional_parts(case: Case, group_rows: int, files: int) -> None:
    check(case, group_rows, files)


@given(SPLIT.flatmap(cases).filter(is_run), groups, numbers_of_files)
@settings(max_examples=60)
def test_groups_and_keys_by_component(case: Case, group_rows: int, files: int) -> None:
    check(case, group_rows, files)


some_indexes = st.builds(
    Indexes,
    st.sampled_from([1, 1, 2, 3]),
    st.integers(1, 3),
    st.sets(st.sampled_from(["kind", "k", "x", "y"])).map(sorted).map(tuple),
    st.sampled_from([1, 2, 8]),
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


@given(cases(TIMED), groups, numbers_of_files, some_indexes)
@settings(max_examples=50)
def test_any_workload_by_every_forced_set_of_probes(
    case: Case, group_rows: int, files: int, indexes: Indexes
) -> None:
    each = {e.alias for query in case[0].queries for e in events(query.pattern)} - {None}
    names = sorted(str(name) for name in each)[:4]
    sets = [some for size in range(1, len(names) + 1) for some in combinations(names, size)]
    ways = [f"index:{','.join(some)}" for some in sets]
    check(case, group_rows, files, indexes, ways or ["index"])


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


@pytest.mark.parametrize("whole", [0, 8, 9])
def test_many_queries_read_what_any_of_them_needs(whole: int) -> None:
    """Where the first few read all, others are not looked at; else all of them are."""
    queries = [f"QUERY q{number} {SELECTIVE}" for number in range(10)]
    queries[whole:whole] = ["QUERY every PATTERN SEQ(A a, B b) RETURN a.x WITHIN 3 ms"]
    stream = {"time": "ts", "type": "kind", "unit": "ms"}
    workload = load_bound({"name": "w", "stream": stream, "queries": queries})
    kinds, values = ["A", "B", "A", "A", "C", "B", "A", "B"], [1, 1, 1, 9, 1, 1, 1, 1]
    rows = [
        {"ts": t, "kind": kind, "k": 1, "x": x, "y": 0}
        for t, (kind, x) in enumerate(zip(kinds, values, strict=True))
    ]
    access = check((workload, rows), 2, 1, every=("auto",))
    assert access.groups is None
    assert access.why == "every row group can matter"
    names = [each.query for each in access.queries]
    assert names == (["every"] if whole == 0 else [query.name for query in workload.queries])
    few = load_bound(
        {"name": "w", "stream": stream, "queries": [*queries[:whole], *queries[whole + 1 :]]}
    )
    access = check((few, rows), 2, 1, every=("auto",))
    assert access.groups is not None
    assert list(access.groups.values()) == [[1, 2]]


def test_a_negation_far_from_every_candidate_is_not_read() -> None:
    times = [0, 100, 101, 102, 200]
    rows = [
        {"ts": t, "kind": kind, "k": 1, "x": 9, "y": 0}
        for t, kind in zip(times, ["C", "A", "C", "B", "C"], strict=True)
    ]
    access = check((workload_of(SELECTIVE), rows), 1, 1)
    assert access.groups is not None
    assert list(access.groups.values()) == [[1, 2, 3]]


def test_what_lies_between_the_events_of_a_strict_match_is_read() -> None:
    kinds = ["C", "A", "C", "B", "C", "C", "C", "A", "B"]
    rows = [
        {"ts": t, "kind": kind, "k": 1, "x": 9 if t < 5 else 1, "y": 0}
        for t, kind in enumerate(kinds)
    ]
    asked = "PATTERN SEQ(A a, B b) WHERE a.x > 5 RETURN a.x, b.x WITHIN 3 ms STRATEGY strict"
    access = check((workload_of(asked), rows), 1, 1)
    assert access.groups is not None
    assert list(access.groups.values()) == [[0, 1, 2, 3, 4, 5]]


@pytest.mark.parametrize(
    ("query", "why"),
    [
        ("PATTERN SEQ(A a, B b) RETURN a WITHIN 3 EVENTS", "counts events"),
        ("PATTERN SEQ(A a, B b) RETURN a WITHIN 3 EVENTS PARTITION BY k", "counts events"),
        ("PATTERN SEQ(A a, B b) RETURN a WITHIN SESSION 3 ms", "are sessions"),
        ("PATTERN A a RETURN a.x WITHIN 3 ms INTO Made", "events for others"),
        ("DEFINE S AS x > 5 PATTERN S RETURN S WITHIN 6 ms", "blocks of events tell"),
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
