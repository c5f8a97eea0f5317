"""Rows that cannot be events: the first is an error, or all are left out and counted."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Literal as OneOf

from engines.errors import BadRowError

OnError = OneOf["stop", "skip"]


@dataclass(frozen=True, order=True)
class Fault:
    """What is wrong with a row; `kind` is what faults of its like are counted under."""

    row: int  # of the file's data rows, the first is 1
    kind: str
    message: str
    column: str | None = None


@dataclass
class Faults:
    """What is done about faults, and what has been."""

    on_error: OnError = "stop"
    counts: Counter[str] = field(default_factory=Counter)
    first: str | None = None

    @property
    def total(self) -> int:
        return self.counts.total()

    def report(self, file: str, faults: list[Fault]) -> None:
        """Raise the first in the order of rows, or count them all."""
        for fault in sorted(faults):
            column = "" if fault.column is None else f", column '{fault.column}'"
            text = f"'{file}', row {fault.row}{column}: {fault.message}"
            if self.on_error == "stop":
                raise BadRowError(text)
            self.counts[fault.kind] += 1
            self.first = self.first or text
