"""What an executor does with a bucket of a live stream: state in, rows out, and a timer."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pandas as pd
import pyarrow as pa
from pyspark.sql.streaming.stateful_processor import (
    ExpiredTimerInfo,
    StatefulProcessor,
    StatefulProcessorHandle,
    TimerValues,
)

from engines.columns.occurrences import merged
from engines.live.run import Generation
from engines.program import RunOptions
from engines.results.tables import row_counts
from engines.spark.stream.source import (
    ACCOUNT,
    bytes_table,
    complete_until,
    table_bytes,
    watermark_for,
)

if TYPE_CHECKING:
    from engines.live.bucket import Bucket, Turn
    from engines.program import RunContext

STATE = "bucket"  # the name of the state variable
OUTPUT_KINDS = ("aggregates", "matches", "late")  # of rows, each a table in one value
FOUND = "about string, " + ", ".join(f"`{kind}` binary" for kind in OUTPUT_KINDS)

# Queries that have been made ready in this process. Spark makes a processor for every task anew.
_ready: dict[tuple[str, str], Bucket] = {}


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
        # Imported here: Spark also starts a process that only asks what the state is called.
        from engines.live.bucket import Bucket
        from engines.spark.runtime.kernel_warmup import warm_once

        # Spark runs a worker on each core: a device that is the processor takes one for each.
        os.environ.setdefault("POCL_MAX_PTHREAD_COUNT", "1")
        if (self.plan, route) not in _ready:
            for other in [place for place in _ready if place[0] != self.plan]:
                del _ready[other]
            warm_once(self.plan, (), pa.table({}))  # on machines that have compiled nothing yet
            bucket = Bucket(self.routes[route], self.schema, self.tick, self.options)
            _ready[self.plan, route] = bucket
        return _ready[self.plan, route]

    def finished(self, states: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The rows that are left in buckets, given as columns `route`, `bucket` and `state`."""
        for batch in states:
            for row in batch.to_pylist():
                bucket = self.bucket(row["route"])
                if bucket is not None:
                    about = {"route": row["route"], "bucket": row["bucket"]}
                    frame = found(bucket.finish(row["state"]), about, bucket.context)
                    yield pa.RecordBatch.from_pandas(frame, _ARROW, preserve_index=False)


_ARROW = pa.schema([("about", pa.string()), *((kind, pa.binary()) for kind in OUTPUT_KINDS)])


class BucketProcessor(StatefulProcessor):
    """One turn for each bucket that events arrive for, or that the watermark makes due."""

    def __init__(self, buckets: BucketQueries) -> None:
        self._buckets = buckets

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._handle = handle
        self._state = handle.getValueState(STATE, "timer bigint, state binary")

    def handleInputRows(  # noqa: N802, Spark calls it so
        self, key: Any, rows: Iterator[Any], timerValues: TimerValues
    ) -> Iterator[pd.DataFrame]:
        arrived = [value for frame in rows for value in frame["events"]]
        watermark = timerValues.getCurrentWatermarkInMs()
        if key[0] == ACCOUNT:
            yield _told(arrived, complete_until(watermark, self._buckets.tick))
        else:
            yield from self._turn(key, arrived, watermark)

    def handleExpiredTimer(  # noqa: N802, Spark calls it so
        self, key: Any, timerValues: TimerValues, expiredTimerInfo: ExpiredTimerInfo
    ) -> Iterator[pd.DataFrame]:
        yield from self._turn(key, [], timerValues.getCurrentWatermarkInMs())

    def _turn(self, key: Any, arrived: list[bytes], watermark: int) -> Iterator[pd.DataFrame]:
        timer, state = self._state.get() or (None, None)
        bucket = self._buckets.bucket(key[0])
        if bucket is None:  # a route of queries that have been taken away
            self._state.clear()
            return
        tick = self._buckets.tick
        until = complete_until(watermark, tick)
        tables = [bytes_table(value) for value in arrived]
        turn = bucket.turn(None if state is None else bytes(state), tables, until, int(key[1]))
        wanted = None if turn.due is None else watermark_for(turn.due, tick)
        # A timer that has fired is taken away by Spark itself.
        if arrived and timer is not None and timer != wanted:
            self._handle.deleteTimer(timer)
        if wanted is not None and wanted != timer:
            self._handle.registerTimer(wanted)
        if turn.state is not None:
            self._state.update((wanted, turn.state))
        elif state is not None:
            self._state.clear()
        about = {"route": key[0], "bucket": int(key[1]), "until": until}
        about["arrived"] = sum(table.num_rows for table in tables)
        yield found(turn, about, bucket.context)


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
    columns: dict[str, list[Any]] = {
        kind: [v] for kind, v in zip(OUTPUT_KINDS, values, strict=True)
    }
    return pd.DataFrame({"about": [json.dumps(about)], **columns})


def _told(accounts: list[bytes], until: int | None) -> pd.DataFrame:
    parts = [json.loads(value) for value in accounts]
    about = {
        "read": sum(part["read"] for part in parts),
        "bad": sum(part["bad"] for part in parts),
        "first": next((part["first"] for part in parts if part["first"]), None),
        "seen": merged(part["seen"] for part in parts),
        "until": until,
    }
    return pd.DataFrame({"about": [json.dumps(about)], **{kind: [None] for kind in OUTPUT_KINDS}})
