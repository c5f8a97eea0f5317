"""What the shell offers to complete an argument with: workloads, plans and jobs.

It is asked at every press of the key, so that nothing slow is imported, and no service started.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import Annotated, Any
from typing import Literal as OneOf

import typer

MAX_OFFERED = 50  # ids, the latest first
TIMEOUT_SECONDS = 1.0  # for a service to answer
ENDINGS = (".yaml", ".yml", ".json")


def bundled_names(incomplete: str) -> list[str]:
    """Bundled workloads whose names begin so."""
    import workloads

    folder = Path(workloads.__file__).parent / "bundled"
    return sorted(p.stem for p in folder.glob("*.yaml") if p.stem.startswith(incomplete))


def workload_names(incomplete: str) -> list[str]:
    """Bundled workloads, files that can be workloads, and folders, whose names begin so."""
    parent, _, start = incomplete.rpartition("/")
    prefix = f"{parent}/" if "/" in incomplete else ""
    found = []
    with suppress(OSError):
        for path in sorted(Path(prefix or ".").iterdir()):
            if not path.name.startswith(start) or (path.name.startswith(".") and not start):
                continue
            if path.is_dir():
                found.append(f"{prefix}{path.name}/")
            elif path.suffix in ENDINGS:
                found.append(f"{prefix}{path.name}")
    return [*bundled_names(incomplete), *found]


def plan_ids(incomplete: str) -> list[str]:
    """Ids of plans that a service keeps, the latest first."""
    return _ids("plans", incomplete)


def job_ids(incomplete: str) -> list[str]:
    """Ids of jobs that a service keeps, the latest first."""
    return _ids("jobs", incomplete)


def _ids(kind: OneOf["plans", "jobs"], incomplete: str) -> list[str]:
    server = os.environ.get("SHEAF_SERVER")
    read: Callable[[], list[str]] = (
        (lambda: _from_service(server, kind)) if server else (lambda: _from_store(kind))
    )
    try:
        return [id for id in read() if id.startswith(incomplete)][:MAX_OFFERED]
    except Exception:  # there is nothing to offer, and nobody to tell why
        return []


def _from_store(kind: str) -> list[str]:
    """From the file that a service without a database of its own keeps."""
    import sqlite3

    home = os.environ.get("XDG_DATA_HOME") or str(Path.home() / ".local" / "share")
    file = Path(os.environ.get("SHEAF_DATA") or Path(home, "sheaf")) / "sheaf.db"
    with closing(sqlite3.connect(f"{file.absolute().as_uri()}?mode=ro", uri=True)) as store:
        found = store.execute(f"SELECT id FROM {kind} ORDER BY number DESC LIMIT 1000")
        return [str(id) for (id,) in found]


def _from_service(server: str, kind: str) -> list[str]:
    from urllib.request import Request, urlopen

    token = os.environ.get("SHEAF_TOKEN")
    headers = {"authorization": f"Bearer {token}"} if token else {}
    request = Request(f"{server.rstrip('/')}/v1/{kind}", headers=headers)
    with urlopen(request, timeout=TIMEOUT_SECONDS) as answer:
        found: list[dict[str, Any]] = json.load(answer)
    return [str(one["id"]) for one in reversed(found)]


WorkloadName = Annotated[
    str,
    typer.Argument(metavar="WORKLOAD", help="File or name.", autocompletion=workload_names),
]
WorkloadNames = Annotated[
    list[str],
    typer.Argument(metavar="WORKLOAD", help="File or name.", autocompletion=workload_names),
]
PlanId = Annotated[
    str,
    typer.Argument(
        metavar="PLAN", help="The id of a plan, as the service has it.", autocompletion=plan_ids
    ),
]
JobId = Annotated[
    str,
    typer.Argument(metavar="JOB", help="The id that the service gave it.", autocompletion=job_ids),
]
