"""Matches constructed one component after the other, as joins over columns of row numbers.

`plan` turns an OR-free pattern into steps; `steps`, `bind` and `negation` are the steps; `matches`
makes result rows.
"""
