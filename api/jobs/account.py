"""What a stream job has done so far, in a file that its process writes and the service reads.

A batch that was cut off runs again: what it did is then counted in place of what was said of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from engines.columns.occurrences import merged
from engines.documents import read_document, write_document
from engines.execution import percentile

RECENT_BATCHES = 500  # of which it is remembered how long they took
LISTED_TREES = 100  # changes of trees that are remembered
COUNTED = ("events", "bad", "late", "aggregates", "matches")
NAMED = ("rows", "taken", "arrived", "passed")


@dataclass(frozen=True)
class JobTotals:
    """Sums over batches: `rows` and events `taken` by query, `arrived` and `passed` on by key.

    Under a name are those of all queries that have had it. `operators` are the totals of the plan's
    operators, `fallbacks` and `trees` what did not go as planned, and how trees changed. `seen` is
    what has occurred of what queries ask for. `recent` are the seconds of the last batches.
    """

    batches: int = 0
    events: int = 0
    bad: int = 0
    late: int = 0
    aggregates: int = 0
    matches: int = 0
    seconds: float = 0.0
    rows: Mapping[str, int] = field(default_factory=dict)
    taken: Mapping[str, int] = field(default_factory=dict)
    arrived: Mapping[str, int] = field(default_factory=dict)
    passed: Mapping[str, int] = field(default_factory=dict)
    operators: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    fallbacks: tuple[str, ...] = ()
    trees: tuple[Mapping[str, Any], ...] = ()
    seen: Mapping[str, Any] = field(default_factory=dict)
    recent: tuple[float, ...] = ()


@dataclass(frozen=True)
class BatchAccount:
    """What one batch did, and what the state was after it; `until` as results say times.

    `notes` are on all events up to the batch.
    """

    number: int
    seconds: float
    events: int = 0
    bad: int = 0
    late: int = 0
    aggregates: int = 0
    matches: int = 0
    until: int | str | None = None
    state: int = 0
    waiting: int = 0
    groups: tuple[Mapping[str, Any], ...] = ()
    rows: Mapping[str, int] = field(default_factory=dict)
    routes: tuple[Mapping[str, Any], ...] = ()
    operators: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    fallbacks: tuple[str, ...] = ()
    trees: tuple[Mapping[str, Any], ...] = ()
    seen: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def taken(self) -> dict[str, int]:
        """Events that each query was given."""
        return {query: route["taken"] for route in self.routes for query in route["queries"]}

    @property
    def arrived(self) -> dict[str, int]:
        """Events that came, by what they are keyed by."""
        return {key_of(route): route["arrived"] for route in self.routes}

    @property
    def passed(self) -> dict[str, int]:
        """Events that were given to queries, by what they are keyed by."""
        return {key_of(route): route["taken"] for route in self.routes}


def key_of(route: Mapping[str, Any]) -> str:
    """What a way of keying is called in totals."""
    return ", ".join(route["key"])


@dataclass(frozen=True)
class JobAccount:
    """All batches up to the last, and the last one itself."""

    before: JobTotals = field(default_factory=JobTotals)
    last: BatchAccount | None = None

    @property
    def totals(self) -> JobTotals:
        if self.last is None:
            return self.before
        last, before = self.last, self.before
        sums: dict[str, Any] = {n: getattr(before, n) + getattr(last, n) for n in COUNTED}
        sums |= {name: _added(getattr(before, name), getattr(last, name)) for name in NAMED}
        kinds = {*before.operators, *last.operators}
        sums["operators"] = {
            kind: _added(before.operators.get(kind, {}), last.operators.get(kind, {}))
            for kind in sorted(kinds)
        }
        sums["fallbacks"] = tuple(dict.fromkeys([*before.fallbacks, *last.fallbacks]))
        sums["trees"] = (*before.trees, *last.trees)[-LISTED_TREES:]
        sums["seen"] = merged((before.seen, last.seen))
        sums["recent"] = (*before.recent, last.seconds)[-RECENT_BATCHES:]
        return JobTotals(
            before.batches + 1, seconds=round(before.seconds + last.seconds, 3), **sums
        )

    @property
    def by_query(self) -> dict[str, int]:
        """Rows of every query that runs, also of those that have found nothing."""
        if self.last is None:
            return {}
        rows = self.totals.rows
        queries = (query for route in self.last.routes for query in route["queries"])
        return {query: rows.get(query, 0) for query in queries}

    def batch_seconds(self, percent: int) -> float | None:
        """So many seconds, or fewer, have so many percent of the last batches taken."""
        return percentile(self.totals.recent, percent)

    @property
    def notes(self) -> tuple[str, ...]:
        """What is odd about the events so far."""
        return () if self.last is None else self.last.notes

    def add(self, batch: BatchAccount) -> JobAccount:
        """With one more batch, or with the last one done again."""
        again = self.last is not None and self.last.number >= batch.number
        return replace(self, before=self.before if again else self.totals, last=batch)


def _added(one: Mapping[str, int], other: Mapping[str, int]) -> dict[str, int]:
    return {name: one.get(name, 0) + other.get(name, 0) for name in {**one, **other}}


def read_account(path: Path) -> JobAccount:
    """What has been written; nothing where nothing has."""
    said = read_document(path)
    if said is None:
        return JobAccount()
    last = said["last"]
    if last is not None:
        names = ("groups", "routes", "fallbacks", "trees", "notes")
        lists = {name: tuple(last.get(name, ())) for name in names}
        last = BatchAccount(**{**last, **lists})
    before = said["before"]
    lists = {name: tuple(before.get(name, ())) for name in ("fallbacks", "trees", "recent")}
    return JobAccount(JobTotals(**{**before, **lists}), last)


def write_account(path: Path, account: JobAccount) -> None:
    write_document(path, asdict(account))
