"""What can be wrong with a plan."""

from __future__ import annotations

from workloads.errors import SheafError


class PlanError(SheafError):
    """A plan that contradicts itself, or a document that is no plan."""
