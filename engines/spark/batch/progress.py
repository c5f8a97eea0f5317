"""How far a job is: what its tasks have read and found, reported while it runs."""

from __future__ import annotations

import contextlib
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from engines.account import Account

if TYPE_CHECKING:
    from pyspark import AccumulatorParam
    from pyspark.sql import SparkSession

    from engines.input.event_table import Fault

Read = tuple[int, dict[str, int], "tuple[Fault, str] | None"]  # rows, bad ones by kind, the first

# Events, rows by query, the number of its program, and the totals of its account.
TaskCounts = tuple[int, dict[str, int], int, dict[str, dict[str, int]]]


class LatestByName:
    """An accumulator's parameter: what is told last under a name is what holds.

    A task that runs twice tells the same twice, which then counts once.
    """

    def zero(self, value: dict[Any, Any]) -> dict[Any, Any]:
        return {}

    def addInPlace(self, one: dict[Any, Any], other: dict[Any, Any]) -> dict[Any, Any]:  # noqa: N802
        one.update(other)
        return one


@dataclass(frozen=True)
class ExpectedTasks:
    """What a job consists of: `parts` of the stream that tasks evaluate.

    `splits` are those that other tasks read before; None where Spark reads by itself, and 0 where
    tasks read what they evaluate.
    """

    parts: int
    splits: int | None = 0


class TaskTally:
    """What the tasks of a job have told so far, and how many there will be."""

    def __init__(self, session: SparkSession) -> None:
        param: AccumulatorParam[dict[Any, Any]] = LatestByName()  # type: ignore[assignment]
        self.accumulator = session.sparkContext.accumulator({}, param)
        self.queries: tuple[tuple[str, ...], ...] = ()  # of each program that parts run
        self.whole: int | None = None  # what Spark reads by itself, and tells nothing of
        self.expected: ExpectedTasks | None = None  # None while it is not known

    def splits(self) -> dict[int, Read]:
        """What was read, by the number of the split."""
        return self._told("split")

    def parts(self) -> dict[int, TaskCounts]:
        """Of the parts that are done: events that came, rows found by query, its program."""
        return self._told("part")

    def spent(self) -> int:
        """Nanoseconds of CPU that tasks have read for."""
        return sum(self._told("spent").values())

    def read(self) -> int | None:
        """Rows that have been read from storage; None while that is not known."""
        if self.whole is not None:  # parts begin when all is read
            return self.whole if self.parts() else None
        told = [rows for rows, _, _ in self.splits().values()] + [*self._told("stretch").values()]
        return sum(told) if told else None

    def _told(self, kind: str) -> dict[int, Any]:
        # A copy at once: another thread adds to it.
        told = self.accumulator.value.copy()
        return {name[1]: value for name, value in told.items() if name[0] == kind}


REPORT_SECONDS = 0.25  # seconds
READ_SHARE = 0.4  # of the work of a job that sends every event to a part, for reading and sending


@dataclass(frozen=True)
class Stage:
    """A stage of Spark's: tasks that are done, of how many."""

    number: int
    done: int
    tasks: int


@dataclass(frozen=True)
class BatchProgress:
    """How far a job is: events that parts have taken in and rows that they gave, by query.

    `part` is how much of the whole is done, from 0 to 1, and never falls. Parts tell when they are
    done, so rows grow in steps. `read` are events from storage, None while nobody has told. What
    two parts need, or read, counts twice. `ui` is the address of Spark's own page.
    """

    part: float = 0.0
    read: int | None = None
    rows_in: int = 0
    taken: dict[str, int] = field(default_factory=dict)  # of `rows_in`, by query
    rows_out: dict[str, int] = field(default_factory=dict)
    ui: str | None = None
    account: Mapping[str, Mapping[str, int]] = field(default_factory=dict)  # of parts that are done


def part_done(
    expected: ExpectedTasks | None, stages: Sequence[Stage], splits: int, parts: int
) -> float:
    """How much of a job is done, from 0 to 1, of which so many splits and parts have told.

    `stages` are those that Spark has begun since it was known what the job consists of, by number:
    the first reads, where anything is read before parts. A part without events tells nothing, but
    its task ends.
    """
    if expected is None:
        return 0.0
    reads = expected.splits != 0
    last = stages[-1] if len(stages) > reads else None
    ended = last.done if last is not None and last.tasks == expected.parts else 0
    evaluated = min(1.0, max(parts, ended) / max(1, expected.parts))
    if not reads:
        return evaluated
    if evaluated:  # for which all had to be read
        read = 1.0
    elif expected.splits is not None:
        read = min(1.0, splits / expected.splits)
    else:
        read = stages[0].done / max(1, stages[0].tasks) if stages else 0.0
    return READ_SHARE * read + (1 - READ_SHARE) * evaluated


OnProgress = Callable[[BatchProgress], None]


def taken_by_query(parts: Iterable[TaskCounts], queries: Sequence[Sequence[str]]) -> dict[str, int]:
    """Events that came to the parts of each query; it may be in several programs of parts."""
    found = Counter({name: 0 for names in queries for name in names})
    for events, _, program, _ in parts:
        for name in queries[program]:
            found[name] += events
    return dict(found)


@contextmanager
def watched(session: SparkSession, tally: TaskTally, told: OnProgress | None) -> Iterator[None]:
    """Tells how far the session's work of this block is, whenever that has changed."""
    if told is None:
        yield
        return
    over = threading.Event()
    context = session.sparkContext
    tracker = context.statusTracker()
    before = set(tracker.getJobIdsForGroup(None))
    most = 0.0

    def stages() -> list[Stage]:
        jobs = [tracker.getJobInfo(n) for n in tracker.getJobIdsForGroup(None) if n not in before]
        numbers = {number for job in jobs if job for number in job.stageIds}
        infos = [tracker.getStageInfo(number) for number in sorted(numbers)]
        # Those that Spark leaves out, as their work was done for an earlier job, never begin.
        return [
            Stage(i.stageId, i.numCompletedTasks, i.numTasks)
            for i in infos
            if i is not None and i.numCompletedTasks + i.numActiveTasks
        ]

    def look() -> BatchProgress:
        nonlocal most
        if tally.expected is None:  # what runs now only looks at the events
            before.update(tracker.getJobIdsForGroup(None))
        parts = tally.parts().values()
        rows: Counter[str] = Counter()
        account = Account()
        for _, found, _, totals in parts:
            rows.update(found)
            account.add(totals)
        most = max(
            most, part_done(tally.expected, stages(), len(tally.splits()), len(tally.parts()))
        )
        return BatchProgress(
            most,
            tally.read(),
            sum(events for events, *_ in parts),
            taken_by_query(parts, tally.queries),
            dict(rows),
            context.uiWebUrl,
            account.totals(),
        )

    def watch() -> None:
        last: BatchProgress | None = None
        while not over.wait(REPORT_SECONDS):
            with contextlib.suppress(Exception):  # the session may end while it is asked
                now = look()
                if now != last and tally.expected is not None:
                    told(now)
                    last = now

    thread = threading.Thread(target=watch, name="sheaf-progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
    told(replace(look(), part=1.0))
