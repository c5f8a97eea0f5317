"""Queries as trees of joins over buffers: compiled kernels, each common part computed once.

A plan has the operators; `choices.py` chooses trees where it leaves them to the events.
`evaluation.py` runs operators over the events of `picked.py`, `rows.py` makes result rows. `run.py`
puts them together; what does not fit into memory `engines.joins` takes.
"""

from engines.trees.run import tree_tables

__all__ = ["tree_tables"]
