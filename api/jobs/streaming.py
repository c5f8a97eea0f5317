"""What runs in a stream job's process: the stream, until it ends or is told to."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from api.jobs.account import Account, Batch, read_account, write_account
from api.jobs.folder import Attempt

if TYPE_CHECKING:
    from engines.spark.live_source import LiveSource
    from engines.spark.stream import Progress
    from optimizer.ir.query import BoundWorkload

PATIENCE = 3.0  # seconds that a batch is given to end before the stream does

Tell = Callable[[dict[str, Any]], None]
Next = Callable[[], dict[str, Any] | None]


def run_stream(attempt: Attempt, tell: Tell, heard: Next) -> dict[str, Any]:
    """Run the stream of a job to its end, if it has one; gives nothing that is not in its account.

    `heard` gives what the service has said: `{"document": …}` is a workload to go on with, and
    `{"stop": true}` that it is to end.
    """
    from api.execution import choose_how
    from api.roots import Roots
    from engines.errors import EventsError
    from engines.session import spark_session
    from engines.spark.kafka import KAFKA
    from engines.spark.stream import StreamOptions, finish_stream, settings_for, start_stream

    request = attempt.request()
    live, how = request["live"], choose_how(request["device"])
    checkpoint, sink = places(attempt, request)
    options = StreamOptions(
        checkpoint,
        sink,
        buckets=live["buckets"],
        files_per_batch=live["files"],
        every=live["every"],
        once=live["once"],
    )
    tell({"stage": "read"})
    for path in filter(None, (request["source"], live["like"])):
        if not path.startswith(KAFKA):
            with contextlib.suppress(EventsError):  # none may have come yet
                Roots(request["roots"]).check_files(path)
    bound, source = opened(request, request["document"], checkpoint)
    book = _Book(attempt, source, tell)
    tell({"stage": "start"})
    with contextlib.ExitStack() as sessions:
        name = f"sheaf {request['id']}"
        settings = settings_for(request["source"], sink)
        spark = sessions.enter_context(spark_session(request["master"], name, settings))
        stream = start_stream(spark, bound, source, options, how, book.told)
        tell({"stage": "run"})
        while not stream.wait(0.25):
            said = heard() or {}
            if "stop" in said:
                stream.stop(PATIENCE)
                return {}
            if "document" in said:
                tell({"stage": "change"})
                bound, source = opened(request, said["document"], checkpoint)
                begun = time.perf_counter()
                stream.replace(bound, source, how)
                print(f"other queries after {time.perf_counter() - begun:.3f} s", flush=True)
                tell({"stage": "run"})
        if live["finish"]:
            tell({"stage": "finish"})
            book.told(finish_stream(spark, bound, source, options, how))
    return {}


def places(attempt: Attempt, request: Mapping[str, Any]) -> tuple[str, str]:
    """Where the stream's checkpoint and its rows are."""
    return (
        request["live"]["checkpoint"] or str(attempt.job.checkpoint),
        request["sink"] or str(attempt.job.sink),
    )


def opened(
    request: Mapping[str, Any], document: Mapping[str, Any], checkpoint: str
) -> tuple[BoundWorkload, LiveSource]:
    """A workload over the job's source, with the columns that the checkpoint knows."""
    from engines.events import column_kinds
    from engines.spark.checkpoint import read_manifest
    from engines.spark.live_source import open_live_source
    from optimizer.bind import bind
    from workloads.loading import load_workload

    workload, live = load_workload(document), request["live"]
    before = read_manifest(checkpoint)
    known = None if before is None else before.schema
    source = open_live_source(
        request["source"], workload.stream, live["like"], known, live["on_error"]
    )
    return bind(workload, column_kinds(source.schema)), source


def checked(
    request: Mapping[str, Any], document: Mapping[str, Any], checkpoint: str
) -> dict[str, tuple[str, ...]]:
    """What would become of a running stream's queries; raises where they could not take over."""
    from engines.live.bucket import Bucket
    from engines.spark.checkpoint import manifest_of, read_manifest, taken_over

    bound, source = opened(request, document, checkpoint)
    new = manifest_of(bound, source.schema, source.tick, 1, 1)
    old = read_manifest(checkpoint)
    names = tuple(query.name for query in bound.queries)
    said: dict[str, tuple[str, ...]] = {"kept": (), "afresh": names, "removed": ()}
    if old is not None:
        takeover = taken_over(old, new, bound, checkpoint)
        new = takeover.manifest
        said = {"kept": takeover.kept, "afresh": takeover.afresh, "removed": takeover.removed}
    for generations in new.routes(bound).values():
        Bucket(generations, source.schema, source.tick)
    return said


class _Book:
    """Writes down what batches did, before Spark takes them for done."""

    def __init__(self, attempt: Attempt, source: LiveSource, tell: Tell) -> None:
        from engines.events import from_table

        self._path, self._measures = attempt.job.account, attempt.job.measures
        self._none = from_table(source.schema.empty_table(), source.stream)
        self._tell = tell
        self._begun = time.monotonic()
        self._account: Account = read_account(self._path)

    def told(self, progress: Progress) -> None:
        batch = Batch(
            number=progress.batch,
            seconds=progress.seconds,
            events=progress.read,
            bad=progress.bad,
            late=progress.late,
            aggregates=progress.aggregates,
            matches=progress.matches,
            until=self._time(progress.until),
            state=progress.state,
            waiting=progress.waiting,
            groups=tuple(asdict(group) for group in progress.groups),
            rows=dict(progress.rows),
            routes=tuple(asdict(route) for route in progress.routes),
        )
        self._account = self._account.add(batch)
        write_account(self._path, self._account)
        _measure(self._measures, time.monotonic() - self._begun, self._account)
        said = ("seconds", "state", "events", "aggregates", "matches")
        self._tell({"batch": batch.number, **{name: getattr(batch, name) for name in said}})

    def _time(self, ticks: int | None) -> int | str | None:
        import numpy as np

        if ticks is None:
            return None
        found = self._none.times(np.array([ticks]))[0].as_py()
        return found if isinstance(found, int) else str(found.isoformat())


def _measure(path: Path, at: float, account: Account) -> None:
    assert account.last is not None
    last, totals = account.last, account.totals
    line = {
        "at": round(at, 3),
        "events": totals.events,
        "rows": totals.aggregates + totals.matches,
        "seconds": last.seconds,
        "state": last.state,
        "held": sum(group["events"] for group in last.groups) + last.waiting,
        "until": last.until,
    }
    with path.open("a") as file:
        file.write(json.dumps(line) + "\n")
