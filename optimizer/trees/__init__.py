"""Trees of joins for queries that return matches: the best one, and what any one costs."""

from optimizer.trees.best import Costed, best_tree, cost_of, labels_of, steps_of
from optimizer.trees.printing import print_steps, print_tree
from optimizer.trees.problem import Given
from optimizer.trees.solved import Shape
from optimizer.trees.tree import (
    AndJoin,
    Closure,
    KSeq,
    Latest,
    Leaf,
    NegTop,
    NSeq,
    OrMerge,
    Passed,
    SeqJoin,
    Shared,
    Tree,
    TreeError,
)

__all__ = [
    "AndJoin",
    "Closure",
    "Costed",
    "Given",
    "KSeq",
    "Latest",
    "Leaf",
    "NSeq",
    "NegTop",
    "OrMerge",
    "Passed",
    "SeqJoin",
    "Shape",
    "Shared",
    "Tree",
    "TreeError",
    "best_tree",
    "cost_of",
    "labels_of",
    "print_steps",
    "print_tree",
    "steps_of",
]
