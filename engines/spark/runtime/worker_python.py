"""Which Python the workers of somebody else's session run."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SETTINGS = ("spark.pyspark.python", "spark.pyspark.driver.python")


def is_on_this_machine(session: SparkSession) -> bool:
    """Whether a session runs its tasks itself, beside this process."""
    from pyspark.sql import is_remote

    return not is_remote() and bool(
        re.fullmatch(r"local(\[.*\])?", session.sparkContext.master or "")
    )


@contextmanager
def own_python(session: SparkSession) -> Iterator[None]:
    """Functions that are made meanwhile run on the Python of this process.

    Spark takes the first `python3` on the PATH, which in a notebook often is one without our
    packages. Where a Python was named, or tasks run on other machines, that is left as it is.
    """
    if not is_on_this_machine(session) or "PYSPARK_PYTHON" in os.environ:
        yield
        return
    context = session.sparkContext
    if any(context.getConf().get(name) for name in _SETTINGS):
        yield
        return
    before, context.pythonExec = context.pythonExec, sys.executable
    try:
        yield
    finally:
        context.pythonExec = before
