"""What is asked of a plan, and what is decided for some of its queries."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import Literal as OneOf

from optimizer.cost.unit_costs import UnitCosts
from optimizer.engines.spec import Device
from optimizer.plan.groups import Group
from optimizer.plan.plan import NANOSECONDS as NANOSECONDS_UNIT
from optimizer.plan.plan import (
    Model,
    Plan,
    PlanCandidate,
    Solver,
)
from optimizer.statistics import Statistics
from optimizer.trees.problem import Shape
from optimizer.trees.tree import Propagation
from sharing.solvers.candidates import Options

__all__ = ["NANOSECONDS_UNIT", "OPERATIONS", "PlanPart", "PlanRequest"]

OPERATIONS = "operations per window"


@dataclass(frozen=True)
class PlanRequest:
    """How to plan: from these statistics, by this model and solver, for this device.

    Without `sharing` each query is by itself. Exact solvers begin from what an `earlier` plan
    shared. Without `counting` all queries construct their matches; `shape` is that of their trees,
    or `stepwise` for none, and `propagation` which events they join: the cheapest way with `auto`.
    After the `deadline`, a time of the monotonic clock, nothing more is searched for.
    """

    statistics: Statistics
    unit_costs: UnitCosts
    model: Model
    solver: Solver
    options: Options
    sharing: bool
    earlier: Plan | None = None
    device: Device = "cpu"
    counting: bool = True
    shape: Shape | OneOf["stepwise"] = "any"
    propagation: Propagation | OneOf["auto"] = "auto"
    deadline: float | None = None

    @property
    def is_late(self) -> bool:
        """Is the time for searching over?"""
        return self.deadline is not None and time.monotonic() >= self.deadline

    @property
    def limited(self) -> Options:
        """The options of a solver, with the time that is left."""
        if self.deadline is None:
            return self.options
        left = max(0.01, self.deadline - time.monotonic())
        return replace(self.options, seconds=min(left, self.options.seconds or left))


@dataclass(frozen=True)
class PlanPart:
    """What is decided for some queries: their groups, and what was considered for them.

    `separate` is what the queries take one by one, in nanoseconds for a second of stream, and no
    choice takes less than `least`. `proven`: no other choice takes less than this one.
    """

    groups: tuple[Group, ...] = ()
    candidates: tuple[PlanCandidate, ...] = ()
    chosen: tuple[str, ...] = ()
    separate: float = 0.0
    least: float = 0.0
    proven: bool = True
