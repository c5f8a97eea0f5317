"""Every node as a candidate of a plan: its benefit, its conflicts, and why it is made or not."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from optimizer.physical.plan import Candidate
from sharing.candidates import Kind
from sharing.detection.choose import Choice, benefit
from sharing.detection.conflicts import At, Served, conflicts, everywhere
from sharing.detection.problem import Place

LISTED_CONFLICTS = 1000  # of one candidate


@dataclass(frozen=True, eq=False)
class Listed:
    """The candidates of a choice; `unit` is what a benefit of one is in the plan's unit."""

    choice: Choice
    unit: float

    def id(self, served: Served) -> str:
        """A node's name for the places that it serves."""
        problem = self.choice.problem
        return problem.id(problem.nodes[served.node], self._places(served))

    def kind(self, served: Served) -> Kind:
        """What a node is for the places that it serves."""
        return self.choice.problem.kind(self._places(served))

    def _places(self, served: Served) -> list[Place]:
        places = self.choice.problem.nodes[served.node].places
        return [p for p in places if At(p.reading, p.piece.first) in served.places]

    def queries(self, served: Served) -> tuple[str, ...]:
        """The queries that a node serves, in order."""
        readings = sorted({place.reading for place in served.places})
        return tuple(dict.fromkeys(self.choice.problem.readings[i].query.name for i in readings))

    @cached_property
    def entries(self) -> list[Served]:
        """Every node for all that have it, and then those that are made for some of them only.

        A node of one query's readings is not among them.
        """
        every = everywhere(self.choice.problem)
        found = [*every, *(s for s in self.choice.served if s != every[s.node])]
        return [served for served in found if len(self.queries(served)) > 1]

    @cached_property
    def chosen(self) -> tuple[str, ...]:
        """The ids of those that are made."""
        return tuple(self.id(self.entries[i]) for i in self._chosen)

    @cached_property
    def candidates(self) -> tuple[Candidate, ...]:
        """As a plan lists them."""
        ids = list(map(self.id, self.entries))
        found = []
        for i, served in enumerate(self.entries):
            node = self.choice.problem.nodes[served.node]
            near = self._near[i]
            found.append(
                Candidate(
                    id=ids[i],
                    pattern=node.steps,
                    queries=self.queries(served),
                    kind=self.kind(served),
                    benefit=self.unit * self._worth[i],
                    conflicts=tuple(ids[j] for j in near[:LISTED_CONFLICTS]),
                    conflicting=len(near),
                    why=self._why(i),
                )
            )
        return tuple(found)

    @cached_property
    def _chosen(self) -> dict[int, Served]:
        made = {served.node: served for served in self.choice.served}
        return {i: s for i, s in enumerate(self.entries) if made.get(s.node) == s}

    @cached_property
    def _worth(self) -> list[float]:
        return [benefit(self.choice.problem, served) for served in self.entries]

    @cached_property
    def _near(self) -> list[list[int]]:
        near: list[list[int]] = [[] for _ in self.entries]
        for one, other in conflicts(self.choice.problem, self.entries):
            near[one].append(other)
            near[other].append(one)
        return near

    @cached_property
    def _around(self) -> dict[int, int]:
        """For each node that is a piece of one that is made, the most useful such one."""
        found: dict[int, int] = {}
        for i in sorted(self._chosen, key=lambda i: self._worth[i]):
            outer = self.choice.problem.nodes[self.entries[i].node]
            found |= dict.fromkeys(outer.reader.nodes, i)
        return found

    def _why(self, i: int) -> str:
        served = self.entries[i]
        if i in self._chosen:
            return "chosen"
        if served.node in self.choice.made:
            return "chosen for some of its queries: there it pays more"
        if self._worth[i] <= 0:
            return "the trees cost less without it"
        rivals = [j for j in self._near[i] if j in self._chosen]
        if rivals:
            other = max(rivals, key=lambda j: self._worth[j])
            return f"overlaps {self._named(other)}, which is chosen"
        if served.node in self._around:
            return f"is part of {self._named(self._around[served.node])}, which is chosen"
        return "pays alone, but not beside those that are chosen"

    def _named(self, i: int) -> str:
        steps = ", ".join(self.choice.problem.nodes[self.entries[i].node].steps)
        return f"{self.id(self.entries[i])} ({steps})"
