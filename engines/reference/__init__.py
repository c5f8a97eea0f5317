"""What a query means, by brute force: every other engine is tested against this one.

`meaning.py` enumerates the matches of a pattern in a window, `shape.py` says what needs no events,
`values.py` evaluates conditions, `rows.py` makes the rows of a workload. Nothing here is shared
with another engine beyond the IR.
"""

from engines.reference.rows import matches_of, run

__all__ = ["matches_of", "run"]
