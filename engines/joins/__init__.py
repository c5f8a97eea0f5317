"""Queries as joins over columns of row numbers: their matches are constructed.

`plan.py` turns an OR-free pattern into steps; `bind.py`, `bind_groups.py` and `negation.py` are the
steps; `matches.py` makes result rows; `windows.py` and `tally.py` aggregate.
"""
