"""What Spark is told for live streams: settings of the JVM, and of a stream's session."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from engines.spark.stream.kafka import KAFKA, kafka_settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SETTINGS = {
    # A processor carries all queries; compressed ones of more than this would be broadcast, which
    # stateful operators do not take.
    "spark.broadcast.UDFCompressionThreshold": str(2**30),
}
# Python does the work: what the JVM would compile a second time takes as long as a batch, and a
# collector of garbage that runs beside it takes from the cores that Python needs.
_COMPILER, _COLLECTOR = "-XX:TieredStopAtLevel=1", "-XX:+UseParallelGC"
_DEFAULTS = "spark.driver.defaultJavaOptions"
_COLLECTORS = re.compile(r"-XX:\+Use\w*GC")
SESSION = {
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing."
        "FileSystemBasedCheckpointFileManager"
    ),
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    # What changes is written, and not the whole store.
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    # Counting the rows would read each piece of state once more before it is replaced.
    "spark.sql.streaming.stateStore.rocksdb.trackTotalNumberOfRows": "false",
    "spark.sql.streaming.minBatchesToRetain": "10",
    # Workers of stateful operators have none: one kind of worker then serves all functions.
    "spark.sql.execution.pyspark.udf.simplifiedTraceback.enabled": "false",
    # Spark moves a row for each bucket: code for that takes longer to compile than it saves.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}


def settings_for(*paths: str, conf: Mapping[str, str] | None = None) -> dict[str, str]:
    """What a session is made with for a stream from and to there; `conf` wins over our settings."""
    options = f"{os.environ.get('JAVA_TOOL_OPTIONS', '')} {(conf or {}).get(_DEFAULTS, '')}"
    # The JVM does not start where it is told of two.
    collector = "" if _COLLECTORS.search(options) else f" {_COLLECTOR}"
    found = _SETTINGS | {"spark.driver.extraJavaOptions": _COMPILER + collector}
    if any(path.startswith(KAFKA) for path in paths):
        found |= kafka_settings()
    found |= conf or {}
    if "spark.jars" in found:  # jars that are there take the place of a registry's
        found.pop("spark.jars.packages", None)
    return found


def stream_session(session: SparkSession, partitions: int) -> SparkSession:
    """A session with settings of its own, of the same application."""
    own = session.newSession()
    for name, value in SESSION.items():
        own.conf.set(name, value)
    own.conf.set("spark.sql.shuffle.partitions", str(partitions))
    return own
