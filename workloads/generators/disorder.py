"""Lets events arrive late by a bounded number of ticks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Block = tuple[pa.RecordBatch, npt.NDArray[np.int64], npt.NDArray[np.int64]]


def delayed(blocks: Iterable[Block]) -> Iterator[pa.RecordBatch]:
    """Put events in the order of their arrival: their time plus their delay.

    Takes blocks of (events, times, delays) in order of time. Events with a delay of at most d
    come after no event that is more than d ticks later. What has not arrived by the end of a
    block waits, so that memory holds one block and the events of d ticks.
    """
    waiting: pa.RecordBatch | None = None
    waiting_arrivals = np.empty(0, np.int64)
    for events, times, delays in blocks:
        if events.num_rows == 0:
            continue
        # In half ticks: what is late comes after what is on time, or one tick late is not late.
        late_half = (delays > 0).astype(np.int64)
        arrivals = np.concatenate([waiting_arrivals, 2 * (times + delays) + late_half])
        batch = events if waiting is None else pa.concat_batches([waiting, events])
        order = np.argsort(arrivals, kind="stable")
        # Later blocks arrive at the last time or after it; on a tie the earlier event is first.
        arrived = int(np.searchsorted(arrivals[order], 2 * times[-1], side="right"))
        if arrived:
            yield batch.take(pa.array(order[:arrived]))
        rest = np.sort(order[arrived:])
        waiting, waiting_arrivals = batch.take(pa.array(rest)), arrivals[rest]
    if waiting is not None and waiting.num_rows:
        yield waiting.take(pa.array(np.argsort(waiting_arrivals, kind="stable")))
