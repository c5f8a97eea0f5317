"""Other engines' ways to find matches, over the same events: for benchmarks, not for use.

`outline.py` says what they take and numbers it, `ways.py` runs the kernels of
`kernels.baselines`, and `rows.py` gives result rows, as the tree engine does.
"""

from engines.baselines.outline import Way, refusal
from engines.baselines.rows import baseline_rows
from engines.baselines.ways import Matches, find

__all__ = ["Matches", "Way", "baseline_rows", "find", "refusal"]
