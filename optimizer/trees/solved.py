"""What a search gives back, and which trees it looks at."""

from __future__ import annotations

from typing import Literal as OneOf
from typing import NamedTuple

from optimizer.trees.tree import Leaf, Tree

Shape = OneOf["bushy", "left", "right", "worst"]
CLOSE = 1 - 1e-12  # what is cheaper by less than rounding is not cheaper


class Solved(NamedTuple):
    """A tree with its cost; `exact` where no other tree of its shape is better."""

    tree: Tree
    cost: float
    exact: bool = True


NOTHING = Solved(Leaf(""), 0.0)  # in the place of an edge, which has no tree
