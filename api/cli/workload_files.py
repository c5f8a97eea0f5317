"""What a WORKLOAD on the command line is: a file's path, or the name of a bundled workload."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from workloads import bundled
from workloads.errors import SheafError, WorkloadError, did_you_mean
from workloads.loading import parse_document, read_workload
from workloads.workload import Workload

if TYPE_CHECKING:
    from optimizer.ir.query import BoundWorkload


def find_workload(given: str) -> Path:
    """The workload's file; a file of that name goes before a bundled workload."""
    path = Path(given)
    if path.is_file():
        return path
    if path.is_dir():
        raise SheafError(f"'{given}' is a folder, not a workload file")
    if given in bundled.names():
        return bundled.path(given)
    raise SheafError(
        f"there is no file '{given}', and no bundled workload of that name; "
        f"bundled are {', '.join(bundled.names())}"
    )


def open_workload(given: str) -> tuple[Workload, BoundWorkload]:
    """The workload, parsed and bound; raises `WorkloadError` with every finding of both."""
    from optimizer.bind.binder import bind

    workload, findings = read_workload(find_workload(given))
    if workload is None:
        raise WorkloadError(findings)
    return workload, bind(workload, None, findings)


def workload_of_text(text: str) -> Workload:
    """The workload that is written in YAML or JSON; raises `WorkloadError` with every finding."""
    from optimizer.bind.binder import bind

    workload, findings = parse_document(text)
    if workload is None:
        raise WorkloadError(findings)
    bind(workload, None, findings)
    return workload


def _with_title(workload: Workload, title: str) -> str | None:
    """The only query of a rule with this title, where no query is called so."""
    from api.explaining.alerts import said_of

    if any(query.name == title for query in workload.queries):
        return title
    found = [query.name for query in workload.queries if said_of(query)["title"] == title]
    return found[0] if len(found) == 1 else None


def only_queries(workload: Workload, names: Sequence[str]) -> Workload:
    """The workload with the queries of these names, in its own order; all of them without any.

    A rule may be called by its title too, where no other has it.
    """
    if not names:
        return workload
    known = [query.name or "" for query in workload.queries]
    names = [_with_title(workload, name) or name for name in names]
    for name in names:
        if name not in known:
            listed = ", ".join(known[:12]) + (", …" if len(known) > 12 else "")
            hint = did_you_mean(name, known) or f"it has {listed}"
            raise SheafError(f"{workload.name} has no query '{name}'; {hint}")
    kept = [number for number, name in enumerate(known) if name in names]
    places = workload.places
    return replace(
        workload,
        queries=tuple(workload.queries[number] for number in kept),
        places=tuple(places[number] for number in kept) if places else (),
    )
