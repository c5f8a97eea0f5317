"""What runs in a job's process: one job, from its folder's request to its outcome."""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import queue
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from api.jobs.counts import CountWriter
from api.jobs.folder import Attempt, JobFolder, hidden_sink
from engines.execution import Monitor
from workloads.errors import SheafError, WorkloadError

if TYPE_CHECKING:
    import pyarrow as pa

    from engines.account import Account
    from engines.execution import RunReport, SliceProgress
    from engines.spark.batch.progress import BatchProgress as SparkProgress
    from optimizer.ir.query import BoundWorkload

Tell = Callable[[dict[str, Any]], None]

PR_SET_PDEATHSIG = 1
PROGRESS_EVERY = 0.25  # seconds
REPORTED = (
    "cpu_seconds",
    "predicted_seconds",
    "unclaimed_seconds",
    "fallbacks",
    "trees",
    "read",
    "access",
)


def main(folder: str, parent: int, messages: int) -> int:
    """Do the job of a folder, unless its service is gone or has written it off."""
    heard = Heard()
    end_with(parent, heard.add)
    job = JobFolder(Path(folder))
    lock = job.enter()
    if lock is None:
        return 3
    os.set_inheritable(messages, False)  # what we start must not keep the pipe open
    with os.fdopen(messages, "w") as pipe, lock:
        job.end(outcome(job, teller(pipe), heard))
    return 0


def end_with(parent: int, hear: Callable[[bytes], None] = lambda said: None) -> None:
    """End this process, and all of its group, when the service ends."""
    if sys.platform == "linux":  # sooner, and also while no thread of Python gets a turn
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(3)
    end_when_alone(hear)


def end_when_alone(hear: Callable[[bytes], None] = lambda said: None) -> None:
    """End this process when standard input ends, as it does with the service.

    Until then it hands on what the service says.
    """

    def watch() -> None:
        while said := os.read(0, 1 << 16):
            hear(said)
        if os.getpgid(0) == os.getpid():  # else the group is somebody else's
            os.killpg(0, signal.SIGKILL)
        os._exit(3)

    threading.Thread(target=watch, name="sheaf-lifeline", daemon=True).start()


def teller(pipe: Any) -> Tell:
    def tell(message: dict[str, Any]) -> None:
        with contextlib.suppress(BrokenPipeError):
            pipe.write(json.dumps(message) + "\n")
            pipe.flush()

    return tell


class Heard:
    """What the service has said, a line of JSON each."""

    def __init__(self) -> None:
        self._part = b""
        self._said: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()

    def add(self, said: bytes) -> None:
        *lines, self._part = (self._part + said).split(b"\n")
        for line in lines:
            self._said.put(json.loads(line))

    def next(self) -> dict[str, Any] | None:
        """What has not been taken yet; None if there is nothing."""
        try:
            return self._said.get_nowait()
        except queue.Empty:
            return None


def outcome(job: JobFolder, tell: Tell, heard: Heard) -> dict[str, Any]:
    """What came of the job, whatever happened."""
    try:
        if job.request()["live"] is not None:
            from api.jobs.streaming import run_stream

            return {"status": "succeeded", **run_stream(Attempt(job.path), tell, heard.next)}
        return {"status": "succeeded", **run(job, tell)}
    except Exception as error:
        traceback.print_exc()
        return {"status": "failed", "reason": reason_of(error), "again": may_pass(error)}


def run(job: JobFolder, tell: Tell) -> dict[str, Any]:
    """Run the plan, put the rows into the folder and beside the sink; gives what was done."""
    from api.connections import connected, read_connections
    from api.jobs.devices import chosen_device
    from api.jobs.roots import Roots
    from api.run_settings import RunSettings
    from engines.execution import EventSource, Execution, RowSink, SparkMaster
    from engines.program import RunOptions
    from engines.report import report_document
    from engines.run import kinds_of
    from engines.run import run as run_plan
    from optimizer.plan.plan import from_json
    from workloads.loading import load_workload

    request = job.request()
    plan = from_json(request["plan_document"])
    device = request["device"]
    settings = RunSettings(**request["options"])
    source, conf = connected(
        EventSource(request["source"], settings.on_error, settings.late()),
        read_connections(request["connections"]),
    )
    if source.path == request["source"]:
        Roots(request["roots"]).check_files(source.path)
    options = RunOptions(
        device=None if device == "auto" else chosen_device(device),
        insist=device == "opencl",
        partial=settings.partial(load_workload(plan.document).partial),
        row_limit=settings.row_limit,
        threads=settings.threads,
    )
    where = SparkMaster(request["master"], conf, name=f"sheaf {request['id']}")
    execution = Execution(request["engine"], options, settings.slice, where, access=settings.access)
    with JobMonitor(job, tell) as monitor:
        report = run_plan(
            plan,
            source,
            RowSink(str(job.results), both=True, match=settings.match),
            execution,
            monitor,
        )
        document = report_document(plan, report)
        said = {name: document.get(name) for name in REPORTED}
        monitor.finish(report, {**said, "span_seconds": report.span_seconds})
    kinds = kinds_of(plan)
    files: list[str] = []
    if request["sink"] is not None:
        tell({"stage": "write"})
        began = time.perf_counter()
        files = write_sink(job, request["sink"], kinds, report.bound if settings.tables else None)
        written = report.seconds.get("write", 0.0) + time.perf_counter() - began
        report.seconds["write"] = round(written, 4)
    if request.get("webhook") is not None:
        from api.jobs.webhook import Webhook

        tell({"stage": "post"})
        began = time.perf_counter()
        rows = (job.rows(kind) for kind in ("aggregates", "matches"))
        Webhook(request["webhook"], request["id"]).deliver(rows)
        report.seconds["post"] = round(time.perf_counter() - began, 4)
    return {
        "events": report.events,
        "seconds": report.seconds,
        "rows": {kind: rows_by_query(job.rows(kind)) for kind in ("aggregates", "matches")},
        "kinds": [k for k, has in zip(("aggregates", "matches"), kinds, strict=True) if has],
        "files": files,
        "stopped": report.ledger.stopped,
        "dropped": dict(report.ledger.dropped),
        "by_query": document["rows_by_query"],
        "skipped": report.skipped,
        "notes": report.notes,
    }


class JobMonitor(Monitor):
    """Tells the service how far a job is, and writes down what its operators have counted."""

    def __init__(self, job: JobFolder, tell: Tell) -> None:
        self._tell, self._counting = tell, CountWriter(job.counts)
        self._measures = job.measures
        self._began, self._told = time.monotonic(), 0.0
        self._percent = -1  # that was told last: it never falls

    def __enter__(self) -> Self:
        self._counting.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._counting.__exit__(*error)

    def on_stage(self, name: str) -> None:
        self._tell({"stage": name})

    def on_progress(self, part: float) -> None:
        percent = int(part * 100)
        if percent > self._percent and (part >= 1 or self._is_due()):
            self._told, self._percent = time.monotonic(), percent
            self._tell({"progress": [percent, 100]})

    def _is_due(self) -> bool:
        return time.monotonic() - self._told > PROGRESS_EVERY

    def on_slice(self, slice: SliceProgress, rows: Mapping[str, int], account: Account) -> None:
        at = round(time.monotonic() - self._began, 3)
        with self._measures.open("a") as measures:
            print(json.dumps({"at": at, **asdict(slice)}), file=measures)
        self._counting.put(slice.events, rows, account.totals())

    def on_tasks(self, progress: SparkProgress) -> None:
        self._counting.put(progress.read, progress.rows_out, progress.account)
        rows = sum(progress.rows_out.values())
        self._tell({"events": progress.rows_in, "rows": rows})

    def finish(self, report: RunReport, said: Mapping[str, Any]) -> None:
        """Write down what all operators have counted in the end, and what the report says."""
        self._counting.put(report.events, report.rows, report.account.totals(), said)


def rows_by_query(path: Path) -> dict[str, int]:
    """How many rows each query has in a file, in the order they stand in it."""
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    found: dict[str, int] = {}
    with pq.ParquetFile(path) as file:
        for batch in file.iter_batches(columns=["query"]):
            for pair in pc.value_counts(batch.column(0)).to_pylist():
                found[pair["values"]] = found.get(pair["values"], 0) + pair["counts"]
    return found


def write_sink(
    job: JobFolder,
    sink: str,
    kinds: tuple[bool, bool],
    bound: tuple[BoundWorkload, pa.Schema] | None,
) -> list[str]:
    """The rows in the sink's format, under names that the service will change when all is well.

    Tables of Delta and Iceberg have them with their last commit.

    With queries that are `bound`, and the columns of events, also those of each query.
    """
    from engines.results.chunks import ROW_KINDS
    from engines.results.lake_place import lake_place
    from engines.results.own_tables import write_rows_and_tables, write_stored_rows

    rows = {kind: job.rows(kind) for kind in ROW_KINDS}
    if (place := lake_place(sink)) is not None:
        from engines.lake_runs import write_to_lake

        return write_to_lake(place, rows, kinds)
    hidden = hidden_sink(Path(sink), job.path.name)
    if bound is None:
        return write_stored_rows(rows, hidden, kinds)
    return write_rows_and_tables(*bound, rows, hidden, kinds)


def may_pass(error: Exception) -> bool:
    """Whether trying again makes sense: what is wrong with the input stays wrong."""
    from engines.spark.batch.job import JobError
    from engines.spark.runtime.jvm import JvmKilledError
    from engines.spark.runtime.session import NoSessionError

    if isinstance(error, JobError):  # what it passes on from our own code begins otherwise
        return str(error).startswith(("Spark: ", "py4j", "ConnectionError", "MemoryError"))
    passing = (NoSessionError, JvmKilledError)
    return isinstance(error, passing) or not isinstance(error, SheafError)


def reason_of(error: Exception) -> str:
    """An error as the person who posted the job should read it."""
    if isinstance(error, WorkloadError):
        return "; ".join(
            f"query {d.query}: {d.message}" if d.query else d.message for d in error.diagnostics
        )
    if isinstance(error, SheafError):
        return str(error)
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    if isinstance(error, MemoryError):
        return "there was not enough memory; run it over fewer events, or on a larger machine"
    java = getattr(error, "java_exception", None)
    if java is not None:
        with contextlib.suppress(Exception):
            while java.getCause() is not None:
                java = java.getCause()
            return f"Spark: {_last_said(str(java.getMessage()))}"
    if type(error).__module__.startswith("pyspark"):
        return f"Spark: {_last_said(str(error))}"
    return f"{type(error).__name__}: {_first_line(str(error))}"


def _last_said(text: str) -> str:
    """The message of an error that Spark passes on: the end of a Python traceback if it has one."""
    lines = [line for line in text.strip().splitlines() if line.strip()] or [""]
    if not any(line.startswith("Traceback") for line in lines):
        return lines[0].strip()
    raised = [line for line in lines if line[:1].isalpha() and ": " in line]
    return (raised or lines)[-1].strip()


def _first_line(text: str) -> str:
    return (text.strip().splitlines() or [""])[0]


if __name__ == "__main__":
    code = main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
    sys.stdout.flush()
    sys.stderr.flush()
    # What libraries do at exit would take seconds: the service ends the JVM and removes the files.
    os._exit(code)
