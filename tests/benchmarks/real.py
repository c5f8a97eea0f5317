"""Recorded streams that some benchmarks run on, where there are any: none comes along."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

FOLDER = "SHEAF_BENCH_DATA"  # an environment variable


def real_events(name: str) -> tuple[pa.Table | None, str]:
    """The events of a file in the folder of recorded streams, or why there are none."""
    path, why = real_path(name)
    if path is None:
        return None, why
    return read_recorded(path), ""


def read_recorded(path: Path) -> pa.Table:
    """The rows of a recorded stream as they are stored."""
    import pyarrow.csv
    import pyarrow.parquet

    if path.suffix == ".parquet":
        return pyarrow.parquet.read_table(path)
    return pyarrow.csv.read_csv(path)


def real_path(name: str) -> tuple[Path | None, str]:
    """Where a recorded stream is, or why there is none."""
    folder = os.environ.get(FOLDER)
    if not folder:
        return None, f"no recorded streams: {FOLDER} names no folder with {name}"
    path = Path(folder) / name
    if not path.exists():
        return None, f"{path} does not exist ({FOLDER} names the folder)"
    return path, ""
