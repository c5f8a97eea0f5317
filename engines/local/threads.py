"""Slices of a stream in several threads at once; their rows come in the order of the slices."""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from queue import Full, Queue
from typing import TYPE_CHECKING, Any, Self

from engines.limits import Ledger
from engines.local.run import SlicedRun
from engines.matching.trees.adaptive import AdaptivePlans, Trees
from engines.program import Program, RunContext, RunOptions

if TYPE_CHECKING:
    from engines.local.run import SliceJob
    from engines.local.slices import Slice
    from engines.matching.trees.buffers import SelectedEvents
    from engines.results.chunks import RowChunk
    from optimizer.ir.query import Query

CHUNKS_WAITING = 32  # of a slice, until they are taken
STOP_POLL_SECONDS = 0.2


def threads_for(program: Program, options: RunOptions) -> int:
    """How many threads a run has: as many as are asked for, or one for each processor.

    One where the order in which events are met shows: with a limit on partial matches, whose oldest
    are left out; or on a device, which has one queue.
    """
    devices = {options.device or getattr(unit, "device", "cpu") for unit in program.units}
    if options.partial is not None or devices - {"cpu"}:
        return 1
    return options.threads or len(os.sched_getaffinity(0))


class SliceThreads:
    """Runs slices in threads; with one, in this thread.

    A slice is run when all rows have been taken of those that threads have no room for: then no
    more slices are held than run, but for one that is cut and waits.

    `ahead` gives the slices in order, and `chunks` the rows of one of them. Each slice has a
    context of its own; what it counts and finds out is added to the run's when its rows have been
    taken.
    """

    def __init__(self, run: SlicedRun, threads: int) -> None:
        self._run, self._threads = run, threads
        self._pool = ThreadPoolExecutor(threads, "sheaf-slice", self._begin)
        self._clocks: list[int] = []
        self._turns = _Turns()
        self._jobs: deque[_SliceRows] = deque()
        self._number = 0
        self._stopping = threading.Event()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """End all threads."""
        self._stopping.set()
        self._pool.shutdown(cancel_futures=True)
        self._clocks.clear()

    def ahead(self, slices: Iterator[Slice]) -> Iterator[Slice]:
        """The slices; the following ones run already."""
        if self._threads == 1:
            yield from slices
            return
        waiting: deque[Slice] = deque()
        for piece in slices:
            if piece.start is None and piece.stop is None:  # it is the only one
                yield piece
                return
            if len(waiting) == self._threads:
                yield waiting.popleft()
            waiting.append(piece)
            self._jobs.append(self._started(self._run.job(piece)))
        yield from waiting

    def chunks(self, piece: Slice) -> Iterator[RowChunk]:
        """The rows of the slice that `ahead` gave last."""
        if not self._jobs:
            return self._run.chunks(piece)
        return self._run.given(self._taken(self._jobs.popleft()), piece)

    def cpu_nanoseconds(self) -> int:
        """The processor time of all threads so far."""
        return sum(time.clock_gettime_ns(clock) for clock in self._clocks)

    def _begin(self) -> None:
        self._clocks.append(time.pthread_getcpuclockid(threading.get_ident()))

    def _started(self, job: SliceJob) -> _SliceRows:
        shared = self._run.context
        number, self._number = self._number, self._number + 1
        plans = _PlansInTurn(shared.adaptive_plans(), self._turns, number)
        context = RunContext(
            replace(shared.options, row_limit=None),
            shared.account,
            ledger=Ledger(stopped=dict(shared.ledger.stopped)),
            is_whole=shared.is_whole,
            adaptive=plans,
        )
        started = _SliceRows(number, context)
        self._turns.begin(number)
        self._pool.submit(self._work, job, started)
        return started

    def _work(self, job: SliceJob, into: _SliceRows) -> None:
        try:
            for chunk in job.chunks(into.context):
                if not self._put(into, chunk):
                    return
            self._put(into, None)
        except BaseException as error:
            self._put(into, error)
        finally:
            self._turns.end(into.number)

    def _put(self, into: _SliceRows, item: RowChunk | BaseException | None) -> bool:
        """Whether somebody still wants it."""
        while not self._stopping.is_set():
            try:
                into.queue.put(item, timeout=STOP_POLL_SECONDS)
            except Full:
                continue
            return True
        return False

    def _taken(self, job: _SliceRows) -> Iterator[RowChunk]:
        context = self._run.context
        stopped = set(context.ledger.stopped)
        while (item := job.queue.get()) is not None:
            if isinstance(item, BaseException):
                raise item
            if item.query in stopped:
                continue
            yield item
            if (why := context.ledger.stopped.get(item.query)) is not None:
                for each in (job, *self._jobs):  # none of these need find more
                    each.context.ledger.stopped[item.query] = why
        context.fallbacks.update(list(job.context.fallbacks))
        context.ledger.stopped.update(job.context.ledger.stopped)
        for name, number in vars(job.context.counts).items():
            setattr(context.counts, name, getattr(context.counts, name) + number)


@dataclass
class _SliceRows:
    """The rows of a slice that are found and not yet taken, and the context they are found in."""

    number: int
    context: RunContext
    queue: Queue[Any] = field(default_factory=lambda: Queue(CHUNKS_WAITING))


class _Turns:
    """Slices in their order, where they must meet something one after the other."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._running: dict[int, set[tuple[str, ...]]] = {}

    def begin(self, number: int) -> None:
        """A slice is about to run."""
        with self._changed:
            self._running[number] = set()

    def end(self, number: int) -> None:
        """A slice has run, and meets nothing more."""
        with self._changed:
            del self._running[number]
            self._changed.notify_all()

    def wait(self, number: int, what: tuple[str, ...]) -> None:
        """Wait until all slices before this one have met it."""
        with self._changed:
            self._changed.wait_for(
                lambda: all(what in met for n, met in self._running.items() if n < number)
            )

    def met(self, number: int, what: tuple[str, ...]) -> None:
        """The slice has met it."""
        with self._changed:
            self._running[number].add(what)
            self._changed.notify_all()


class _PlansInTurn(AdaptivePlans):
    """The trees of a run as one of its slices sees them, after all slices before it."""

    def __init__(self, shared: AdaptivePlans, turns: _Turns, number: int) -> None:
        super().__init__()
        self._shared, self._turns, self._number = shared, turns, number

    def trees(
        self,
        queries: Sequence[Query],
        planned: Trees,
        picked: SelectedEvents,
        widths: Mapping[str, int],
        sharing: bool = True,
        adaptive: bool = True,
    ) -> Trees:
        """The trees for the slice."""
        names = tuple(query.name for query in queries)
        self._turns.wait(self._number, names)
        try:
            return self._shared.trees(queries, planned, picked, widths, sharing, adaptive)
        finally:
            self._turns.met(self._number, names)
