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
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from api.jobs.counts import Counting
from api.jobs.folder import Attempt, JobFolder, hidden_sink
from workloads.errors import SheafError, WorkloadError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from api.execution import Stages
    from engines.how import How
    from engines.partial import Ledger
    from workloads.model import Workload

Tell = Callable[[dict[str, Any]], None]

PR_SET_PDEATHSIG = 1
PROGRESS_EVERY = 0.25  # seconds


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
    """The same, as soon as a thread of Python gets a turn: standard input ends with the service.

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
    """Compute the rows, put them into the folder and beside the sink; gives what was done."""
    from api.execution import Stages, choose_how, kinds_of
    from api.roots import Roots
    from optimizer.bind import bind
    from workloads.loading import load_workload

    request = job.request()
    Roots(request["roots"]).check_files(request["source"])
    workload = load_workload(request["document"])
    how = replace(choose_how(request["device"]), partial=workload.partial)
    stages = Stages(lambda name: tell({"stage": name}))
    if request["engine"] == "local":
        events, ledger = run_locally(job, workload, request["source"], stages, how, tell)
    else:
        events, ledger = run_with_spark(job, workload, request, stages, how, tell)
    kinds = kinds_of(bind(workload))
    files: list[str] = []
    if request["sink"] is not None:
        with stages("write"):
            files = write_sink(job, Path(request["sink"]), *kinds)
    return {
        "events": events,
        "seconds": stages.seconds,
        "rows": {kind: rows_by_query(job.rows(kind)) for kind in ("aggregates", "matches")},
        "kinds": [k for k, has in zip(("aggregates", "matches"), kinds, strict=True) if has],
        "files": files,
        "stopped": ledger.stopped,
        "dropped": dict(ledger.dropped),
    }


def run_locally(
    job: JobFolder, workload: Workload, source: str, stages: Stages, how: How, tell: Tell
) -> tuple[int, Ledger]:
    """In slices, so that memory follows the slice and not the file."""
    from api.execution import Measured, run_in_slices
    from engines.faults import Faults
    from engines.local.slices import Slicing
    from engines.output import FileOutput

    last = [0.0]

    def told(part: float) -> None:
        if part >= 1 or time.monotonic() - last[0] > PROGRESS_EVERY:
            last[0] = time.monotonic()
            tell({"progress": [round(part * 100), 100]})

    began = time.monotonic()

    def measured(slice: Measured, rows: Mapping[str, int]) -> None:
        at = round(time.monotonic() - began, 3)
        print(json.dumps({"at": at, **asdict(slice)}), file=measures, flush=True)
        taken = {str(query.name): slice.events for query in workload.queries}
        counting.put(slice.events, rows, taken)

    with (
        job.measures.open("a") as measures,
        FileOutput(str(job.results), True, True) as output,
        Counting(job.counts) as counting,
    ):
        done = run_in_slices(
            workload,
            source,
            stages,
            output,
            Faults("stop"),
            Slicing(),
            how=how,
            progress=told,
            measured=measured,
        )
        with stages("write"):
            output.write()
    return done.events, done.ledger


def run_with_spark(
    job: JobFolder,
    workload: Workload,
    request: dict[str, Any],
    stages: Stages,
    how: How,
    tell: Tell,
) -> tuple[int, Ledger]:
    from api.execution import run_on_spark
    from engines.faults import Faults
    from engines.session import spark_session
    from engines.spark.progress import Progress
    from engines.spark.targets import FileTarget

    def told(progress: Progress) -> None:
        counting.put(progress.read, progress.rows_out, progress.taken)
        rows = sum(progress.rows_out.values())
        tell(
            {"progress": [progress.done, progress.tasks], "events": progress.rows_in, "rows": rows}
        )

    with contextlib.ExitStack() as sessions, Counting(job.counts) as counting:

        def session() -> SparkSession:
            return sessions.enter_context(
                spark_session(request["master"], f"sheaf {request['id']}")
            )

        target = FileTarget(str(job.results))
        source, faults = request["source"], Faults("stop")
        done = run_on_spark(workload, source, stages, session, target, faults, how, told)
    return done.events, done.ledger


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


def write_sink(job: JobFolder, sink: Path, has_aggregates: bool, has_matches: bool) -> list[str]:
    """The rows in the sink's format, under names that the service will change when all is well."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from engines.results import write_readers

    with pq.ParquetFile(job.rows("aggregates")) as a, pq.ParquetFile(job.rows("matches")) as m:
        readers = [
            pa.RecordBatchReader.from_batches(file.schema_arrow, file.iter_batches())
            for file in (a, m)
        ]
        hidden = hidden_sink(sink, job.path.name)
        return write_readers(readers[0], readers[1], str(hidden), has_aggregates, has_matches)


def may_pass(error: Exception) -> bool:
    """Whether trying again makes sense: what is wrong with the input stays wrong."""
    from engines.session import NoSessionError
    from engines.spark.batch import JobError

    if isinstance(error, JobError):  # what it passes on from our own code begins otherwise
        return str(error).startswith(("Spark: ", "py4j", "ConnectionError", "MemoryError"))
    return isinstance(error, NoSessionError) or not isinstance(error, SheafError)


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
