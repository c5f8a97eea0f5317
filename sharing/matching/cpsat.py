"""Trees and nodes chosen together by CP-SAT, with a proof where it finishes.

Of each reader one way to read nodes is taken: of a reading exactly one, of a node one where it is
made. A way's cost is that of the best tree over what it reads, so the choice of trees is part of
it; a node that is read must be made, and is paid once.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import NamedTuple

from sharing.matching.bound import least_cost
from sharing.matching.nodes import NodeProblem, TreeOption
from sharing.solvers.candidates import Options
from sharing.solvers.candidates.cpsat import LARGEST, solver_for

WAYS_EACH, WAYS = 512, 40_000  # of one reader, and of all


class JointSolution(NamedTuple):
    """Nodes to make, and what no plan costs less than."""

    made: frozenset[int]
    bound: float


def jointly(problem: NodeProblem, start: Collection[int], options: Options) -> JointSolution:
    """The best plan that CP-SAT finds; it begins from `start` and never ends with a worse one."""
    from ortools.sat.python import cp_model

    bound = least_cost(problem)
    ways = _all_ways(problem)
    if ways is None:
        return JointSolution(problem.used(start), bound)
    scale = _scale(problem.separate)
    model = cp_model.CpModel()
    made = [model.new_bool_var("") for _ in problem.nodes]
    hinted = frozenset(start)
    terms = []
    for number, (reader, some) in enumerate(zip(problem.readers, ways, strict=True)):
        node = number - len(problem.roots)
        hint = reader.best(hinted).taken if node < 0 or node in hinted else None
        taken = [model.new_bool_var("") for _ in some]
        if node < 0:
            model.add_exactly_one(taken)
        else:
            model.add(sum(taken) == made[node])
            model.add_hint(made[node], node in hinted)
        for variable, way in zip(taken, some, strict=True):
            model.add_hint(variable, way.taken == hint)
            for i in way.taken:
                model.add_implication(variable, made[reader.occurrences[i].node])
            # Rounded down, so that a bound on the rounded costs is one on the costs.
            terms.append(math.floor(way.cost * scale) * variable)
    model.minimize(sum(terms))
    solver = solver_for(options)
    status = solver.solve(model)
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return JointSolution(problem.used(start), bound)
    chosen = problem.used([i for i, variable in enumerate(made) if solver.boolean_value(variable)])
    best = min(chosen, problem.used(start), key=lambda some: (problem.cost(some), sorted(some)))
    if status == cp_model.OPTIMAL:
        return JointSolution(best, problem.cost(best))  # up to the rounding
    return JointSolution(best, max(bound, solver.best_objective_bound / scale))


def _all_ways(problem: NodeProblem) -> list[list[TreeOption]] | None:
    """The ways of every reader; None where they are too many."""
    found: list[list[TreeOption]] = []
    total = 0
    for reader in problem.readers:
        ways = reader.ways(WAYS_EACH)
        if ways is None:
            return None
        total += len(ways)
        if total > WAYS:
            return None
        found.append(ways)
    return found


def _scale(total: float) -> float:
    """The power of two that keeps the most of costs that are so large together."""
    return 2.0 ** math.floor(math.log2(LARGEST / total)) if total > 0 else 1.0
