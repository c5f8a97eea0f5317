"""Python workers that start while a job is still being prepared.

Spark starts them with the first task that needs them, one kind after the other: those of functions
over Arrow batches, and those of stateful operators. Each kind loads what is in
`engines.spark.runtime.daemon`, about a second of a core that a stream would wait for.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from threading import Thread
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession


def start_workers(session: SparkSession) -> Thread | None:
    """A thread in which the workers of this machine start, and load what is compiled."""
    if not str(session.sparkContext.master).startswith("local["):
        return None
    thread = Thread(target=_start, args=(session,), daemon=True)
    thread.start()
    return thread


def _start(session: SparkSession) -> None:
    # A help and nothing else: what fails here fails again where it is needed, and is told there.
    with suppress(Exception):
        session.range(0, 1, 1, 1).mapInArrow(_same, "id bigint").collect()
        # Workers of stateful operators have the environment of those of an RDD.
        cores = session.sparkContext.defaultParallelism
        session.sparkContext.parallelize(range(cores), cores).foreachPartition(_load)


def _same(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from batches


def _load(_: Iterable[Any]) -> None:
    import pyarrow as pa

    from engines.spark.runtime.kernel_warmup import warm

    warm((), pa.table({}))
