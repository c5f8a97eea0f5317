"""How far a job is, told while it runs."""

from __future__ import annotations

import contextlib
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from engines.account import Account

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from engines.spark.tally import Part, Tally

EVERY = 0.25  # seconds


@dataclass(frozen=True)
class Stage:
    """A stage of Spark's: tasks that are done, of how many, and how many run now."""

    number: int
    done: int
    tasks: int
    active: int


@dataclass(frozen=True)
class Progress:
    """How far a job is: events that parts have taken in and rows that they gave, by query.

    Parts tell when they are done, so rows grow in steps. `read` are events from storage, None while
    nobody has told. What two parts need, or read, counts twice. `ui` is the address of Spark's own
    page.
    """

    stages: tuple[Stage, ...] = ()
    read: int | None = None
    rows_in: int = 0
    taken: dict[str, int] = field(default_factory=dict)  # of `rows_in`, by query
    rows_out: dict[str, int] = field(default_factory=dict)
    ui: str | None = None
    account: Mapping[str, Mapping[str, int]] = field(default_factory=dict)  # of parts that are done

    @property
    def done(self) -> int:
        return sum(stage.done for stage in self.stages)

    @property
    def tasks(self) -> int:
        return sum(stage.tasks for stage in self.stages)

    @property
    def part(self) -> float:
        """From 0 to 1."""
        return self.done / self.tasks if self.tasks else 0.0


Told = Callable[[Progress], None]


def taken_by_query(parts: Iterable[Part], queries: Sequence[Sequence[str]]) -> dict[str, int]:
    """Events that came to the parts of each query; it may be in several programs of parts."""
    found = Counter({name: 0 for names in queries for name in names})
    for events, _, program, _ in parts:
        for name in queries[program]:
            found[name] += events
    return dict(found)


@contextmanager
def watched(session: SparkSession, tally: Tally, told: Told | None) -> Iterator[None]:
    """Tells how far the session's work of this block is, whenever that has changed."""
    if told is None:
        yield
        return
    over = threading.Event()
    context = session.sparkContext
    tracker = context.statusTracker()
    before = set(tracker.getJobIdsForGroup(None))

    def look() -> Progress:
        jobs = [tracker.getJobInfo(n) for n in tracker.getJobIdsForGroup(None) if n not in before]
        infos = [tracker.getStageInfo(s) for job in jobs if job for s in sorted(job.stageIds)]
        stages = tuple(
            Stage(i.stageId, i.numCompletedTasks, i.numTasks, i.numActiveTasks)
            for i in infos
            if i is not None
        )
        parts = tally.parts().values()
        rows: Counter[str] = Counter()
        account = Account()
        for _, found, _, totals in parts:
            rows.update(found)
            account.add(totals)
        return Progress(
            stages,
            tally.read(),
            sum(events for events, *_ in parts),
            taken_by_query(parts, tally.queries),
            dict(rows),
            context.uiWebUrl,
            account.totals(),
        )

    def watch() -> None:
        last: Progress | None = None
        while not over.wait(EVERY):
            with contextlib.suppress(Exception):  # the session may end while it is asked
                now = look()
                if now != last and now.tasks:
                    told(now)
                    last = now

    thread = threading.Thread(target=watch, name="sheaf-progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
    told(look())
