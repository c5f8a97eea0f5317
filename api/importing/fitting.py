"""Which rules the events at hand do not fit: those that compare what cannot be compared."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from api.importing.imported import ImportedWorkload, Refused
from optimizer.bind.binder import bind
from workloads.errors import Diagnostic, WorkloadError
from workloads.loading import load_workload
from workloads.workload import AttributeKind, to_document


def fitting(found: ImportedWorkload, columns: Mapping[str, AttributeKind]) -> ImportedWorkload:
    """The workload without the rules that no events with these columns can be asked.

    One of them would end a run of all. What others read of its rows goes with it.
    """
    workload = load_workload(found.document)
    refused: dict[str, Diagnostic] = {}
    while workload.queries:
        try:
            bind(workload, columns)
        except WorkloadError as error:
            wrong = {each.query: each for each in error.diagnostics if each.query is not None}
            kept = tuple(query for query in workload.queries if query.name not in wrong)
            if len(kept) == len(workload.queries):
                raise
            refused = {**wrong, **refused}
            workload = replace(workload, queries=kept, places=())
        else:
            break
    if not refused:
        return found
    return replace(
        found,
        document=to_document(workload),
        refused=(*found.refused, *(Refused(name, one.message) for name, one in refused.items())),
    )
