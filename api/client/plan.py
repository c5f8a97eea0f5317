"""A plan as a notebook shows it: as its picture."""

from __future__ import annotations

from functools import cached_property

from api.http.schemas import CandidateOut, PlanOut
from optimizer.explain.svg import render_svg
from optimizer.explain.text import render_text
from optimizer.plan.plan import Plan as Physical
from optimizer.plan.plan import from_json


class Plan(PlanOut):
    """A plan of the service's; it draws itself in a notebook, and as text where it is printed."""

    @cached_property
    def physical(self) -> Physical:
        """The plan as the optimizer has it."""
        ours = {"title", "workload_version"}
        content = self.model_dump(exclude=ours, exclude_none=True, by_alias=True)
        return from_json(content)

    @property
    def saved(self) -> float:
        """The part of the cost that sharing saves, from 0 to 1."""
        return 1 - self.cost.shared / self.cost.separate if self.cost.separate else 0.0

    @property
    def shared(self) -> list[CandidateOut]:
        """The candidates that were chosen."""
        chosen = set(self.chosen)
        return [candidate for candidate in self.candidates if candidate.id in chosen]

    def text(self) -> str:
        """The plan as `sheaf plan` shows it."""
        return render_text(self.physical)

    def svg(self) -> str:
        """The plan's picture."""
        return render_svg(self.physical)

    def __str__(self) -> str:
        return self.text()

    def _repr_svg_(self) -> str:
        return self.svg()
