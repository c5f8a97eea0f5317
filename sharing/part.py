"""What is asked of a plan, and what it says of some of its queries."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal as OneOf

from optimizer.cost.operations import UnitCosts
from optimizer.physical.plan import Candidate, Device, Group, Model, Plan, Solver
from optimizer.statistics import Statistics
from optimizer.trees.solved import Shape
from optimizer.trees.tree import Propagation
from sharing.solve import Options

NANOSECONDS = "nanoseconds per second of stream"
OPERATIONS = "operations per window"


@dataclass(frozen=True)
class PlanRequest:
    """How to plan: from these statistics, by this model and solver, for this device.

    Without `sharing` each query is by itself. Exact solvers begin from what an `earlier` plan
    shared. Without `counting` all queries construct their matches; `shape` is that of their trees,
    or `stepwise` for none, and `propagation` which events they join: the cheapest way with `auto`.
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
    shape: Shape | OneOf["stepwise"] = "bushy"
    propagation: Propagation | OneOf["auto"] = "auto"

    @property
    def unit(self) -> str:
        """The unit of the model's costs."""
        return OPERATIONS if self.model == "aseq" else NANOSECONDS


@dataclass(frozen=True)
class Part:
    """A part of a plan: its groups, and what was considered for them.

    Costs are in the model's unit, query by query and as planned; no plan saves more than `bound`.
    """

    groups: tuple[Group, ...] = ()
    candidates: tuple[Candidate, ...] = ()
    chosen: tuple[str, ...] = ()
    obstacles: tuple[str, ...] = ()
    separate: float = 0.0
    shared: float = 0.0
    saved: float = 0.0
    bound: float = 0.0
    proven: bool = True


def together(parts: Iterable[Part]) -> Part:
    """All parts as one."""
    some = tuple(parts)
    return Part(
        tuple(group for part in some for group in part.groups),
        tuple(candidate for part in some for candidate in part.candidates),
        tuple(name for part in some for name in part.chosen),
        tuple(text for part in some for text in part.obstacles),
        sum(part.separate for part in some),
        sum(part.shared for part in some),
        sum(part.saved for part in some),
        sum(part.bound for part in some),
        all(part.proven for part in some),
    )
