"""What reading rules of another language gives: a workload, and what was not taken."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from workloads.workload import TimeUnit


@dataclass(frozen=True)
class ImportOptions:
    """What a user may say about an import; `config` is a file of the format's own settings.

    `unit` and `format` are those of the column of times.
    """

    name: str | None = None
    time: str = "ts"
    config: Path | None = None
    sequence: str | None = None
    unit: TimeUnit = "ms"
    format: str | None = None


@dataclass(frozen=True)
class Refused:
    """A rule that was not taken: where it is, and why."""

    place: str
    reason: str


@dataclass(frozen=True)
class ImportedWorkload:
    """A workload's document, how many rules were read, and those of them that it has not."""

    document: dict[str, Any]
    read: int
    refused: tuple[Refused, ...] = ()
    notes: tuple[str, ...] = field(default=())
