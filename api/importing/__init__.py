"""Rules and queries in other languages, as workloads: a reader for each format.

Another format is another module here and a line in `FORMATS`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from api.importing.imported import ImportedWorkload, ImportOptions
from api.importing.rules import read_eql, read_sigma
from api.importing.sql import read_sql

Reader = Callable[[Sequence[Path], ImportOptions], ImportedWorkload]
FORMATS: Mapping[str, Reader] = {"sql": read_sql, "sigma": read_sigma, "eql": read_eql}

__all__ = ["FORMATS", "ImportOptions", "ImportedWorkload", "Reader"]
