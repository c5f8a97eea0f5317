"""The local engine: patterns as joins over columns of row numbers, on one machine.

`run.py` (`run_local`) goes through the queries; `plan.py` turns an OR-free pattern into steps;
`bind.py`, `bind_groups.py` and `negation.py` are the steps; `windows.py` and `tally.py` aggregate.
"""
