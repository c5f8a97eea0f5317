"""Kafka, through Spark's connector: topics that events come from, and that rows go to."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from engines.limits import EventsError
from engines.results.json_lines import json_rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

KAFKA = "kafka://"
# The connector is no part of Spark itself; it must be of Spark's own version.
_PACKAGE = "org.apache.spark:spark-sql-kafka-0-10_2.13"


def kafka_settings() -> dict[str, str]:
    """What a session must be made with, so that Spark loads the connector."""
    import pyspark

    return {"spark.jars.packages": f"{_PACKAGE}:{pyspark.__version__}"}


def topic_of(path: str) -> tuple[str, str]:
    """The servers and the topic of `kafka://HOST:PORT[,HOST:PORT]/TOPIC`."""
    servers, _, topic = path.removeprefix(KAFKA).partition("/")
    if not servers or not topic or "/" in topic:
        raise EventsError(f"'{path}' is no topic; write kafka://HOST:PORT/TOPIC")
    return servers, topic


def source_options(path: str) -> dict[str, str]:
    """The connector's options to read a topic from its beginning."""
    servers, topic = topic_of(path)
    return {
        "kafka.bootstrap.servers": servers,
        "subscribe": topic,
        "startingOffsets": "earliest",
        # Events that were never read are gone: an error, and not a gap in the results.
        "failOnDataLoss": "true",
    }


@dataclass(frozen=True)
class KafkaSink:
    """A topic that gets every row as a message: the query as its key, an object as its value.

    The object has the row's columns, its `kind` and the number of its `batch`. Each row comes at
    least once: those of a batch that was cut off come again, with the same number.
    """

    path: str
    kinds: tuple[str, ...]
    options: Mapping[str, str] = field(default_factory=dict, repr=False)

    def prepare(self) -> None:
        """Refuse what is no topic."""
        topic_of(self.path)

    def write(self, found: DataFrame, batch: int) -> list[dict[str, Any]]:
        """Send the rows of a batch; gives what is told of them."""
        servers, topic = topic_of(self.path)
        kept = found.persist()  # a turn must not be taken once for the rows and once for the rest
        try:
            messages = kept.mapInArrow(_Messages(self.kinds, batch), "key string, value string")
            sent = messages.write.format("kafka").options(**self.options)
            sent.options(**{"kafka.bootstrap.servers": servers, "topic": topic}).save()
            return [json.loads(row[0]) for row in kept.select("about").collect()]
        finally:
            kept.unpersist()


@dataclass(frozen=True)
class _Messages:
    """What a task makes of the tables of its turns."""

    kinds: tuple[str, ...]
    batch: int

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for kind in self.kinds:
                for value in batch.column(kind).drop_null():
                    with pa.ipc.open_stream(value.as_buffer()) as tables:
                        yield from (self._messages(kind, table) for table in tables)

    def _messages(self, kind: str, rows: pa.RecordBatch) -> pa.RecordBatch:
        before = f'{{"kind":"{kind}","batch":{self.batch},'
        if kind == "late":  # events, which are no query's, and whose columns have any names
            key, value = pa.nulls(rows.num_rows), json_rows(rows, before, ready=())
        else:
            key, value = rows.column("query"), json_rows(rows, before)
        return pa.RecordBatch.from_arrays(
            [key.cast(pa.string()), value.cast(pa.string())], ["key", "value"]
        )
