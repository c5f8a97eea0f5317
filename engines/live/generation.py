"""Queries that have come to a stream together."""

from __future__ import annotations

from dataclasses import dataclass

from engines.program import Program


@dataclass(frozen=True)
class Generation:
    """A program, and the time behind which its stream begins; None: with its first event."""

    program: Program
    since: int | None = None
