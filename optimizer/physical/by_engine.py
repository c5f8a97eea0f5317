"""What becomes of candidates by the engines of their groups, for the measured model.

A candidate is a piece that Chop-Connect could count once. The engine that was chosen may be
another: the products count every piece once, so that all candidates are shared and none excludes
another; PreTree shares what queries begin with; and A-Seq nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from optimizer.cost.choice import CALLED, Engine
from optimizer.cost.counting import Counting
from optimizer.cost.operations import UnitCosts
from optimizer.cost.pieces import Costs, step_texts
from optimizer.ir.query import Query
from optimizer.physical.groups import CountingGroup
from optimizer.physical.pieces import steps_of
from optimizer.physical.plan import Candidate
from optimizer.statistics.known import Statistics

Chosen = tuple[tuple[Candidate, ...], tuple[str, ...]]


def by_engine(
    found: Sequence[Candidate],
    chosen: Sequence[str],
    groups: Sequence[CountingGroup],
    queries: Mapping[str, Query],
    statistics: Statistics,
    unit_costs: UnitCosts,
) -> Chosen:
    """The candidates as the groups' engines take them, and the ids of those that are shared.

    What Chop-Connect counts is as it was chosen for it. With the other engines a candidate's
    benefit is what counting it once saves there; smaller versions of it, for some of its queries,
    are left out.
    """
    of_query = {name: number for number, group in enumerate(groups) for name in group.queries}
    before = frozenset(chosen)
    judges: dict[int, _Judge] = {}
    kept: dict[tuple[int, tuple[str, ...]], Candidate] = {}
    others: list[Candidate] = []
    taken: set[str] = set()
    for candidate in found:
        number = of_query[candidate.queries[0]]
        if groups[number].engine == "chopconnect":
            others.append(candidate)
            taken |= {candidate.id} & before
            continue
        place = (number, candidate.pattern)
        if place in kept and len(kept[place].queries) >= len(candidate.queries):
            continue
        kept[place] = candidate
    judged = []
    for candidate in kept.values():
        number = of_query[candidate.queries[0]]
        if number not in judges:
            members = tuple(queries[name] for name in groups[number].queries)
            judges[number] = _Judge(groups[number], members, statistics, unit_costs)
        result, is_shared = judges[number].judge(candidate)
        judged.append(result)
        taken |= {result.id} if is_shared else set()
    every = (*others, *judged)
    return every, tuple(candidate.id for candidate in every if candidate.id in taken)


class _Judge:
    """Says of the candidates of one group what its engine does with them."""

    def __init__(
        self,
        group: CountingGroup,
        queries: tuple[Query, ...],
        statistics: Statistics,
        unit_costs: UnitCosts,
    ) -> None:
        self.group, self.steps = group, steps_of(group)
        self.members = frozenset(group.queries)
        self.texts = step_texts(queries)
        self.costs = Costs(Counting(queries, statistics), group.engine, unit_costs)

    def judge(self, candidate: Candidate) -> tuple[Candidate, bool]:
        """The candidate with its benefit and reason, and whether it is shared."""
        names = [name for name in candidate.queries if name in self.members]
        if len(names) < 2:
            return self._not(candidate, "its queries run one by one"), False
        called = CALLED[_engine(self.group.engine)]
        match self.group.engine:
            case "product" | "panes":
                return self._shared(candidate, names, f"shared: {called} counts it once"), True
            case "pretree":
                size = len(candidate.pattern)
                begin = [n for n in names if self.steps[n][:size] == candidate.pattern]
                if len(begin) > 1:
                    who = "" if len(begin) == len(names) else f" for {', '.join(begin)}"
                    why = f"shared: {called} counts what queries begin with once{who}"
                    return self._shared(candidate, begin, why), True
                why = f"{called} is cheaper for its queries, and shares only what they begin with"
                return self._not(candidate, why), False
            case _:
                return self._not(candidate, "each of its queries alone is cheaper"), False

    def _shared(self, candidate: Candidate, names: Sequence[str], why: str) -> Candidate:
        steps = [self.texts[step] for step in candidate.pattern if step in self.texts]
        saved = (len(names) - 1) * self.costs.alone(steps)
        return replace(candidate, benefit=saved, conflicts=(), conflicting=0, why=why)

    @staticmethod
    def _not(candidate: Candidate, why: str) -> Candidate:
        return replace(candidate, conflicts=(), conflicting=0, why=f"not shared: {why}")


def _engine(name: str) -> Engine:
    found: dict[str, Engine] = {engine: engine for engine in CALLED}
    return found[name]
