"""Which rules the events at hand do not fit: those that compare what cannot be compared."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from api.importing.imported import ImportedWorkload, Refused
from optimizer.bind.binder import bind
from workloads.loading import load_workload
from workloads.workload import AttributeKind, to_document


def fitting(found: ImportedWorkload, columns: Mapping[str, AttributeKind]) -> ImportedWorkload:
    """The workload without the rules that no events with these columns can be asked.

    What others read of its rows goes with it.
    """
    workload = load_workload(found.document)
    bound = bind(workload, columns)
    if not bound.refused:
        return found
    left_out = {rule.name for rule in bound.refused}
    kept = tuple(query for query in workload.queries if query.name not in left_out)
    refused = (Refused(rule.name, rule.reason) for rule in bound.refused)
    document = to_document(replace(workload, queries=kept, places=()))
    return replace(found, document=document, refused=(*found.refused, *refused))
