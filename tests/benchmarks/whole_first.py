"""Whole runs in processes of their own: what start-up, first use, memory and threads cost."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.benchmarks.measuring import BenchmarkError, Goal, Row, Said
from tests.benchmarks.whole_runs import NAME, Asked, Cost, WholeRuns, interleaved, measured

_MEMORY = 600.0  # MB
_QUERY = "stream: {time: ts, unit: ms, type: type}\nqueries:\n  - %s\n"


@dataclass(frozen=True)
class Process:
    """What a process cost, and the most memory that it held, in bytes."""

    cost: Cost
    memory: int


# Run between the benchmarks and a command: the most memory of a process is at least what the one
# had that started it, and benchmarks hold gigabytes.
_MEASURED = """
import json, os, subprocess, sys, time
began = time.perf_counter()
child = subprocess.Popen(sys.argv[1:], stdout=subprocess.DEVNULL)
_, status, used = os.wait4(child.pid, 0)
wall, cpu = time.perf_counter() - began, used.ru_utime + used.ru_stime
print(json.dumps([os.waitstatus_to_exitcode(status), wall, cpu, used.ru_maxrss]))
"""


def command(arguments: Sequence[str], folder: Path, **settings: str) -> Process:
    """A `sheaf` command as users start it, in its own process."""
    program = str(Path(sys.executable).with_name("sheaf"))
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", _MEASURED, program, *arguments],
        cwd=folder,
        env=os.environ | settings,
        capture_output=True,
        text=True,
        check=True,
    )
    code, wall, cpu, kilobytes = json.loads(done.stdout)
    if code != 0:
        raise BenchmarkError(f"sheaf {' '.join(arguments)} failed: {done.stderr[-500:]}")
    return Process(Cost(wall, cpu), kilobytes * 1024)


def _generated(asked: Asked, events: int) -> str:
    from workloads import bundled
    from workloads.generators import write_events

    path = asked.folder / f"shop-{events}.parquet"
    if not path.exists():
        write_events(bundled.stream("shop", events), path)
    return str(path)


def _run(asked: Asked, events: int, *more: str, **settings: str) -> Process:
    out = str(asked.folder / "first.parquet")
    arguments = ["run", "shop", "--events", _generated(asked, events), "--out", out, *more]
    return command(arguments, asked.folder, **settings)


def by_threads(asked: Asked) -> Iterator[Row]:
    """`shop` with one thread and with two."""
    from api.cli.workload_files import open_workload

    events = asked.events(1_000_000)
    runs = WholeRuns(open_workload("shop")[0], _generated(asked, events), asked.folder)
    runs.shared(1)
    costs = interleaved({"2": lambda: runs.shared(2), "1": lambda: runs.shared(1)}, asked.size)
    yield from measured(f"shop, {events:,} events, threads", events, costs)
    ratio = costs["1"].wall / costs["2"].wall
    yield Goal(NAME, "threads", "one thread's time by that of two", 1.8, ratio)


def by_memory(asked: Asked) -> Iterator[Row]:
    """The most memory that runs of `shop` hold."""
    few = asked.events(1_000_000)
    many = 20_000_000 if asked.is_largest else 4 * few
    peaks = {events: _run(asked, events).memory / 1e6 for events in (few, many)}
    yield Goal(NAME, "memory", f"MB of shop, {few:,} events", _MEMORY, peaks[few], False)
    text = f"times as much for {many:,} events"
    yield Goal(NAME, "memory", text, 1.1, peaks[many] / peaks[few], False)


def by_first_use(asked: Asked) -> Iterator[Row]:
    """The start of a command, from the shell; and the first run of all beside the second."""
    rounds = 5 if asked.size == "full" else 1
    query = asked.folder / "one.yaml"
    query.write_text(_QUERY % "QUERY q PATTERN SEQ(A a, B b) AGG COUNT(*) WITHIN 1 s")
    events = asked.events(20_000, 1_000)
    times: dict[str, list[float]] = {"check": [], "run": []}
    for _ in range(rounds):
        times["check"].append(command(["check", str(query)], asked.folder).cost.wall)
        times["run"].append(_run(asked, events).cost.wall)
    for name, text, target in (
        ("check", "seconds to check one query", 0.4),
        ("run", f"seconds to run shop over {events:,} events", 1.0),
    ):
        middle = sorted(times[name])[rounds // 2]
        yield Goal(NAME, "start", text, target, middle, False)
    if asked.size == "full":  # it takes minutes
        yield from _after_setup(asked)


def _after_setup(asked: Asked) -> Iterator[Row]:
    """A first run with kernels that were compiled at set-up, into an empty folder, and a second."""
    events = asked.events(100_000, 1_000)
    folder = str(asked.folder / "kernels")
    began = time.perf_counter()
    code = "from api.setup import compile_kernels; compile_kernels()"
    setup = [sys.executable, "-c", code]
    subprocess.run(setup, env=os.environ | {"NUMBA_CACHE_DIR": folder}, check=True)
    taken = time.perf_counter() - began
    yield Said(
        NAME, f"Compiling all kernels at set-up takes {taken:.0f} s.", {"seconds of set-up": taken}
    )
    first, second = (_run(asked, events, NUMBA_CACHE_DIR=folder).cost for _ in range(2))
    numbers = {"seconds first": first.wall, "seconds second": second.wall}
    ratio = first.cpu / second.cpu
    text = "a first run's CPU by the second's"
    yield Goal(NAME, "start", text, 1.3, ratio, False, numbers)
