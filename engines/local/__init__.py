"""The local engine: patterns as joins over columns of row numbers, on one machine.

`run.py` goes through the queries; `plan.py` turns an OR-free pattern into steps; `bind.py`,
`bind_groups.py` and `negation.py` are the steps; `windows.py` and `tally.py` aggregate.
"""

from engines.local.run import run_local
from engines.local.scan import Limits

__all__ = ["Limits", "run_local"]
