"""What a job has counted so far, whatever runs it: what its plan's operators are shown with.

A job over stored events has a file for it that its process writes; a stream has its account.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self

from api.jobs.account import JobAccount, key_of
from api.jobs.model import JobSummary
from engines.documents import read_document, write_document

WRITE_SECONDS = 0.5  # seconds between two writes


@dataclass(frozen=True)
class RouteCounts:
    """Events that came along one way of keying, for its queries; `waiting` for the watermark."""

    queries: frozenset[str]
    arrived: int
    taken: int
    waiting: int


@dataclass(frozen=True)
class StateCounts:
    """What the state holds that queries have together."""

    queries: frozenset[str]
    events: int
    bytes: int


@dataclass(frozen=True)
class JobCounts:
    """Events read, None while that is not known; rows found by query, and totals of `operators`.

    What two tasks of a job have to take is counted twice. Only a stream leaves out `bad` rows and
    goes on, and has ways, state, and rows of each kind from queries that are no more. `report` is
    what a job over stored events says at its end: CPU, predicted and unclaimed, fallbacks, trees,
    and the seconds from its first event to the last.
    """

    events: int | None = None
    rows: Mapping[str, int] = field(default_factory=dict)
    operators: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    bad: int = 0
    kinds: Mapping[str, int] | None = None
    ways: tuple[RouteCounts, ...] = ()
    state: tuple[StateCounts, ...] = ()
    report: Mapping[str, Any] = field(default_factory=dict)

    def at_end(self, done: JobSummary) -> JobCounts:
        """With what the job has done in all."""
        rows = {query: number for kind in done.rows.values() for query, number in kind.items()}
        return replace(self, events=done.events, rows=rows)


def counts_of(account: JobAccount) -> JobCounts | None:
    """What a stream has counted; None before its first batch."""
    if account.last is None:
        return None
    totals, last = account.totals, account.last
    ways = [
        RouteCounts(
            frozenset(route["queries"]),
            totals.arrived[key_of(route)],
            totals.passed[key_of(route)],
            route["waiting"],
        )
        for route in last.routes
    ]
    held = [StateCounts(frozenset(g["queries"]), g["events"], g["bytes"]) for g in last.groups]
    kinds = {"aggregates": totals.aggregates, "matches": totals.matches}
    report = {"fallbacks": list(totals.fallbacks), "trees": list(totals.trees)}
    return JobCounts(
        totals.events,
        totals.rows,
        totals.operators,
        totals.bad,
        kinds,
        tuple(ways),
        tuple(held),
        report,
    )


def read_counts(path: Path) -> JobCounts | None:
    """What has been written; None where nothing has."""
    said = read_document(path)
    return None if said is None else JobCounts(**said)


class CountWriter:
    """Writes down what a job has counted, not too often, and what it was at the end in any case."""

    def __init__(self, path: Path) -> None:
        self._path, self._at = path, 0.0
        self._last: dict[str, Any] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        if self._last is not None:
            write_document(self._path, self._last)

    def put(
        self,
        events: int | None,
        rows: Mapping[str, int],
        operators: Mapping[str, Mapping[str, int]],
        report: Mapping[str, Any] | None = None,
    ) -> None:
        """It has counted so much in all."""
        self._last = {"events": events, "rows": dict(rows), "operators": dict(operators)}
        if report is not None:
            self._last["report"] = dict(report)
        if time.monotonic() - self._at > WRITE_SECONDS:
            self._at = time.monotonic()
            write_document(self._path, self._last)
