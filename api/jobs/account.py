"""What a stream job has done so far, in a file that its process writes and the service reads.

A batch that was cut off runs again: what it did is then counted in place of what was said of it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from api.jobs.folder import write_whole

COUNTED = ("events", "bad", "late", "aggregates", "matches")


@dataclass(frozen=True)
class Totals:
    """Sums over batches."""

    batches: int = 0
    events: int = 0
    bad: int = 0
    late: int = 0
    aggregates: int = 0
    matches: int = 0
    seconds: float = 0.0


@dataclass(frozen=True)
class Batch:
    """What one batch did, and what the state was after it; `until` as results say times."""

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


@dataclass(frozen=True)
class Account:
    """All batches up to the last, and the last one itself."""

    before: Totals = field(default_factory=Totals)
    last: Batch | None = None

    @property
    def totals(self) -> Totals:
        if self.last is None:
            return self.before
        last, before = self.last, self.before
        sums = {name: getattr(before, name) + getattr(last, name) for name in COUNTED}
        return Totals(before.batches + 1, seconds=round(before.seconds + last.seconds, 3), **sums)

    def add(self, batch: Batch) -> Account:
        """With one more batch, or with the last one done again."""
        again = self.last is not None and self.last.number >= batch.number
        return replace(self, before=self.before if again else self.totals, last=batch)


def read_account(path: Path) -> Account:
    """What has been written; nothing where nothing has."""
    try:
        said = json.loads(path.read_bytes())
    except FileNotFoundError:
        return Account()
    last = said["last"]
    return Account(
        Totals(**said["before"]),
        None if last is None else Batch(**{**last, "groups": tuple(last["groups"])}),
    )


def write_account(path: Path, account: Account) -> None:
    write_whole(path, asdict(account))
