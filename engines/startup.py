"""A cache of the classes Spark loads, which halves the time its JVM takes to start and warm up.

Made once, by `python -m engines.startup`: it runs a small job of each kind while the JVM takes
notes. It is a help and nothing else: without it, or if it does not fit, the JVM goes its usual way.
"""

import os
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from engines.java import java_home

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession


def startup_cache() -> Path | None:
    """Where the cache is or would be; none for a Java that is not ours."""
    import pyspark

    if os.environ.get("SHEAF_JAVA_HOME"):
        return None
    return java_home() / f"spark-{pyspark.__version__}.aot"


def startup_options() -> list[str]:
    """The Java options that use the cache, if there is one."""
    cache = startup_cache()
    if cache is None or not cache.is_file():
        return []
    # Without the second, the JVM remarks on every entry it passes over, on the terminal.
    return [f"-XX:AOTCache={cache}", "-Xlog:aot*=off"]


def make_startup_cache() -> None:
    """Make the cache, unless it is there or the Java in use is not ours."""
    from engines.jvm import stop_jvm
    from engines.session import spark_session

    cache = startup_cache()
    if cache is None or cache.is_file():
        return
    draft = cache.with_suffix(f".{os.getpid()}")
    conf = {"spark.driver.extraJavaOptions": f'"-XX:AOTCacheOutput={draft}"'}
    with spark_session("local[2]", conf=conf) as spark:
        _exercise(spark, spark.conf.get("spark.local.dir") or ".")
    stop_jvm(timeout=300)  # it writes the cache on its way out
    if draft.is_file():
        draft.rename(cache)


def _exercise(spark: "SparkSession", folder: str) -> None:
    """Use what jobs use: files, shuffles, Arrow functions, and a stream with state."""
    schema = "id bigint, key bigint"
    events = spark.range(1000).selectExpr("id", "id % 4 AS key")
    events.repartition(2).write.parquet(f"{folder}/events")
    read = spark.read.parquet(f"{folder}/events").where("id >= 10")
    sorted_events = read.repartition(2, "key").sortWithinPartitions("id")
    sorted_events.mapInArrow(_same, schema).write.parquet(f"{folder}/mapped")
    read.groupBy("key").count().orderBy("key").toPandas()
    stream = spark.readStream.schema(schema).parquet(f"{folder}/events")
    query = (
        stream.groupBy("key")
        .count()
        .writeStream.format("noop")
        .outputMode("update")
        .option("checkpointLocation", f"{folder}/checkpoint")
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


def _same(batches: Iterator["pa.RecordBatch"]) -> Iterator["pa.RecordBatch"]:
    return batches


if __name__ == "__main__":
    try:
        make_startup_cache()
    except Exception:
        traceback.print_exc()  # and no more: everything works without the cache
