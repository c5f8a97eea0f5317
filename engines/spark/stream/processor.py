"""Spark's side of the buckets of a live stream: where their state is, and when their turns are.

When a stream starts, Spark has a process of its own ask what the state is called. So nothing is
imported here that this takes no part in, and the queries come as bytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pyspark.sql.streaming.stateful_processor import (
    ExpiredTimerInfo,
    StatefulProcessor,
    StatefulProcessorHandle,
    TimerValues,
)

from engines.spark.stream.columns import ACCOUNT, STATE

if TYPE_CHECKING:
    import pandas as pd

    from engines.spark.stream.bucket_queries import BucketQueries


class BucketProcessor(StatefulProcessor):
    """One turn for each bucket that events arrive for, or that the watermark makes due.

    `queries` are `BucketQueries`, pickled.
    """

    def __init__(self, queries: bytes) -> None:
        self._queries = queries

    @property
    def _buckets(self) -> BucketQueries:
        from engines.spark.stream.bucket_queries import opened

        return opened(self._queries)

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._handle = handle
        self._state = handle.getValueState(STATE, "timer bigint, state binary")

    def handleInputRows(  # noqa: N802, Spark calls it so
        self, key: Any, rows: Iterator[Any], timerValues: TimerValues
    ) -> Iterator[pd.DataFrame]:
        arrived = [value for frame in rows for value in frame["events"]]
        watermark = timerValues.getCurrentWatermarkInMs()
        if key[0] == ACCOUNT:
            yield self._buckets.told(arrived, watermark)
        else:
            yield from self._turn(key, arrived, watermark)

    def handleExpiredTimer(  # noqa: N802, Spark calls it so
        self, key: Any, timerValues: TimerValues, expiredTimerInfo: ExpiredTimerInfo
    ) -> Iterator[pd.DataFrame]:
        yield from self._turn(key, [], timerValues.getCurrentWatermarkInMs())

    def _turn(self, key: Any, arrived: list[bytes], watermark: int) -> Iterator[pd.DataFrame]:
        timer, state = self._state.get() or (None, None)
        before = None if state is None else bytes(state)
        turn = self._buckets.turn(key[0], int(key[1]), before, arrived, watermark)
        if turn is None:  # a route of queries that have been taken away
            self._state.clear()
            return
        # A timer that has fired is taken away by Spark itself.
        if arrived and timer is not None and timer != turn.due:
            self._handle.deleteTimer(timer)
        if turn.due is not None and turn.due != timer:
            self._handle.registerTimer(turn.due)
        if turn.state is not None:
            self._state.update((turn.due, turn.state))
        elif state is not None:
            self._state.clear()
        yield turn.found
