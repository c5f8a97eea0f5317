"""What runs in a stream job's process: the stream, until it ends or is told to."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from api.jobs.account import BatchAccount, JobAccount, read_account, write_account
from api.jobs.folder import Attempt
from api.run_settings import RunSettings
from engines.columns.occurrences import Occurrences
from engines.execution import Command, EventSource, Monitor, Replacement
from workloads.imported_rules import refusals

if TYPE_CHECKING:
    from engines.spark.stream.checkpoint import Takeover
    from engines.spark.stream.job import StreamProgress
    from workloads.imported_rules import RefusedRule

Tell = Callable[[dict[str, Any]], None]
Next = Callable[[], dict[str, Any] | None]


def run_stream(attempt: Attempt, tell: Tell, heard: Next) -> dict[str, Any]:
    """Run the stream of a job to its end, if it has one; gives nothing that is not in its account.

    `heard` gives what the service has said: `{"plan": …}` is a plan to go on with, and
    `{"stop": true}` that it is to end.
    """
    from api.connections import connected, read_connections
    from api.jobs.devices import chosen_device
    from api.jobs.roots import Roots
    from engines.execution import Execution, RowSink, SparkMaster
    from engines.input.event_paths import each_path
    from engines.limits import EventsError
    from engines.program import RunOptions
    from engines.run import run
    from engines.spark.stream.job import StreamOptions
    from engines.spark.stream.kafka import KAFKA
    from optimizer.plan.plan import from_json

    request = attempt.request()
    live, device = request["live"], request["device"]
    checkpoint, sink = places(attempt, request)
    tell({"stage": "read"})
    like = () if live["like"] is None else each_path(live["like"])
    connections = read_connections(request["connections"])
    source, conf = connected(source_of(request), connections)
    rows = connections.reach(sink)
    for path in (*each_path(source.path), *like):
        if not path.startswith(KAFKA):
            with contextlib.suppress(EventsError):  # none may have come yet
                Roots(request["roots"]).check_files(path)
    options = StreamOptions(
        checkpoint,
        rows.place,
        out_options=rows.options,
        buckets=live["buckets"],
        files_per_batch=live["files"],
        every=live["every"],
        once=live["once"],
        light=live.get("light", False),
    )
    run(
        from_json(request["plan_document"]),
        source,
        RowSink(rows.place),
        Execution(
            "spark",
            RunOptions(
                device=None if device == "auto" else chosen_device(device),
                insist=device == "opencl",
                row_limit=request["options"]["row_limit"],
            ),
            spark=SparkMaster(request["master"], {**conf, **rows.conf}, f"sheaf {request['id']}"),
            stream=options,
            finish=live["finish"],
        ),
        StreamMonitor(
            attempt,
            request["plan_document"]["document"],
            tell,
            heard,
            posts_of(request, sink),
        ),
    )
    return {}


def posts_of(request: Mapping[str, Any], sink: str) -> Callable[[int], object] | None:
    """What posts the rows of a batch to the job's webhook, which may take as long as it likes."""
    if request.get("webhook") is None:
        return None
    from api.jobs.webhook import Webhook
    from engines.spark.stream.sink import files_of

    webhook = Webhook(request["webhook"], request["id"], tries=None)

    def post(batch: int) -> object:
        return webhook.deliver(files_of(Path(sink), batch), str(batch))

    return post


def source_of(request: Mapping[str, Any]) -> EventSource:
    """Where the stream's events come from, and how they are read."""
    settings = RunSettings(**request["options"])
    return EventSource(
        request["source"], settings.on_error, settings.late(), like=request["live"]["like"]
    )


def places(attempt: Attempt, request: Mapping[str, Any]) -> tuple[str, str]:
    """Where the stream's checkpoint and its rows are."""
    return (
        request["live"]["checkpoint"] or str(attempt.job.checkpoint),
        request["sink"] or str(attempt.job.sink),
    )


def checked(
    request: Mapping[str, Any], document: Mapping[str, Any], checkpoint: str
) -> dict[str, tuple[str, ...]]:
    """What would become of a running stream's queries; raises where a plan could not take over."""
    from api.connections import connected, read_connections
    from engines.live.bucket import Bucket
    from engines.spark.stream.checkpoint import manifest_of, read_manifest, taken_over
    from engines.spark.stream.run import open_stream
    from optimizer.plan.plan import from_json

    source, _ = connected(source_of(request), read_connections(request["connections"]))
    program, opened = open_stream(from_json(document), source, checkpoint)
    new = manifest_of(program, opened.schema, opened.tick, 1, 1)
    old = read_manifest(checkpoint)
    names = tuple(query.name for query in program.workload.queries)
    said: dict[str, tuple[str, ...]] = {"kept": (), "afresh": names, "removed": ()}
    if old is not None:
        takeover = taken_over(old, new, program, checkpoint)
        new = takeover.manifest
        said = {"kept": takeover.kept, "afresh": takeover.afresh, "removed": takeover.removed}
    for generations in new.routes(program).values():
        Bucket(generations, opened.schema, opened.tick)
    return said


class StreamMonitor(Monitor):
    """Writes down what batches did, before Spark takes them for done; hands on what is asked."""

    def __init__(
        self,
        attempt: Attempt,
        workload: Mapping[str, Any],
        tell: Tell,
        heard: Next,
        post: Callable[[int], object] | None = None,
    ) -> None:
        self._post = post
        self._path, self._measures = attempt.job.account, attempt.job.measures
        self._tell, self._heard = tell, heard
        self._begun = time.monotonic()
        self._refused: list[str] = []
        self._account: JobAccount = read_account(self._path)
        self._occurred = self._asked_for(workload)

    def _asked_for(self, workload: Mapping[str, Any]) -> Occurrences:
        """What the queries of a workload ask for, as far as all batches have had it."""
        from optimizer.bind.binder import load_bound

        occurred = Occurrences(load_bound(workload))
        occurred.merge(self._account.totals.seen)
        return occurred

    def on_stage(self, name: str) -> None:
        self._tell({"stage": name})

    def on_refused(self, rules: Sequence[RefusedRule]) -> None:
        self._refused = refusals(rules)

    def command(self) -> Command:
        from optimizer.plan.plan import from_json

        said = self._heard() or {}
        if "stop" in said:
            return "stop"
        if "plan" not in said:
            return None
        self._tell({"stage": "change"})
        begun = time.perf_counter()

        def answer(outcome: Takeover | Exception) -> None:
            if isinstance(outcome, Exception):
                raise outcome
            self._occurred = self._asked_for(said["plan"]["document"])
            print(f"another plan after {time.perf_counter() - begun:.3f} s", flush=True)
            self._tell({"stage": "run"})

        return Replacement(from_json(said["plan"]), answer)

    def on_batch(self, progress: StreamProgress) -> None:
        if self._post is not None and progress.aggregates + progress.matches:
            # Before the batch counts as done: one that is done again is posted again, as it was.
            self._tell({"stage": "post"})
            self._post(progress.batch)
            self._tell({"stage": "run"})
        self._occurred.merge(progress.seen)
        times = self._occurred.time_notes(progress.time_type)
        batch = BatchAccount(
            number=progress.batch,
            seconds=progress.seconds,
            events=progress.read,
            bad=progress.bad,
            late=progress.late,
            aggregates=progress.aggregates,
            matches=progress.matches,
            until=progress.until_shown,
            state=progress.state,
            waiting=progress.waiting,
            groups=tuple(asdict(group) for group in progress.groups),
            rows=dict(progress.rows),
            routes=tuple(asdict(route) for route in progress.routes),
            operators=dict(progress.account),
            fallbacks=progress.fallbacks,
            trees=progress.decisions,
            seen=progress.seen,
            notes=(
                *self._refused,
                *self._occurred.notes(),
                *times,
            ),
        )
        self._account = self._account.add(batch)
        write_account(self._path, self._account)
        _measure(self._measures, time.monotonic() - self._begun, self._account)
        said = ("seconds", "state", "events", "aggregates", "matches")
        self._tell({"batch": batch.number, **{name: getattr(batch, name) for name in said}})


def _measure(path: Path, at: float, account: JobAccount) -> None:
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
