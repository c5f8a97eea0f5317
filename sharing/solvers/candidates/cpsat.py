"""The best choice that CP-SAT finds within its budget, and how far from the best it can be."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from sharing.counting.candidates import Ints
from sharing.solvers.candidates.greedy import by_share, heaviest_first
from sharing.solvers.candidates.solution import (
    DEFAULT,
    ConflictGraph,
    Options,
    Solution,
    solution,
    upper_bound,
    weight_of,
    worthwhile,
)

if TYPE_CHECKING:
    from ortools.sat.python import cp_model  # a second to import, and most plans do without

# CP-SAT counts in whole numbers: weights are scaled so that all of them together stay below this.
LARGEST = 2**42


def cpsat(graph: ConflictGraph, options: Options = DEFAULT) -> Solution:
    """An integer program: of the candidates that take a cell, at most one. Steps are branches.

    It begins from `options.start` or a greedy choice, whichever weighs most, and never ends with
    less. The same for the same seed and effort, whatever the machine.
    """
    from ortools.sat.python import cp_model

    ids = worthwhile(graph)
    part = graph.only(ids)
    start = _start(part, ids, options)
    scale = _scale(part)
    model = cp_model.CpModel()
    take = [model.new_bool_var("") for _ in range(len(part))]
    for clique in part.cliques():
        model.add_at_most_one(take[i] for i in clique)
    # Rounded up, so that a bound on the rounded weights is one on the weights.
    rounded = [math.ceil(weight * scale) for weight in part.weights.tolist()]
    model.maximize(sum(w * x for w, x in zip(rounded, take, strict=True)))
    for i, x in enumerate(take):
        model.add_hint(x, i in start)
    solver = solver_for(options)
    status = solver.solve(model)
    chosen, bound = start, upper_bound(part)
    if status in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        found = {i for i, x in enumerate(take) if solver.boolean_value(x)}
        chosen = max(start, found, key=lambda some: weight_of(part, some))
        bound = min(bound, solver.best_objective_bound / scale)
    if status == cp_model.OPTIMAL:
        bound = weight_of(part, chosen)  # up to the rounding
    listed = [int(ids[i]) for i in chosen]
    return solution("cpsat", graph, listed, bound, solver.num_branches)


def _start(part: ConflictGraph, ids: Ints, options: Options) -> set[int]:
    """The best of the greedy choices and the one given, as numbers in `part`."""
    number = {int(i): n for n, i in enumerate(ids)}
    given = {number[i] for i in options.start if i in number}
    if not part.independent(given):
        given = set()
    choices = (given, set(by_share(part)), set(heaviest_first(part)))
    return max(choices, key=lambda some: weight_of(part, some))


def _scale(graph: ConflictGraph) -> float:
    """1 for whole weights that are small enough, else the power of two that keeps the most."""
    total = float(graph.weights.sum())
    if total < LARGEST and (graph.weights == np.rint(graph.weights)).all():
        return 1.0
    return 2.0 ** math.floor(math.log2(LARGEST / total))


def solver_for(options: Options) -> cp_model.CpSolver:
    """CP-SAT within these options."""
    from ortools.sat.python import cp_model

    solver = cp_model.CpSolver()
    solver.parameters.random_seed = options.seed
    solver.parameters.max_deterministic_time = options.effort
    if options.seconds is not None:
        solver.parameters.max_time_in_seconds = options.seconds
    # One worker that always solves the linear relaxation of the whole program, which is close here:
    # it proves in seconds what the usual mix of strategies does not in minutes.
    solver.parameters.num_workers = 1
    solver.parameters.linearization_level = 2
    return solver
