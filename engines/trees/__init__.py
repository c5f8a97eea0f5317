"""Queries as trees of joins over buffers: compiled kernels, each common part computed once.

`planning.py` chooses a tree, `compile.py` makes operators of it, `evaluation.py` runs them over the
events of `picked.py`, `rows.py` makes result rows. `run.py` puts them together; what it refuses
`engines.joins` takes.
"""

from engines.trees.run import tree_tables
from optimizer.trees.refusal import refusal

__all__ = ["refusal", "tree_tables"]
