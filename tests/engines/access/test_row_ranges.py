"""Ranges of rows are what sets of rows are, and rows that are left out change no number."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import given
from hypothesis import strategies as st

from engines.access.build_index import build_indexes
from engines.access.choice import choose_access
from engines.input.batches import FileSource
from engines.input.event_table import Faults
from engines.input.row_ranges import RowRanges
from optimizer.bind.binder import load_bound
from workloads.workload import Stream

spans = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 6)), max_size=8)


def ranges_of(drawn: list[tuple[int, int]]) -> RowRanges:
    begin = np.array([first for first, _ in drawn], np.int64)
    end = np.array([first + size for first, size in drawn], np.int64)
    some = end > begin
    return RowRanges.union([(begin[some][:3], end[some][:3]), (begin[some][3:], end[some][3:])])


@given(spans, st.integers(0, 35), st.integers(0, 35))
def test_ranges_are_sets_of_rows(drawn: list[tuple[int, int]], low: int, high: int) -> None:
    wanted = {row for first, size in drawn for row in range(first, first + size)}
    found = ranges_of(drawn)
    assert found.rows().tolist() == sorted(wanted)
    assert len(found) == len(wanted)
    assert (found.begin[1:] > found.end[:-1]).all()
    part = found.between(low, max(low, high))
    assert part.rows().tolist() == sorted(row - low for row in wanted if low <= row < high)


@given(spans, st.sets(st.integers(0, 5)), st.integers(1, 9))
def test_rows_that_are_given_keep_their_numbers(
    drawn: list[tuple[int, int]], groups: set[int], batch: int
) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "e.parquet"
        rows = 33
        table = pa.table({"ts": range(rows), "kind": ["A"] * rows})
        pq.write_table(table, path, row_group_size=6)
        source = FileSource(str(path), Stream(time="ts", type="kind"), Faults(), batch_rows=batch)
        wanted = ranges_of(drawn)
        source.only({str(path): sorted(groups)}, {str(path): wanted})
        found = list(source.batches(["ts", "kind"]))
    times = [t for each in found for t in each.table.column("ts").to_pylist()]
    assert times == [t for t in wanted.rows().tolist() if t < rows and t // 6 in groups]
    assert [row for each in found for row in each.rows.tolist()] == [t + 1 for t in times]


def test_a_file_of_one_row_group_is_gone_on_with_in_part(tmp_path: Path) -> None:
    x = np.full(20_000, 5)
    x[[7000, 7010, 15_000]] = 1
    path = tmp_path / "e.parquet"
    pq.write_table(pa.table({"ts": np.arange(20_000), "kind": ["A"] * 20_000, "x": x}), path)
    asked = "SEQ(A a, !A c, A b) WHERE a.x = 1 AND b.x = 1 AND c.x = 2 RETURN a.ts WITHIN 1 s"
    stream = {"time": "ts", "type": "kind", "unit": "ms"}
    workload = load_bound({"name": "w", "stream": stream, "queries": [f"QUERY q PATTERN {asked}"]})
    source = FileSource(str(path), workload.stream, Faults())
    assert choose_access(source, workload, "index").method == "scan"
    build_indexes(str(path), ["x"])
    access = choose_access(source, workload, "index")
    assert access.rows is not None
    # Events that would forbid a match are where blocks may have them: nowhere.
    assert access.rows[str(path)].rows().tolist() == [7000, 7010]
    assert (access.row_groups, access.events, access.of_events) == (1, 2, 20_000)


def test_a_file_without_rows_is_no_trouble(tmp_path: Path) -> None:
    table = pa.table({"ts": np.arange(9), "kind": ["A"] * 9, "x": np.arange(9)})
    pq.write_table(table, tmp_path / "1.parquet", row_group_size=3)
    pq.write_table(table.slice(0, 0), tmp_path / "2.parquet")
    build_indexes(str(tmp_path), ["x"])
    stream = {"time": "ts", "type": "kind", "unit": "ms"}
    query = "QUERY q PATTERN A a WHERE a.x = 4 RETURN a.ts WITHIN 1 s"
    workload = load_bound({"name": "w", "stream": stream, "queries": [query]})
    access = choose_access(FileSource(str(tmp_path), workload.stream, Faults()), workload, "index")
    assert access.events == 1
