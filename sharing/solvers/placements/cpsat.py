"""Places chosen by CP-SAT, with a proof or a gap."""

from __future__ import annotations

import math
from collections import defaultdict
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from sharing.counting.benefit import Worth
from sharing.counting.candidates import FEWEST_QUERIES, Candidates, Ints
from sharing.solvers.candidates.cpsat import LARGEST, solver_for
from sharing.solvers.candidates.solution import DEFAULT, Options
from sharing.solvers.placements.greedy import start_of
from sharing.solvers.placements.placement import (
    Placement,
    begins,
    served,
    upper_bound,
    weight_of,
    worthwhile,
)

if TYPE_CHECKING:
    from ortools.sat.python import cp_model


def cpsat(candidates: Candidates, worth: Worth, options: Options = DEFAULT) -> Placement:
    """An integer program: is a candidate computed at all, and does it serve each of its places.

    It begins from the greedy choice, or from the places of `options.start` where these are worth
    more, and never ends with less. The same for the same seed and
    effort, whatever the machine. Steps are branches.
    """
    from ortools.sat.python import cp_model

    start = start_of(candidates, worth, options)
    open_ids = worthwhile(candidates, worth)
    scale = _scale(candidates, worth, open_ids)
    program = _Program(candidates, worth, open_ids, scale)
    program.hint(start)
    solver = solver_for(options)
    status = solver.solve(program.model)
    kept, bound = start, upper_bound(candidates, worth)
    if status in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        found = np.zeros_like(kept)
        found[[place for place, x in program.serve.items() if solver.boolean_value(x)]] = True
        kept = max(kept, found, key=lambda some: weight_of(candidates, worth, some))
        bound = min(bound, solver.best_objective_bound / scale)
    if status == cp_model.OPTIMAL:
        bound = weight_of(candidates, worth, kept)  # up to the rounding
    return served("cpsat", candidates, worth, kept, bound, solver.num_branches)


class _Program:
    """The variables and constraints."""

    def __init__(self, candidates: Candidates, worth: Worth, open_ids: Ints, scale: float) -> None:
        from ortools.sat.python import cp_model

        self.model = cp_model.CpModel()
        self.serve: dict[int, cp_model.IntVar] = {}
        self._open: dict[int, cp_model.IntVar] = {}
        terms = []
        taking: dict[int, list[int]] = defaultdict(list)
        starts = begins(candidates).tolist()
        for i in open_ids.tolist():
            computed = self._open[i] = self.model.new_bool_var("")
            places = range(int(candidates.first[i]), int(candidates.first[i + 1]))
            # Rounded up and down, so that a bound on rounded values is one on the values.
            terms.append((-math.floor(worth.once[i] * scale), computed))
            gain = math.ceil(worth.gain[i] * scale)
            for place in places:
                served = self.serve[place] = self.model.new_bool_var("")
                self.model.add_implication(served, computed)
                terms.append((gain, served))
                for cell in range(starts[place], starts[place] + int(candidates.length[i])):
                    taking[cell].append(place)
            self._enough_queries(candidates, i, places)
        for clique in dict.fromkeys(tuple(p) for p in taking.values() if len(p) > 1):
            self.model.add_at_most_one(self.serve[place] for place in clique)
        self.model.maximize(sum(weight * x for weight, x in terms))
        self._holder = candidates.holder

    def _enough_queries(self, candidates: Candidates, i: int, places: range) -> None:
        """What is computed serves two queries at least."""
        by_query: dict[int, list[cp_model.IntVar]] = defaultdict(list)
        for place in places:
            by_query[int(candidates.query[place])].append(self.serve[place])
        helped = []
        for several in by_query.values():
            x = several[0]
            if len(several) > 1:
                x = self.model.new_bool_var("")
                self.model.add_bool_or([*several, x.negated()])
            helped.append(x)
        self.model.add(sum(helped) >= FEWEST_QUERIES * self._open[i])

    def hint(self, kept: NDArray[np.bool_]) -> None:
        """Begin from these places."""
        computed = set(self._holder[kept].tolist())
        for place, x in self.serve.items():
            self.model.add_hint(x, bool(kept[place]))
        for i, x in self._open.items():
            self.model.add_hint(x, i in computed)


def _scale(candidates: Candidates, worth: Worth, ids: Ints) -> float:
    total = float((worth.gain[ids] * candidates.places[ids] + np.abs(worth.once[ids])).sum())
    return 2.0 ** math.floor(math.log2(LARGEST / total)) if total else 1.0
