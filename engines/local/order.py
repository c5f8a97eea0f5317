"""Events in the order of their time, where they arrive no later than a stated bound."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from engines.batches import Batch
from engines.faults import Fault, Faults
from workloads.document import print_nanoseconds


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
