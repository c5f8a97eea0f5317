"""Trees of joins for queries that return matches: the best one, and what any one costs."""

from optimizer.trees.printing import print_steps, print_tree
from optimizer.trees.problem import GivenFragment, Shape
from optimizer.trees.search import CostedTree, best_tree, cost_of, labels_of, steps_of
from optimizer.trees.tree import (
    AndJoin,
    Closure,
    KSeq,
    Latest,
    Leaf,
    Marked,
    Narrowed,
    NegTop,
    NSeq,
    OrMerge,
    Passed,
    SeqJoin,
    Shared,
    Taken,
    Tree,
    TreeError,
    Walk,
)

__all__ = [
    "AndJoin",
    "Closure",
    "CostedTree",
    "GivenFragment",
    "KSeq",
    "Latest",
    "Leaf",
    "Marked",
    "NSeq",
    "Narrowed",
    "NegTop",
    "OrMerge",
    "Passed",
    "SeqJoin",
    "Shape",
    "Shared",
    "Taken",
    "Tree",
    "TreeError",
    "Walk",
    "best_tree",
    "cost_of",
    "labels_of",
    "print_steps",
    "print_tree",
    "steps_of",
]
