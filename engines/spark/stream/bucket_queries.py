"""The queries of a live stream as its buckets take them: state in, rows out, on executors."""

from __future__ import annotations

import json
import os
import pickle
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa

from engines.columns.occurrences import merged
from engines.live.bucket import Bucket, Turn
from engines.live.run import Generation
from engines.program import RunContext, RunOptions
from engines.results.tables import row_counts
from engines.spark.runtime.kernel_warmup import warm_once
from engines.spark.stream.columns import OUTPUT_KINDS
from engines.spark.stream.source import (
    bytes_table,
    complete_until,
    table_bytes,
    watermark_for,
)

# Queries that have been made ready in this process. Spark makes a processor for every task anew.
_ready: dict[tuple[str, str], Bucket] = {}


class TakenTurn(NamedTuple):
    """One row of what was found, the state, and the watermark that makes the bucket due again."""

    found: pd.DataFrame
    state: bytes | None
    due: int | None


@lru_cache(maxsize=2)
def opened(content: bytes) -> BucketQueries:
    """The queries that were pickled so."""
    queries = pickle.loads(content)
    assert isinstance(queries, BucketQueries)
    return queries


@dataclass(frozen=True)
class BucketQueries:
    """The queries of each route, by generation, and the columns that arrive.

    `plan` is a name for all of it.
    """

    plan: str
    routes: Mapping[str, Mapping[str, Generation]]
    schema: pa.Schema
    tick: int
    options: RunOptions

    def bucket(self, route: str) -> Bucket | None:
        """What takes turns for a route; None for one that no query needs any more."""
        if route not in self.routes:
            return None
        # Spark runs a worker on each core: a device that is the processor takes one for each.
        os.environ.setdefault("POCL_MAX_PTHREAD_COUNT", "1")
        if (self.plan, route) not in _ready:
            for other in [place for place in _ready if place[0] != self.plan]:
                del _ready[other]
            warm_once(self.plan, (), pa.table({}))  # on machines that have compiled nothing yet
            bucket = Bucket(self.routes[route], self.schema, self.tick, self.options)
            _ready[self.plan, route] = bucket
        return _ready[self.plan, route]

    def turn(
        self, route: str, bucket: int, state: bytes | None, arrived: Sequence[bytes], watermark: int
    ) -> TakenTurn | None:
        """A turn of a bucket, with what has arrived for it; None where no query needs its route."""
        taker = self.bucket(route)
        if taker is None:
            return None
        until = complete_until(watermark, self.tick)
        tables = [bytes_table(value) for value in arrived]
        turn = taker.turn(state, tables, until, bucket)
        about = {"route": route, "bucket": bucket, "until": until}
        about["arrived"] = sum(table.num_rows for table in tables)
        due = None if turn.due is None else watermark_for(turn.due, self.tick)
        return TakenTurn(found(turn, about, taker.context), turn.state, due)

    def told(self, accounts: Sequence[bytes], watermark: int) -> pd.DataFrame:
        """One row: what those who read and packed the events have said of them."""
        return _told(accounts, complete_until(watermark, self.tick))

    def finished(self, states: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The rows that are left in buckets, given as columns `route`, `bucket` and `state`."""
        for batch in states:
            for row in batch.to_pylist():
                bucket = self.bucket(row["route"])
                if bucket is not None:
                    about = {"route": row["route"], "bucket": row["bucket"]}
                    frame = found(bucket.finish(row["state"]), about, bucket.context)
                    yield pa.RecordBatch.from_pandas(frame, _ARROW, preserve_index=False)


_COLUMNS = pd.Index(["about", *OUTPUT_KINDS])
_ARROW = pa.schema([("about", pa.string()), *((kind, pa.binary()) for kind in OUTPUT_KINDS)])


def found(turn: Turn, about: dict[str, Any], context: RunContext) -> pd.DataFrame:
    """One row: what is to be written, and what is to be told of this turn."""
    about |= context.take()
    tables = (turn.results.aggregates, turn.results.matches, turn.late)
    about |= {
        "rows": row_counts(turn.results),
        "taken": turn.taken,
        "waiting": turn.waiting,
        "held": dict(turn.held),
        "state": 0 if turn.state is None else len(turn.state),
    }
    about |= {kind: table.num_rows for kind, table in zip(OUTPUT_KINDS, tables, strict=True)}
    values = [table_bytes(table) if table.num_rows else None for table in tables]
    return _row(json.dumps(about), values)


def _told(accounts: Sequence[bytes], until: int | None) -> pd.DataFrame:
    parts = [json.loads(value) for value in accounts]
    about = {
        "read": sum(part["read"] for part in parts),
        "bad": sum(part["bad"] for part in parts),
        "first": next((part["first"] for part in parts if part["first"]), None),
        "nanoseconds": sum(part["nanoseconds"] for part in parts),
        "seen": merged(part["seen"] for part in parts),
        "until": until,
    }
    return _row(json.dumps(about), [None] * len(OUTPUT_KINDS))


def _row(about: str, values: Sequence[bytes | None]) -> pd.DataFrame:
    """All columns in one block, which pandas makes in a tenth of the time."""
    content = np.empty((1, len(_COLUMNS)), object)
    content[0, 0] = about
    for place, value in enumerate(values, 1):
        content[0, place] = value
    return pd.DataFrame(content, columns=_COLUMNS, copy=False)
