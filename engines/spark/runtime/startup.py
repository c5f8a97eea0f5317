"""An archive of the classes Spark loads, which takes a third off the time it needs to start.

Made once, by `python -m api.setup`: the JVM notes what small jobs load. It is
a help and nothing else: without it, or if it does not fit, the JVM goes its usual way.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from engines.spark.runtime.java import java_home

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession


def archives() -> tuple[Path, Path] | None:
    """Where the archives of Java's and of Spark's classes are; none for a Java that is not ours."""
    import pyspark

    if os.environ.get("SHEAF_JAVA_HOME"):
        return None
    return java_home() / "java.jsa", java_home() / f"spark-{pyspark.__version__}.jsa"


def startup_options() -> list[str]:
    """The Java options that use the archives, if there are any."""
    found = archives()
    if found is None or not found[1].is_file():
        return []
    # Without the second, the JVM would remark on archives that do not fit.
    return [f"-XX:SharedArchiveFile={found[0]}:{found[1]}", "-Xlog:cds*=off"]


def make_archives(*exercises: Callable[[SparkSession, Path], None]) -> None:
    """Make the archives, unless they are there or the Java in use is not ours.

    `exercises` are given a session and an empty folder; what Spark loads for them is noted, beside
    what every job uses.
    """
    from engines.spark.runtime.jvm import stop_jvm
    from engines.spark.runtime.session import spark_session

    found = archives()
    if found is None or found[1].is_file():
        return
    java, spark = found
    # The second archive holds only with the very file the first was when it was made.
    subprocess.run(
        [java_home() / "bin" / "java", "-Xshare:dump", f"-XX:SharedArchiveFile={java}"], check=True
    )
    draft = spark.with_suffix(".new")
    options = f'"-XX:SharedArchiveFile={java}" "-XX:ArchiveClassesAtExit={draft}"'
    with (
        tempfile.TemporaryDirectory(prefix="sheaf-archives-") as made,
        spark_session("local[2]", conf={"spark.driver.extraJavaOptions": options}) as session,
    ):
        for number, exercise in enumerate((_exercise, *exercises)):
            folder = Path(made, str(number))
            folder.mkdir()
            exercise(session, folder)
    stop_jvm(timeout=300)  # it writes the archive on its way out
    draft.rename(spark)


def _exercise(spark: SparkSession, folder: Path) -> None:
    """Use what every job uses: files, a shuffle, a sort, and a Python function on Arrow batches."""
    spark.range(100).selectExpr("id", "id % 4 AS key").write.parquet(f"{folder}/events")
    events = spark.read.parquet(f"{folder}/events").where("id >= 10")
    buckets = events.repartition(2, "key").sortWithinPartitions("id")
    buckets.mapInArrow(_same, "id bigint, key bigint").write.parquet(f"{folder}/results")


def _same(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    return batches
