"""Rows of a live stream go to tables of Delta and Iceberg, those of each batch once."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from api.jobs.live_rows import LiveRows, RowCountCache
from engines.results.lake_place import add_rows
from engines.spark.batch.job import JobError
from tests.engines.results.test_lake_sinks import KINDS, read
from tests.engines.spark.stream_case import Case, pieces, rows, sample

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.timeout(600)
QUERIES = [
    "QUERY keyed PATTERN SEQ(A a, !C c, B b) PARTITION BY user AGG COUNT(*), SUM(b.x) WITHIN 40 ms",
    "QUERY other PATTERN SEQ(A a, B b) PARTITION BY item RETURN a, b.x WITHIN 30 ms",
]


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_a_batch_that_is_cut_off_behind_its_commit_is_in_the_table_once(
    kind: str, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("deltalake" if kind == "delta" else "pyiceberg")
    case = Case(tmp_path)
    case.out = f"{kind}:{tmp_path / 'out'}"
    case.arrive(*pieces(sample(), 2))
    cuts: list[int] = []

    def cut_off(table: Any, files: Any, turn: Any) -> None:
        add_rows(table, files, turn)
        if files and not cuts:
            cuts.append(turn.batch)
            raise OSError("the lights went out")

    with monkeypatch.context() as patched:
        patched.setattr("engines.spark.stream.sink.add_rows", cut_off)
        with pytest.raises(JobError, match="the lights went out"):
            case.run(spark, QUERIES)
    case.run(spark, QUERIES)
    assert cuts[0] in [progress.batch for progress in case.seen]  # it ran again
    shown = LiveRows(tmp_path / "out", tmp_path / "state", RowCountCache(), is_lake=True)
    so_far = sum(progress.matches for progress in case.seen)
    assert shown.total("matches") == so_far > 0
    case.finish(spark)
    for name in ("aggregates", "matches"):
        found = pa.Table.from_pylist(read(kind, tmp_path / "out" / name))
        assert rows(found) == case.expected(name)
        assert found.num_rows
