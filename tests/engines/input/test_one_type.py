"""Where all events that are read have one type, the column of types is not."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from engines.columns.columns import Columns
from engines.input.batches import FileSource
from engines.input.event_table import Events, Faults, from_table
from optimizer.bind.binder import load_bound
from optimizer.ir.pattern import events as pattern_events
from optimizer.ir.query import BoundWorkload
from tests.running import run_local

STREAM: dict[str, Any] = {"time": "ts", "type": "kind", "unit": "ms"}
LONG = "A" * 40


def workload(**more: Any) -> BoundWorkload:
    queries = [
        "QUERY counts PATTERN A a AGG COUNT(*), SUM(a.x) WITHIN 10 ms SLIDE 5 ms",
        "QUERY others PATTERN SEQ(A a, B b) WHERE a.x > 2 AGG COUNT(*) WITHIN 10 ms SLIDE 5 ms",
    ]
    return load_bound({"name": "w", "stream": {**STREAM, **more}, "queries": queries})


def stored(folder: Path, kinds: Sequence[str | None], kind: pa.DataType | None = None) -> str:
    """Row groups of four events."""
    table = pa.table(
        {
            "ts": np.arange(len(kinds)),
            "kind": pa.array(kinds, kind or pa.string()),
            "x": np.arange(len(kinds)) % 5,
        }
    )
    path = folder / "events.parquet"
    pq.write_table(table, path, row_group_size=4)
    return str(path)


def read(path: str, batch_rows: int, groups: Sequence[int] | None = None) -> tuple[Events, bool]:
    """The events, and whether the file was asked for their types."""
    asked: list[list[str]] = []
    iterate = pq.ParquetFile.iter_batches

    def noting(
        self: pq.ParquetFile, rows: int, some: list[int], names: list[str], **more: Any
    ) -> Any:
        asked.append(names)
        return iterate(self, rows, some, names, **more)

    found = workload()
    source = FileSource(path, found.stream, Faults(), batch_rows=batch_rows)
    if groups is not None:
        source.only({path: groups})
    with mock.patch.object(pq.ParquetFile, "iter_batches", noting):
        tables = [batch.table for batch in source.batches(["ts", "kind", "x"])]
    table = pa.concat_tables([source.schema.empty_table(), *tables])
    return from_table(table, found.stream), "kind" in asked[0]


CASES = {
    "one type": (["A"] * 14, None, False),
    "two types": (["A"] * 9 + ["B"] * 5, None, True),
    "one type in what is read": (["A"] * 8 + ["B"] * 4, [0, 1], False),
    "another one in what is read": (["A"] * 8 + ["B"] * 4, [2], False),
    "a null": (["A"] * 7 + [None], None, True),
    "nulls alone": ([None] * 6, None, True),
    "a long text": ([LONG] * 6, None, True),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("batch_rows", [1, 3, 100])
def test_events_are_the_same_whether_their_types_are_read(
    tmp_path: Path, case: str, batch_rows: int
) -> None:
    kinds, groups, is_read = CASES[case]
    path = stored(tmp_path, kinds)
    events, asked = read(path, batch_rows, groups)
    table = pq.ParquetFile(path).read_row_groups(
        range(99)[: -(-len(kinds) // 4)] if groups is None else groups
    )
    assert events.table.equals(table)
    assert asked == is_read


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("types", [{}, {"A": "x > 3"}, {"B": "x = 1"}])
def test_rows_are_those_of_a_table_in_memory(
    tmp_path: Path, case: str, types: dict[str, str]
) -> None:
    kinds, groups, _ = CASES[case]
    path = stored(tmp_path, kinds)
    found = workload(types=types)
    events, _ = read(path, 3, groups)
    plain = from_table(events.table.combine_chunks(), found.stream)
    assert run_local(found, events).aggregates.equals(run_local(found, plain).aggregates)
    for query in found.queries:
        for symbol in {event.symbol for event in pattern_events(query.pattern)}:
            one, other = Columns(found, events), Columns(found, plain)
            np.testing.assert_array_equal(one.instances(symbol), other.instances(symbol))


def test_types_of_another_kind_are_read(tmp_path: Path) -> None:
    path = stored(tmp_path, ["A"] * 8, pa.large_string())
    events, asked = read(path, 3)
    assert asked
    assert len(events) == 8
