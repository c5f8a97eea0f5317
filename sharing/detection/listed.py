"""Every node as a candidate of a plan: its benefit, its conflicts, and why it is made or not."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from optimizer.physical.plan import Candidate
from sharing.candidates import Kind
from sharing.detection.choose import Choice
from sharing.detection.conflicts import At, Served, conflicts, everywhere
from sharing.detection.problem import Place

LISTED_CONFLICTS = 1000  # of one candidate


@dataclass(frozen=True, eq=False)
class Listed:
    """The candidates of a choice; `unit` is what a benefit of one is in the plan's unit.

    The benefit of a node that is made is what the plan costs less with it than with those before
    it alone: together they are what all of them save. That of any other is what the plan would
    cost less if it were made too, which is below zero.
    """

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
    def made(self) -> list[Served]:
        """The nodes that are made, the most useful first."""
        problem, every = self.choice.problem, self.choice.made
        whole = problem.cost(every)
        worth = {s.node: problem.cost(every - {s.node}) - whole for s in self.choice.served}
        return sorted(self.choice.served, key=lambda s: (-worth[s.node], s.node))

    @cached_property
    def entries(self) -> list[Served]:
        """The nodes that are made, for those that they serve, and each other for all that have it.

        Of the latter, those of one query's readings are left out.
        """
        others = [s for s in everywhere(self.choice.problem) if s.node not in self.choice.made]
        return [*self.made, *(served for served in others if len(self.queries(served)) > 1)]

    @cached_property
    def chosen(self) -> tuple[str, ...]:
        """The ids of those that are made."""
        return tuple(map(self.id, self.made))

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
                    benefit=self.unit * self.worth[i],
                    conflicts=tuple(ids[j] for j in near[:LISTED_CONFLICTS]),
                    conflicting=len(near),
                    why=self._why(i),
                )
            )
        return tuple(found)

    @cached_property
    def worth(self) -> list[float]:
        """What each entry is worth, in events touched in one window."""
        problem, before = self.choice.problem, frozenset[int]()
        found = []
        for served in self.made:
            after = before | {served.node}
            found.append(problem.cost(before) - problem.cost(after))
            before = after
        whole = self.choice.cost
        others = self.entries[len(self.made) :]
        return found + [whole - problem.cost(self.choice.made | {s.node}) for s in others]

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
        for i, served in reversed(list(enumerate(self.made))):
            outer = self.choice.problem.nodes[served.node]
            found |= dict.fromkeys(outer.reader.nodes, i)
        return found

    def _why(self, i: int) -> str:
        served, problem = self.entries[i], self.choice.problem
        if i < len(self.made):
            if len(self.queries(served)) < 2:
                return "chosen: the tree of its query costs less with it"
            mine = set(self.queries(served))
            others = [
                n for n in problem.queries(problem.nodes[served.node].places) if n not in mine
            ]
            rest = f"; {', '.join(others)} cost less without it" if others else ""
            return f"chosen{rest}"
        rivals = [j for j in self._near[i] if j < len(self.made)]
        if rivals:
            return f"not shared: overlaps {self._named(min(rivals))}, which is chosen"
        if served.node in self._around:
            return (
                "not made by itself: it is part of "
                f"{self._named(self._around[served.node])}, which is chosen"
            )
        return "not shared: the trees cost less without it"

    def _named(self, i: int) -> str:
        steps = ", ".join(self.choice.problem.nodes[self.entries[i].node].steps)
        return f"{self.id(self.entries[i])} ({steps})"
