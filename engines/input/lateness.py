"""How late events may be: those that come later are left out, or refused."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from engines.input.batches import Batch, FileSource
from engines.input.event_table import LARGEST_TICK, Fault, Faults
from workloads.workload import Stream, print_nanoseconds


class Lateness:
    """Leaves out, or refuses, events that come more than `bound` ticks after a later one.

    Without a bound events must come in order, but only where there are too many to sort them all;
    a `strict` bound holds for any number.
    """

    def __init__(
        self, bound: int | None, strict: bool, tick: int, column: str, faults: Faults
    ) -> None:
        self.bound, self.strict = bound or 0, strict
        self._is_stated, self._tick = bound is not None, tick
        self._column, self._faults = column, faults
        self.latest: int | None = None  # time that was seen

    @property
    def complete(self) -> int:
        """All events before this time have come."""
        assert self.latest is not None
        return self.latest - self.bound

    def on_time(self, batch: Batch) -> Batch:
        """The events of the next batch that are not too late."""
        ticks = batch.ticks
        follows = len(ticks) > 0 and (self.latest is None or self.latest <= ticks[0])
        if follows and (ticks[1:] >= ticks[:-1]).all():
            self.latest = int(ticks[-1])
            return batch
        before = batch.ticks[:1] if self.latest is None else np.array([self.latest])
        latest = np.maximum.accumulate(np.concatenate([before, batch.ticks]))
        self.latest = int(latest[-1])
        late = np.flatnonzero(batch.ticks < latest[:-1] - self.bound)
        if not len(late):
            return batch
        self._faults.report(
            batch.file,
            [
                Fault(
                    int(batch.rows[i]),
                    "late",
                    self._text(int(latest[i] - batch.ticks[i])),
                    self._column,
                )
                for i in late
            ],
        )
        return batch.take(np.delete(np.arange(len(batch)), late))

    def _text(self, by: int) -> str:
        amount = print_nanoseconds(by * self._tick)
        if self._is_stated:
            stated = print_nanoseconds(self.bound * self._tick)
            return f"the event comes {amount} after a later one, and at most {stated} was stated"
        return (
            f"the event comes {amount} after a later one, and there are too many events to sort "
            "them all: state how late they can be (--disorder), let more of them be read at once "
            "(--slice), or sort the file by time"
        )

    def all_on_time(self, batches: Iterable[Batch]) -> Iterator[Batch]:
        for batch in batches:
            kept = self.on_time(batch)
            if len(kept):
                yield kept


class LatenessBySource(Lateness):
    """Lateness of several sources, each with a bound of its own and by its own events alone.

    All events have come up to where the source is that is furthest behind.
    """

    def __init__(self, each: Sequence[Lateness]) -> None:
        self.strict = each[0].strict
        self._each = list(each)
        self._going = set(range(len(each)))

    @property
    def complete(self) -> int:
        reached = [
            -LARGEST_TICK if source.latest is None else source.complete for source in self._each
        ]
        return min((reached[number] for number in self._going), default=max(reached))

    def on_time(self, batch: Batch) -> Batch:
        if batch.is_last:
            self._going.discard(batch.source)
        return self._each[batch.source].on_time(batch)


def allowed_lateness(source: FileSource, stream: Stream, disorder: int | None) -> Lateness:
    """How late events may be: by `disorder` in nanoseconds, else by what is said of each source."""
    streams = [each.stream for each in stream.sources.values()] or [stream]
    each = []
    for own in streams:
        late = own.lateness if disorder is None else disorder
        bound = None if late is None else -(-late // source.tick)
        each.append(Lateness(bound, disorder is not None, source.tick, own.time, source.faults))
    return LatenessBySource(each) if stream.sources else each[0]
