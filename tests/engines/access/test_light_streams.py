"""Streams keep the light index of the files of rows that they write."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from engines.access.index_files import checked_manifest, folder_of
from engines.spark.stream.sink import Sink


def publish(sink: Sink, batch: int, *rows: int) -> list[Path]:
    """What tasks have written is moved to where it is read, a file for each of them."""
    sink.prepare()
    sink.clear(batch)
    for part, number in enumerate(rows):
        table = pa.table({"time": np.arange(number), "query": pa.array(["q"] * number)})
        pq.write_table(table, sink.staging(batch) / f"matches-{part:05d}.parquet")
    sink.publish(batch)
    return sorted((Path(sink.folder) / "matches").glob("*.parquet"))


@pytest.mark.parametrize("light", [True, False])
def test_files_of_rows_are_indexed_as_they_come(tmp_path: Path, light: bool) -> None:
    sink = Sink(str(tmp_path), ("matches", "late"), light)
    publish(sink, 0, 10, 5000)
    files = publish(sink, 1, 7)
    assert len(files) == 3
    held = [checked_manifest(file) for file in files]
    assert [manifest and manifest.rows for manifest in held] == (
        [10, 5000, 7] if light else [None] * 3
    )


def test_a_batch_that_runs_again_is_indexed_anew(tmp_path: Path) -> None:
    sink = Sink(str(tmp_path), ("matches",), True)
    publish(sink, 0, 10, 20)
    (file,) = publish(sink, 0, 30)
    manifest = checked_manifest(file)
    assert manifest is not None
    assert manifest.rows == 30
    assert {path.name.split(".parquet")[0] for path in folder_of(file).glob("0*")} == {file.stem}
