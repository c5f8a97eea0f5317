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

from engines.input.event_table import from_table
from engines.local.run import run_events
from engines.program import DEFAULT_OPTIONS, Program, RunContext, RunOptions
from kernels.folds import cpu as folds
from kernels.kept import cpu as kept
from kernels.panes import cpu as panes
from kernels.product import cpu as product
from kernels.reversible import cpu as reversible
from kernels.stacks import cpu as stacks

_JOBS: set[str] = set()


def warm(
    programs: Sequence[Program], first: pa.Table, options: RunOptions = DEFAULT_OPTIONS
) -> None:
    """Compile what the programs run, or load it from numba's cache; `first` is an event or none.

    One process of a machine at a time: several that write that cache at once would each compile
    everything, and could spoil it. What the engine cannot do with such events is said here.
    """
    with _alone():
        _warm_kernels()
        for program in programs:
            events = from_table(first, program.workload.stream)
            run_events(program, events, RunContext(options))


def warm_once(
    job: str,
    programs: Sequence[Program],
    first: pa.Table,
    options: RunOptions = DEFAULT_OPTIONS,
) -> None:
    """`warm`, unless this process has done it for the job."""
    if job not in _JOBS:
        _JOBS.add(job)
        warm(programs, first, options)


@cache
def _warm_kernels() -> None:
    for prepare in (product.warm, reversible.warm, kept.warm, stacks.warm, panes.warm, folds.warm):
        prepare()


@contextmanager
def _alone() -> Iterator[None]:
    """Only one of a user's processes on this machine at a time."""
    path = Path(tempfile.gettempdir()) / f".sheaf-warming-{os.getuid()}"
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
