"""The form of a workload that is planned and run: the one place where queries are rewritten."""

from __future__ import annotations

from optimizer.ir.query import BoundWorkload


def normalize(workload: BoundWorkload) -> BoundWorkload:
    """The workload with its queries in the form that plans and engines take."""
    return workload
