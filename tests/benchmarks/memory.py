"""The most memory that a way to count holds, measured in a process of its own.

The process has the stream and compiled kernels when the peak of its resident memory is reset; what
the peak rises above what it held then is the answer. `ru_maxrss` would not do: it cannot be reset,
and begins with the memory of the process that started this one.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.benchmarks.measuring import BenchmarkError
from tests.benchmarks.streams import uniform

WARMED_ON = 2_000  # events, on which kernels are compiled or loaded
# Large arrays go back to the system as soon as they are freed, and the peak is that of use.
_ALLOCATOR = {
    "MALLOC_MMAP_THRESHOLD_": "65536",
    "MALLOC_TRIM_THRESHOLD_": "65536",
    "ARROW_DEFAULT_MEMORY_POOL": "system",
}
_RESET = Path("/proc/self/clear_refs")
_STATUS = Path("/proc/self/status")
WHY_NOT = "peaks are read from Linux' /proc"


def can_measure() -> bool:
    """Does this system tell?"""
    return os.access(_RESET, os.W_OK)


def peak_memory(way: str, queries: Sequence[str], types: Sequence[str], events: int) -> int:
    """Bytes at the peak of counting queries over a uniform stream; `way` is a name of `WAYS`."""
    asked = json.dumps([way, list(queries), list(types), events])
    child = subprocess.run(
        [sys.executable, "-m", "tests.benchmarks.memory"],
        input=asked,
        capture_output=True,
        text=True,
        env=os.environ | _ALLOCATOR,
    )
    if child.returncode != 0:
        raise BenchmarkError(f"measuring the memory of {way} failed: {child.stderr.strip()}")
    return int(child.stdout)


def _measure(way: str, queries: Sequence[str], types: Sequence[str], events: int) -> int:
    """In the child: what the peak rises by."""
    import gc

    from tests.benchmarks.ways import WAYS, make_case

    table = uniform(types, events)
    cases = [make_case(queries, table.slice(0, rows)) for rows in (WARMED_ON, events)]
    small, large = (WAYS[way](case) for case in cases)
    for symbol in cases[1].plan.symbols:
        cases[1].columns.instances(symbol)
    small.run()
    gc.collect()
    forget_peak()
    before = _status("VmRSS")
    large.run()
    return peak() - before


def forget_peak() -> None:
    """From now on `peak` is about what follows."""
    _RESET.write_text("5")


def peak() -> int:
    """The most bytes that this process has held, all in all."""
    return _status("VmHWM")


def _status(name: str) -> int:
    line = next(x for x in _STATUS.read_text().splitlines() if x.startswith(f"{name}:"))
    return int(line.split()[1]) * 1024


if __name__ == "__main__":
    print(_measure(*json.load(sys.stdin)))
