"""Batches that a thread reads ahead: giving up half of them waits for nothing."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

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

    given = event_files._ahead(batches(), lambda nanoseconds: None)
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
