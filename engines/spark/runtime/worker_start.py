"""Python workers that start while a job is still being prepared.

Spark starts them with the first task that needs them. They are forked from a process that loads
what is in `engines.spark.runtime.daemon`, about a second of a core that a stream would wait for.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from threading import Thread
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
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
        # Workers of a stream have the environment of those of an RDD.
        cores = session.sparkContext.defaultParallelism
        session.sparkContext.parallelize(range(cores), cores).foreachPartition(_load)


def _load(_: Iterable[Any]) -> None:
    import pyarrow as pa

    from engines.spark.runtime.kernel_warmup import warm

    warm((), pa.table({}))
