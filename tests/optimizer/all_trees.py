"""Every tree of a small query, by plain recursion: what the search is checked against."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from optimizer.trees.problem import (
    Conjunction,
    Disjunction,
    Edge,
    GivenItem,
    NegatedItem,
    PatternPart,
    SequenceItem,
    Single,
    TreeProblem,
)
from optimizer.trees.search import solve
from optimizer.trees.tree import (
    AndJoin,
    KSeq,
    Leaf,
    NegTop,
    NSeq,
    OrMerge,
    SeqJoin,
    Shared,
    Tree,
    bound,
)

# What is done with a negation: pushed to the item before or after it, or a filter.
How = str


def all_trees(problem: TreeProblem) -> Iterator[Tree]:
    """Filters stand at the lowest node that has what they need, those first that leave least.

    Some of these trees choose the events of a closure too early: costing them refuses.
    """
    for tree in _part(problem.root):
        yield _filtered(tree, list(problem.top))


def _filtered(tree: Tree, negations: list[NegatedItem]) -> Tree:
    for negation in sorted(negations, key=lambda n: n.survival):
        tree = NegTop(tree, solve(negation.problem).tree)
    return tree


def _part(part: PatternPart) -> Iterator[Tree]:
    match part:
        case Single(alias):
            yield Leaf(alias)
        case GivenItem(given):
            yield Shared(given.name, given.aliases)
        case Disjunction(items):
            for parts in itertools.product(*(list(_part(item)) for item in items)):
                yield OrMerge(parts)
        case Conjunction(items):
            for leaves in itertools.product(*(list(_part(item)) for item in items)):
                yield from _unordered(leaves)
        case SequenceItem():
            yield from _chain(part)


def _unordered(leaves: tuple[Tree, ...]) -> Iterator[Tree]:
    if len(leaves) == 1:
        yield leaves[0]
        return
    first, rest = leaves[0], leaves[1:]
    for size in range(len(rest)):
        for some in itertools.combinations(rest, size):
            others = tuple(leaf for leaf in rest if leaf not in some)
            for left in _unordered((first, *some)):
                for right in _unordered(others):
                    yield AndJoin(left, right)


def _chain(chain: SequenceItem) -> Iterator[Tree]:
    negations = [(i, n) for i, gap in enumerate(chain.gaps) for n in gap.negations]
    ways = [
        ["filter", *(["before"] * n.push_left), *(["after"] * n.push_right)] for _, n in negations
    ]
    leaves = [[None] if isinstance(item, Edge) else list(_part(item)) for item in chain.items]
    for hows in itertools.product(*ways):
        for chosen in itertools.product(*leaves):
            items = list(chosen)
            filters = []
            for (gap, negation), how in zip(negations, hows, strict=True):
                inner = solve(negation.problem).tree
                if how == "filter":
                    filters.append(negation)
                elif how == "before":
                    items[gap] = NSeq(items[gap], inner, "right")
                else:
                    items[gap + 1] = NSeq(items[gap + 1], inner, "left")
            yield from (t for t in _bracketed(chain, items, 0, len(items) - 1, filters) if t)


def _bracketed(
    chain: SequenceItem, items: list[Tree | None], a: int, b: int, filters: list[NegatedItem]
) -> Iterator[Tree | None]:
    if a == b:
        yield items[a]
        return
    for r in range(a + 1, b + 1):
        for left in _bracketed(chain, items, a, r - 1, filters):
            for right in _bracketed(chain, items, r, b, filters):
                groups = chain.gaps[r - 1].groups
                if groups:
                    tree: Tree = KSeq(left, tuple(g.closure for g in groups), right)
                else:
                    tree = SeqJoin(left, right)
                below = [bound(side) for side in (left, right) if side is not None]
                ready = [
                    n
                    for n in filters
                    if n.needs <= bound(tree) and not any(n.needs <= found for found in below)
                ]
                yield _filtered(tree, ready)
