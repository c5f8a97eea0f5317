"""Kernels compiled once for each machine, however many workers start on it at once."""

from __future__ import annotations

import fcntl
import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import pyarrow as pa

from engines.events import from_table
from engines.how import USUAL, How
from engines.local.run import run_local
from kernels import panes, product, reversible
from optimizer.ir.query import BoundWorkload

_JOBS: set[str] = set()


def warm(workloads: Sequence[BoundWorkload], first: pa.Table, how: How = USUAL) -> None:
    """Compile what the workloads run, or load it from numba's cache; `first` is an event or none.

    One process of a machine at a time: several that write that cache at once would each compile
    everything, and could spoil it. What the engine cannot do with such events is said here.
    """
    with _alone():
        _warm_kernels()
        for workload in workloads:
            run_local(workload, from_table(first, workload.stream), how=how)


def warm_once(
    job: str, workloads: Sequence[BoundWorkload], first: pa.Table, how: How = USUAL
) -> None:
    """`warm`, unless this process has done it for the job."""
    if job not in _JOBS:
        _JOBS.add(job)
        warm(workloads, first, how)


@cache
def _warm_kernels() -> None:
    for prepare in (product.warm, reversible.warm, panes.warm):
        prepare()


@contextmanager
def _alone() -> Iterator[None]:
    """Only one of a user's processes on this machine at a time."""
    path = Path(tempfile.gettempdir()) / f".sheaf-warming-{os.getuid()}"
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
