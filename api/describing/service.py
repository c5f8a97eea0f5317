"""The description of events that the service and the command line give."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from api.describing.columns import profile_events
from api.describing.first_workload import first_workload
from api.jobs.roots import Roots


def describe_events(path: str) -> dict[str, Any]:
    """Columns of stored events with their kinds, values and roles, and a first workload."""
    profile = profile_events(path)
    first = first_workload(profile, workload_name(path))
    roles = {first.time: "time", first.type: "type", first.key: "key", first.number: "number"}
    return {
        "path": path,
        "files": profile.files,
        "rows": profile.table.num_rows,
        "whole": profile.is_whole,
        "from": first.first,
        "to": first.last,
        "columns": [
            {
                "name": column.name,
                "kind": column.declared,
                "stored": column.stored,
                "role": roles.get(column.name),
                "nulls": column.nulls,
                "distinct": column.distinct,
                "examples": list(column.examples),
                "least": column.least,
                "most": column.most,
            }
            for column in profile.columns
        ],
        "notes": list(first.notes),
        "workload": first.text,
    }


def describe_under(path: str, roots: Sequence[str]) -> dict[str, Any]:
    """`describe_events` of events that lie under the roots."""
    Roots([Path(folder) for folder in roots]).check_source(path)
    return describe_events(path)


def workload_name(path: str) -> str:
    """A name for the workload over a file: the file's own, in letters that are easily typed."""
    stem = re.sub(r"^[0-9a-f]{12}-", "", Path(path).name).split(".")[0]  # an upload has a digest
    return re.sub(r"\W+", "_", stem.removeprefix("_")).strip("_") or "my_workload"
