"""A live stream on Spark: how many events a second it bears, and how long it takes to go on."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engines.execution import Monitor
from tests.benchmarks.live_batches import by_batches
from tests.benchmarks.measuring import Measured, Row, Said, Size
from tests.benchmarks.planned import planned_for
from tests.benchmarks.streams import TYPES
from workloads.errors import SheafError

if TYPE_CHECKING:
    import pyarrow as pa

    from engines.spark.stream.job import StreamProgress
    from optimizer.plan.plan import Plan

_NAME = "live"
_WARM = 2  # batches that start workers and load what is compiled


@dataclass(frozen=True)
class _Case:
    """A stream of `rate` events a second; a batch has `events` of them, in so many files."""

    queries: int
    keys: int
    events: int
    batches: int
    files: int = 1
    rate: int = 20_000


def by_live(size: Size) -> Iterator[Row]:
    """Sequences of 3 to 6 out of 20 types counted by key over 10 s and 60 s, as a stream on Spark.

    It has 20,000 events a second, in Parquet files of which two are a batch, and runs on all cores.
    The first batches are left out. CPU is that of Python, its workers and the JVM together, which
    tells more where others use the machine too. Before that, batches of several sizes in this
    process, without Spark, by the CPU that they take.
    """
    yield from by_batches(size)
    case = _Case(100, 100_000, 400_000, 12, 2) if size == "full" else _Case(4, 100, 2_000, 4)
    with tempfile.TemporaryDirectory(prefix="sheaf-bench-") as made:
        yield from _measured(case, Path(made))
        if size == "full":
            yield _gone_on(case, Path(made))


def _measured(case: _Case, folder: Path) -> Iterator[Row]:
    (folder / "in").mkdir()
    for number in range(case.batches):
        _arrive(case, number, folder)
    batches, cpu = _run(case, planned_for(_document(case), folder / "in"), folder)
    warm = [batch for batch in batches if batch["events"]][_WARM:]
    if not warm:
        raise SheafError("the stream ended before it was warm; its log says more")
    seconds = sorted(batch["seconds"] for batch in warm)
    events = sum(batch["events"] for batch in warm)
    speed, p50, p99 = events / sum(seconds), _percentile(seconds, 50), _percentile(seconds, 99)
    state = batches[-1]["state"]
    name = f"{case.queries} queries, {case.keys:,} keys"
    yield Measured(_NAME, "events a second", name, events, {"stream": sum(seconds)})
    yield Said(
        _NAME,
        f"{case.queries} queries, {case.keys:,} keys: {speed:,.0f} events a second; a batch of "
        f"{case.events:,} in {p50:.1f} s (p50), {p99:.1f} s (p99); {cpu:.1f} CPU seconds a million "
        f"events; state {state / 1e6:.1f} MB.",
        {
            "queries": case.queries,
            "keys": case.keys,
            "events_per_second": speed,
            "p50": p50,
            "p99": p99,
            "cpu_seconds_per_million": cpu,
            "state_bytes": state,
        },
    )


def _gone_on(case: _Case, folder: Path) -> Row:
    """What it takes to start again with the state there is."""
    _arrive(case, case.batches, folder)
    took, report = _restarted(case, folder)
    return Said(
        _NAME,
        f"Started again with that state, in a new process: {took:.1f} s to the rows of the next "
        f"batch, of which {report['start']:.1f} s are Spark's start; the stream of two batches "
        f"takes {report['run']:.1f} s.",
        {"restart": took, "start": report["start"], "run": report["run"]},
    )


def _document(case: _Case) -> dict[str, Any]:
    import numpy as np

    chance = np.random.default_rng(1)
    queries = []
    for number in range(case.queries):
        parts = chance.choice(TYPES, chance.integers(3, 7), replace=False)
        width = (10, 60)[number % 2]
        queries.append(
            f"QUERY q{number} PATTERN SEQ({', '.join(parts)}) PARTITION BY user "
            f"AGG COUNT(*) WITHIN {width} s"
        )
    stream = {"time": "ts", "unit": "ms", "type": "type", "lateness": "1 s"}
    return {"name": "live", "stream": stream, "queries": queries}


def _arrive(case: _Case, number: int, folder: Path) -> None:
    """The files of one more batch, in the order of numbers whatever the clock says."""
    import pyarrow.parquet as pq

    events, rows = _events(case, number), case.events // case.files
    for part in range(case.files):
        place = number * case.files + part
        draft, file = folder / "draft", folder / "in" / f"{place:05}.parquet"
        pq.write_table(events.slice(part * rows, rows), draft)
        os.utime(draft, (10**9 + place, 10**9 + place))
        draft.rename(file)


def _events(case: _Case, number: int) -> pa.Table:
    import numpy as np
    import pyarrow as pa

    chance = np.random.default_rng(number)
    span = case.events * 1000 // case.rate  # milliseconds
    return pa.table(
        {
            "ts": number * span + np.sort(chance.integers(0, span, case.events)),
            "type": pa.array(np.array(TYPES)[chance.integers(0, len(TYPES), case.events)]),
            "user": chance.integers(0, case.keys, case.events),
        }
    )


class _Batches(Monitor):
    """What each batch of a stream did, and the clocks on the wall and of the CPU after it."""

    def __init__(self) -> None:
        self.done: list[dict[str, Any]] = []
        self.clock: list[tuple[float, float]] = []

    def on_batch(self, progress: StreamProgress) -> None:
        self.clock.append((time.perf_counter(), _cpu_of_all()))
        now = self.clock[-1][0]
        before = self.clock[-2][0] if len(self.clock) > 1 else now - progress.seconds
        self.done.append(
            {"events": progress.read, "seconds": now - before, "state": progress.state}
        )


def _run(case: _Case, plan: Plan, folder: Path) -> tuple[list[dict[str, Any]], float]:
    """What each batch did, and CPU seconds for a million events."""
    from engines.execution import EventSource, Execution, RowSink
    from engines.run import run
    from engines.spark.stream.job import StreamOptions

    options = StreamOptions(
        str(folder / "checkpoint"), str(folder / "out"), files_per_batch=case.files, once=True
    )
    batches = _Batches()
    source = EventSource(str(folder / "in"))
    run(plan, source, RowSink(), Execution("spark", stream=options), batches)
    clock = batches.clock
    events = sum(batch["events"] for batch in batches.done[_WARM:])
    cpu = clock[-1][1] - clock[_WARM - 1][1]
    return batches.done, cpu / max(events, 1) * 1e6


def _restarted(case: _Case, folder: Path) -> tuple[float, dict[str, float]]:
    """Seconds to the first rows of a stream that goes on, in a process of its own, and by stage."""
    main = "from api.cli.main import main; main()"
    file = folder / "workload.json"
    file.write_text(json.dumps(_document(case)))
    command = [sys.executable, "-c", main, "run", str(file), "--engine", "spark", "--stream"]
    command += ["--events", str(folder / "in"), "--checkpoint", str(folder / "checkpoint")]
    command += [
        "--out",
        str(folder / "out"),
        "--files",
        str(case.files),
        "--once",
        "--device",
        "cpu",
    ]
    rows = folder / "out" / "aggregates"
    before, begun, took = set(rows.iterdir()), time.perf_counter(), 0.0
    with (folder / "stderr").open("w+b") as errors:
        going_on = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=errors)
        while going_on.poll() is None:
            if not took and set(rows.iterdir()) != before:
                took = time.perf_counter() - begun
            time.sleep(0.02)
        errors.seek(0)
        said = errors.read()
    if going_on.returncode != 0 or not took:
        raise SheafError(f"the stream did not go on: {said.decode()[-500:]}")
    seconds: dict[str, float] = json.loads(said.splitlines()[-1])["seconds"]
    return took, seconds


def _percentile(ordered: list[float], part: int) -> float:
    return ordered[min(len(ordered) - 1, len(ordered) * part // 100)]


def _cpu_of_all() -> float:
    """CPU seconds of this process and all below it that live; this one's alone without /proc."""
    parents: dict[int, list[int]] = {}
    used: dict[int, float] = {}
    tick = os.sysconf("SC_CLK_TCK")
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            fields = path.read_text(errors="replace").rpartition(")")[2].split()
            pid = int(path.parent.name)
            parents.setdefault(int(fields[1]), []).append(pid)
            used[pid] = sum(map(int, fields[11:15])) / tick  # of its own, and of those it outlived
    total, left = 0.0, [os.getpid()]
    while left:
        pid = left.pop()
        total += used.get(pid, 0.0)
        left += parents.get(pid, [])
    return total or time.process_time()
