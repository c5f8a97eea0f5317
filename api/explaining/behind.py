"""The events behind a row of a job, read again from the job's source."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from api.cli.workload_files import only_queries
from api.jobs.roots import Roots
from api.run_settings import OnError
from workloads.loading import load_workload

if TYPE_CHECKING:
    from engines.input.event_paths import EventPath
    from engines.why.behind import RowPlace


def behind_document(
    document: Mapping[str, Any],
    query: str,
    source: EventPath,
    row: RowPlace,
    on_error: OnError,
    roots: Sequence[str],
) -> dict[str, Any]:
    """The matches behind a row of a query of a plan's workload, over events under the roots."""
    from engines.input.batches import FileSource
    from engines.input.event_table import Faults
    from engines.why.behind import matches_behind

    Roots([Path(folder) for folder in roots]).check_source(source)
    workload = load_workload(document)
    is_chained = any(other.into for other in workload.queries)
    asked = workload if is_chained else only_queries(workload, [query])
    events = FileSource(source, workload.stream, Faults(on_error))
    bound = events.bind(asked)
    return matches_behind(events, replace(bound, queries=(bound.query(query),)), row)
