"""Plans as Spark jobs."""

import sys
from importlib.util import find_spec

# A worker of Spark comes here first, with whichever Python its session took.
if _missing := [name for name in ("numpy", "pyarrow", "numba") if find_spec(name) is None]:
    raise ModuleNotFoundError(
        f"the Python that Spark's workers run, {sys.executable}, has no {', '.join(_missing)}: "
        "before the session starts, set PYSPARK_PYTHON to a Python in which sheaf is installed, "
        "such as sys.executable of your own program"
    )
