"""The best tree of a query, other trees to compare it with, and what any tree costs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from optimizer.cost.trees import ZSTREAM, Model
from optimizer.ir.pattern import events, print_pattern
from optimizer.ir.query import Query
from optimizer.statistics import Statistics
from optimizer.trees.compile import compile_query
from optimizer.trees.costing import Step, walk_cost
from optimizer.trees.problem import Given
from optimizer.trees.search import solve
from optimizer.trees.solved import Shape
from optimizer.trees.tree import Tree, TreeError


@dataclass(frozen=True, slots=True)
class Costed:
    """A tree with its cost and its rows, both in one window's length of stream.

    `exact` where no tree of the same shape is cheaper by the model: not where an AND has very many
    parts, or a gap very many negations.
    """

    tree: Tree
    cost: float
    cardinality: float
    seconds: float
    exact: bool = True

    @property
    def per_second(self) -> float:
        """The cost in events touched per second, for comparing queries with other windows."""
        return self.cost / self.seconds


def best_tree(
    query: Query,
    statistics: Statistics,
    given: Sequence[Given] = (),
    model: Model = ZSTREAM,
    shape: Shape = "bushy",
) -> Costed:
    """The cheapest tree, in which the given pieces are leaves.

    `shape` restricts sequences and conjunctions to left-deep or right-deep trees, or asks for the
    worst tree of all; where groups are tied so that there is no such tree, it is one of any shape.
    Raises `MissingStatisticError` where a number is not known.
    """
    problem = compile_query(query, statistics, given, model)
    try:
        found = solve(problem, shape)
    except TreeError:
        if shape not in ("left", "right"):
            raise
        found = solve(problem)
    return Costed(found.tree, found.cost, problem.rows, problem.seconds, found.exact)


def cost_of(
    tree: Tree,
    query: Query,
    statistics: Statistics,
    given: Sequence[Given] = (),
    model: Model = ZSTREAM,
) -> Costed:
    """What a tree costs; raises `TreeError` where it does not evaluate the query."""
    problem = compile_query(query, statistics, given, model)
    root = walk_cost(problem, tree)[0]
    return Costed(tree, root.cost, root.rows, problem.seconds, exact=False)


def steps_of(
    tree: Tree,
    query: Query,
    statistics: Statistics,
    given: Sequence[Given] = (),
    model: Model = ZSTREAM,
) -> list[Step]:
    """Every operator of a tree with its cost and rows, the root first."""
    return walk_cost(compile_query(query, statistics, given, model), tree)


def labels_of(query: Query) -> dict[str, str]:
    """What each alias is of, as the query's patterns are printed: `A[x > 1]+ a`."""
    return {event.alias: print_pattern(event) for event in events(query.pattern)}
