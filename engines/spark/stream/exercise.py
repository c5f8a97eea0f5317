"""A small live stream that uses what every one uses, for the archive of the classes Spark loads."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import functions as sf

from engines.program import DEFAULT_OPTIONS
from engines.spark.stream.job import SESSION
from engines.spark.stream.processor import FOUND, BucketProcessor, BucketQueries

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def exercise_stream(spark: SparkSession, folder: str) -> None:
    """A folder that is read, state, a watermark, and the rows of batches."""
    for name, value in {**SESSION, "spark.sql.shuffle.partitions": "2"}.items():
        spark.conf.set(name, value)
    (Path(folder) / "live").mkdir()
    for number in range(2):
        pq.write_table(pa.table({"a": [number]}), f"{folder}/live/{number}.parquet")
    files = (
        spark.readStream.format("binaryFile")
        .schema("path string, modificationTime timestamp, length long, content binary")
        .option("maxFilesPerTrigger", 1)
        .load(f"{folder}/live")
        .selectExpr("path AS route", "1 AS bucket", "content AS events", "modificationTime AS at")
    )
    names = "route string, bucket int, events binary, at timestamp"
    rows = files.mapInArrow(_same, names).withWatermark("at", "1 second")
    # Of routes that no query has, nothing is kept.
    none = BucketProcessor(BucketQueries("", {}, pa.schema([]), 1, DEFAULT_OPTIONS))
    turns = rows.select("route", "bucket", "events").groupBy("route", "bucket")
    found = turns.transformWithStateInPandas(none, FOUND, "append", "eventTime")
    query = (
        found.select(sf.col("about"))
        .writeStream.foreachBatch(_collect)
        .option("checkpointLocation", f"{folder}/checkpoint")
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


def _collect(rows: DataFrame, batch: int) -> None:
    rows.mapInArrow(_same, "about string").collect()


def _same(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    return batches
