"""Batches that a thread reads ahead: giving up half of them waits for nothing."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from engines.input import event_files
from engines.input.batches import FileSource
from engines.input.event_table import Faults
from workloads.workload import Stream


def test_a_reader_that_is_given_up_is_not_waited_for() -> None:
    """Garbage is collected anywhere, also where a wait for a thread would never end."""
    goes_on = threading.Event()

    def batches() -> Iterator[pa.RecordBatch]:
        yield pa.record_batch({"a": [1]})
        goes_on.wait()
        yield pa.record_batch({"a": [2]})

    given = event_files._ahead([batches()], lambda nanoseconds: None)
    assert next(given).num_rows == 1
    closing = threading.Thread(target=given.close, daemon=True)
    closing.start()
    closing.join(20)
    try:
        assert not closing.is_alive()
    finally:
        goes_on.set()


def test_a_file_that_is_given_up_can_be_read_again(tmp_path: Path) -> None:
    path = tmp_path / "events.parquet"
    size = 1000
    pq.write_table(pa.table({"ts": list(range(size)), "kind": ["A"] * size}), path)
    for _ in range(20):
        source = FileSource(str(path), Stream(time="ts", type="kind"), Faults(), batch_rows=10)
        given = source.batches(source.schema.names)
        assert len(next(given)) == 10
        given.close()
    source = FileSource(str(path), Stream(time="ts", type="kind"), Faults(), batch_rows=10)
    assert sum(map(len, source.batches(source.schema.names))) == size


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_parts_that_are_read_at_once_come_in_their_order(tmp_path: Path, threads: int) -> None:
    """Row groups of 7 rows: by batches of 10 rows a part has two of them, the last one row."""
    path = tmp_path / "events.parquet"
    size = 99
    table = pa.table({"ts": list(range(size)), "kind": ["A"] * size})
    pq.write_table(table, path, row_group_size=7)
    source = FileSource(str(path), Stream(time="ts", type="kind"), Faults(), batch_rows=10)
    source.read_in(threads)
    found = list(source.batches(source.schema.names))
    assert [t for batch in found for t in batch.ticks.tolist()] == list(range(size))
    assert [r for batch in found for r in batch.rows.tolist()] == list(range(1, size + 1))
    assert source.take_spent() > 0


def test_the_next_part_is_read_while_one_is_worked_on() -> None:
    read = threading.Event()

    def first() -> Iterator[pa.RecordBatch]:
        assert read.wait(20)
        yield pa.record_batch({"a": [1]})

    def second() -> Iterator[pa.RecordBatch]:
        read.set()
        yield pa.record_batch({"a": [2]})

    given = event_files._ahead([first(), second()], lambda nanoseconds: None, 2)
    assert [batch["a"][0].as_py() for batch in given] == [1, 2]
