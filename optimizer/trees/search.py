"""The cheapest tree of a pattern, part by part."""

from __future__ import annotations

from optimizer.cost import trees as cost
from optimizer.trees.problem import Chain, Choice, Edge, Part, Piece, Problem, Single, Together
from optimizer.trees.segments import Segments
from optimizer.trees.solved import NOTHING, Shape, Solved
from optimizer.trees.subsets import Subsets
from optimizer.trees.tree import Latest, Leaf, NegTop, NSeq, OrMerge, Shared, Tree


def solve(problem: Problem, shape: Shape = "bushy") -> Solved:
    """The cheapest tree of a shape, or the worst of all; negations that need all come last."""
    if problem.one_pass:
        return _latest(problem)
    tree, total, exact = _part(problem, problem.root, shape)
    rows = problem.root.rows
    in_turn = sorted(problem.top, key=lambda negation: negation.survival)
    for number, negation in enumerate(in_turn, 1):
        after = problem.rows_after(in_turn[:number])
        inner = solve(negation.problem)
        total += cost.filtered(problem.model, rows, negation.predicates, after) + inner.cost
        tree, rows = NegTop(tree, inner.tree), after
    return Solved(tree, total, exact)


def _latest(problem: Problem) -> Solved:
    """The one pass over the events of a negated sequence."""
    chain, model = problem.root, problem.model
    assert isinstance(chain, Chain)
    parts: list[Tree] = []
    total, exact = 0.0, True
    for number, item in enumerate(chain.items):
        assert isinstance(item, Single)
        part: Tree = Leaf(item.alias)
        for negation in chain.gaps[number - 1].negations if number else ():
            inner = solve(negation.problem)
            total += inner.cost + cost.pushed(model, item.rows, negation.predicates)
            part, exact = NSeq(part, inner.tree, "left"), exact and inner.exact
        parts.append(part)
    looked_at = sum(item.rows for item in chain.items)
    total += cost.latest(model, looked_at, chain.items[-1].rows)
    return Solved(Latest(tuple(parts)), total, exact)


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
