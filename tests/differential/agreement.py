"""Checks that random workloads share: engines agree with the reference, and with one run."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from engines.input.event_table import from_table
from engines.limits import Limits
from engines.reference.oracle import run_oracle
from tests.differential.test_continued import batches_of
from tests.differential.test_live import rows_of, run_live
from tests.differential.test_local import Case, events_of, multiset
from tests.differential.test_slices import COLUMNS
from tests.running import How, run_local
from tests.strategies import has_sequence
from workloads.errors import UnsupportedError


def is_run(case: Case) -> bool:
    """Whether the local engine takes the workload of a case."""
    try:
        How().program(case[0])
    except UnsupportedError:
        return False
    return True


def check_against_the_reference(case: Case, small: bool, how: How) -> None:
    """Fail unless a local run, `small` in the least pieces, gives the rows of the reference."""
    workload, rows = case
    events = events_of(workload, rows)
    limits = Limits(chunk=2, search=0) if small else None
    found = run_local(workload, events, limits, how)
    assert multiset(found) == multiset(run_oracle(workload, events))


def check_live(case: Case, cuts: Sequence[int]) -> None:
    """Fail unless a live stream, restarted at each cut, gives the rows of one run over all.

    A query that no live stream can answer is refused, which is no failure.
    """
    workload, rows = case
    columns = COLUMNS | ({"seq": pa.int64()} if has_sequence(workload) else {})
    table = pa.table({c: pa.array([row[c] for row in rows], t) for c, t in columns.items()})
    try:
        found = run_live(workload, batches_of(table, cuts))
    except UnsupportedError:
        return
    assert rows_of(found) == rows_of([run_local(workload, from_table(table, workload.stream))])
