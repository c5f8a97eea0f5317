"""The cheapest tree of a pattern, part by part."""

from __future__ import annotations

from optimizer.cost import trees as cost
from optimizer.trees.problem import Chain, Choice, Edge, Part, Piece, Problem, Single, Together
from optimizer.trees.segments import Segments
from optimizer.trees.solved import NOTHING, Shape, Solved
from optimizer.trees.subsets import Subsets
from optimizer.trees.tree import Leaf, NegTop, OrMerge, Shared


def solve(problem: Problem, shape: Shape = "bushy") -> Solved:
    """The cheapest tree of a shape, or the worst of all; negations that need all come last."""
    tree, total, exact = _part(problem, problem.root, shape)
    rows = problem.root.rows
    for negation in sorted(problem.top, key=lambda negation: negation.survival):
        after = rows * negation.survival
        inner = solve(negation.problem)
        total += cost.filtered(problem.model, rows, negation.predicates, after) + inner.cost
        tree, rows = NegTop(tree, inner.tree), after
    return Solved(tree, total, exact)


def _part(problem: Problem, part: Part | Edge, shape: Shape) -> Solved:
    match part:
        case Edge():
            return NOTHING
        case Single(alias):
            return Solved(Leaf(alias), 0.0)
        case Piece(given):
            return Solved(Shared(given.name, given.aliases), given.cost)
        case Chain() | Together() | Choice():
            items = [_part(problem, item, shape) for item in part.items]
    match part:
        case Chain():
            return Segments(problem, part, items, solve, shape).solve()
        case Together():
            return Subsets(problem, part, items, shape).solve()
        case Choice():
            total = sum(item.cost for item in items) + cost.merged(problem.model, part.rows)
            exact = all(item.exact for item in items)
            return Solved(OrMerge(tuple(item.tree for item in items)), total, exact)
