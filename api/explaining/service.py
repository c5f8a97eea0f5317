"""The explanation that the service asks for, in a process that can be ended."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from api.explaining.why import why
from api.jobs.roots import Roots
from api.run_settings import OnError
from engines.input.event_paths import EventPath
from workloads.loading import load_workload


def why_document(
    document: Mapping[str, Any],
    query: str,
    source: EventPath,
    at: str | None,
    key: str | None,
    on_error: OnError,
    roots: Sequence[str],
) -> dict[str, Any]:
    """Why a query of a plan's workload gives rows over events under the roots, or none."""
    Roots([Path(folder) for folder in roots]).check_source(source)
    return why(load_workload(document), query, source, at, key, on_error)
