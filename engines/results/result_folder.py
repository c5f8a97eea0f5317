"""Folders of results: a later run may take the place of one, and of no other folder."""

from __future__ import annotations

import re
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from engines.limits import ResultsError
from engines.results.chunks import ROW_KINDS

_PART = re.compile(r"part-\d{5}\.(parquet|arrow|csv|jsonl)")


def check_replaceable(folder: Path) -> None:
    """Refuse a folder with anything but results in it, all of which a run would delete.

    Such as events, the files of a table of Delta, or whatever else somebody keeps there.
    """
    looked_into: set[Path] = set()
    for path in folder.rglob("*"):
        if path.is_dir() and path.parent == folder and path.name in ROW_KINDS:
            continue
        is_part = path.is_file() and _PART.fullmatch(path.name) is not None
        if is_part and (path.parent in looked_into or _has_rows(path)):
            looked_into.add(path.parent)
            continue
        raise ResultsError(
            f"'{folder}' is there already, with '{path.relative_to(folder)}', which is no file of "
            "results: they would take the place of all that is in it; name another folder"
        )


def _has_rows(path: Path) -> bool:
    """Whether a file has rows of results, which say first of all which query they are of."""
    try:
        if path.suffix == ".parquet":
            return "query" in pq.read_schema(path).names
        if path.suffix == ".arrow":
            with pa.OSFile(str(path)) as file:
                return "query" in pa.ipc.open_file(file).schema.names
        with path.open("rb") as file:
            begin = file.read(8)
        return not begin or begin.lstrip(b'{"').startswith(b"query")
    except (pa.ArrowException, OSError):
        return False
