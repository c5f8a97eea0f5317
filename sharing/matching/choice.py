"""From queries that construct their matches to what they make once."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import assert_never

from optimizer.ir.pattern import alternatives
from optimizer.ir.query import Query, Reading
from optimizer.plan.plan import Solver
from optimizer.statistics import Statistics
from sharing.matching.bound import least_cost
from sharing.matching.build_nodes import problem_of
from sharing.matching.cpsat import jointly
from sharing.matching.exhaustive import best_plan
from sharing.matching.improve import find_plan
from sharing.matching.nodes import (
    MatchSetting,
    NodePlacement,
    NodeProblem,
    Trees,
    conflicts,
    everywhere,
)
from sharing.solvers.candidates import DEFAULT, SOLVERS, Options
from sharing.solvers.candidates.solution import ConflictGraph

# Sums of doubles in another order differ in their last digits.
NEGLIGIBLE_SHARE = 1e-9


@dataclass(frozen=True, eq=False)
class NodeChoice:
    """The nodes of a problem that are made; no plan costs less than `bound`."""

    problem: NodeProblem
    made: frozenset[int]
    bound: float

    @cached_property
    def cost(self) -> float:
        """What all trees cost, each node once."""
        return self.problem.cost(self.made)

    @property
    def saved(self) -> float:
        """Against each reading by itself."""
        return self.problem.separate - self.cost

    @property
    def most(self) -> float:
        """What could be saved at most."""
        return max(self.saved, self.problem.separate - self.bound)

    @property
    def proven(self) -> bool:
        """Does no plan cost less?"""
        return self.cost - self.bound <= NEGLIGIBLE_SHARE * self.problem.separate

    @cached_property
    def trees(self) -> Trees:
        """The trees over the nodes that are made."""
        return Trees(self.problem, self.made)

    @cached_property
    def served(self) -> tuple[NodePlacement, ...]:
        """The nodes that are made, with the places that read them."""
        return tuple(
            NodePlacement(node, places) for node, places in sorted(self.trees.served().items())
        )


def readings_of(queries: Iterable[Query]) -> dict[MatchSetting, list[Reading]]:
    """The OR-free readings of queries, by what they must have in common to share."""
    found: dict[MatchSetting, list[Reading]] = {}
    for query in queries:
        readings = [Reading.of(query, pattern) for pattern in alternatives(query.pattern)]
        found.setdefault(MatchSetting.of(query), []).extend(readings)
    return found


def choose(
    readings: Sequence[Reading],
    statistics: Statistics,
    solver: Solver = "greedy",
    options: Options = DEFAULT,
    sharing: bool = True,
    earlier: Mapping[tuple[str, ...], Collection[str]] | None = None,
) -> NodeChoice:
    """What readings of one key make once.

    An independent set of the nodes by their benefits is improved against the true cost; `cpsat`
    and `exhaustive` go on from there, the latter with a proof or a `BudgetError`. `earlier` are
    the steps of nodes that were made before, to begin from.
    """
    return choose_in(problem_of(readings, statistics, sharing), solver, options, earlier)


def choose_in(
    problem: NodeProblem,
    solver: Solver = "greedy",
    options: Options = DEFAULT,
    earlier: Mapping[tuple[str, ...], Collection[str]] | None = None,
) -> NodeChoice:
    """What the readings of a problem make once; otherwise as `choose`."""
    if not problem.nodes:
        return NodeChoice(problem, frozenset(), problem.separate if problem.complete else 0.0)
    starts = [_independent(problem), _aggressive(problem), frozenset[int]()]
    if earlier:
        starts.append(frozenset(i for i, n in enumerate(problem.nodes) if n.steps in earlier))
    found = find_plan(problem, starts, options.steps // 4, options.seed)
    match solver:
        case "greedy":
            bound = least_cost(problem)
        case "cpsat":
            found, bound = jointly(problem, found, options)
        case "exhaustive":
            found = best_plan(problem, found, options.steps)
            bound = problem.cost(found)
        case _:
            assert_never(solver)
    found = _read_twice(problem, found)
    bound = min(bound, problem.cost(found)) if problem.complete else 0.0
    return NodeChoice(problem, found, bound)


def benefit(problem: NodeProblem, served: NodePlacement) -> float:
    """What making a node once saves its readings, less what it costs itself."""
    node = problem.nodes[served.node]
    only = frozenset({served.node})
    roots = (problem.roots[i] for i in sorted({place.reading for place in served.places}))
    found = sum(root.alone - root.best(only).cost for root in roots) - node.reader.alone
    return found if abs(found) > NEGLIGIBLE_SHARE * node.reader.alone else 0.0


def _independent(problem: NodeProblem) -> frozenset[int]:
    """Nodes without conflicts, of the greatest benefit."""
    every = everywhere(problem)
    weights = [benefit(problem, served) for served in every]
    graph = ConflictGraph.of_edges(weights, conflicts(problem, every))
    return frozenset(SOLVERS["greedy"](graph).chosen)


def _aggressive(problem: NodeProblem) -> frozenset[int]:
    """The largest that readings have in common (NEEL section V), as far as any tree reads it."""
    parts = {
        inner
        for node in problem.nodes
        for inner in node.reader.nodes
        if len(problem.nodes[inner].places) == len(node.places)
    }
    return problem.used(set(range(len(problem.nodes))) - parts)


def _read_twice(problem: NodeProblem, made: frozenset[int]) -> frozenset[int]:
    """Without nodes that only one tree reads, unless that tree would cost more without them."""
    while True:
        readers = Trees(problem, made).readers()
        single = sorted(node for node, read in readers.items() if read < 2)
        cost = problem.cost(made)
        fewer = made
        for node in single:
            less = fewer - {node}
            if problem.saved(fewer, less, [node])[0] >= -cost * NEGLIGIBLE_SHARE:
                fewer = less
        if fewer == made:
            return made
        made = problem.used(fewer)
