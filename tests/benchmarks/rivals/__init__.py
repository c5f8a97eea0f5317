"""Other engines' ways to find matches, over the same events: for benchmarks, not for use.

`outline.py` says what they take and numbers it, `ways.py` runs the kernels of
`tests.benchmarks.rivals.kernels`, and `rows.py` gives result rows, as the tree engine does.
"""

from tests.benchmarks.rivals.outline import Way, refusal
from tests.benchmarks.rivals.rows import baseline_rows
from tests.benchmarks.rivals.ways import Matches, find

__all__ = ["Matches", "Way", "baseline_rows", "find", "refusal"]
