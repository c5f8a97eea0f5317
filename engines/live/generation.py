"""Queries that have come to a stream together."""

from __future__ import annotations

from dataclasses import dataclass

from optimizer.ir.query import BoundWorkload


@dataclass(frozen=True)
class Generation:
    """Queries, and the time behind which their stream begins; None: with its first event."""

    workload: BoundWorkload
    since: int | None = None
