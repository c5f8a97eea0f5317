"""`/pages/…`: what editors and forms ask for that no other call gives."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any, TypeVar

from fastapi import APIRouter, Query, Request
from fastapi.concurrency import run_in_threadpool

from api.editing.service import laid_out, suggestions
from api.editing.textmate import query_grammar
from api.http.problems import decoded, place_in_text
from api.http.routes.state import computing, handed, jobs, roots, settings, store
from api.jobs.queue import Jobs
from api.jobs.roots import Roots
from api.planning.process_pool import INLINE_BYTES
from api.planning.service import check_text
from api.store import Store, UnknownIdError
from api.store.workloads import workload_id
from optimizer.ir.pattern import events
from workloads.errors import Diagnostic, SheafError, WorkloadError

router = APIRouter(prefix="/pages")

T = TypeVar("T")

PACKED = (".csv.gz", ".csv.zst", ".jsonl.gz", ".jsonl.zst")
ENDINGS = (".parquet", ".csv", ".jsonl", ".json", ".ndjson", *PACKED)
MOST_FILES = 300
MOST_LOOKED_AT = 5_000  # entries of folders, so that a large tree does not hold anyone up
DEPTH = 4


def _latest_version(store: Store, name: str) -> int:
    """Of the workload that is stored under a name; 0 if none is."""
    try:
        return store.workload(workload_id(name)).latest
    except UnknownIdError:
        return 0


@router.post("/check")
async def check(request: Request, store: Annotated[Store, handed(store)]) -> dict[str, Any]:
    """Every mistake in a workload's text, at its line and column there; nothing is kept."""
    text = decoded(await request.body())
    try:
        bound, _ = await _worked_out(request, check_text, text, settings(request).max_queries)
    except WorkloadError as error:
        lines = text.splitlines()
        findings = [placed(found, lines) for found in error.diagnostics]
        findings.sort(key=lambda found: (found["line"] or 0, found["column"] or 0))
        return {"ok": False, "findings": findings}
    types = {event.symbol.type for query in bound.written for event in events(query.pattern)}
    return {
        "ok": True,
        "findings": [],
        "name": bound.name,
        "latest": await run_in_threadpool(_latest_version, store, bound.name),
        "queries": len(bound.written),
        "types": len(types),
    }


@router.post("/suggestions")
async def suggested(
    request: Request,
    roots: Annotated[Roots, handed(roots)],
    at: Annotated[int, Query(ge=0, le=10**8)],
    events: Annotated[str | None, Query(max_length=1_000)] = None,
) -> dict[str, Any]:
    """What may be written at a place of a workload's text; `events` are a sample's, for columns."""
    text = decoded(await request.body())
    if events is not None:
        try:
            roots.check_source(events)
        except SheafError:  # a name that is still being typed
            events = None
    return await _worked_out(request, suggestions, text, at, events)


@router.post("/layout")
async def layout(request: Request) -> dict[str, Any]:
    """What is to be replaced in a workload's text so that queries have a clause a line."""
    return await _worked_out(request, laid_out, decoded(await request.body()))


@router.get("/colours")
def colours() -> list[dict[str, str]]:
    """What to colour in a query: scopes, and the expressions for them."""
    patterns: list[dict[str, str]] = query_grammar()["patterns"]
    return patterns


async def _worked_out(request: Request, work: Callable[..., T], text: str, *more: Any) -> T:
    """In this process where the text is short, and in one that can be ended where it is long."""
    if len(text) <= INLINE_BYTES:
        return await run_in_threadpool(work, text, *more)
    return await run_in_threadpool(computing(request).call, work, text, *more)


def placed(found: Diagnostic, lines: list[str]) -> dict[str, Any]:
    """A finding with its line and column in the whole text, as far as they can be told."""
    line, column = place_in_text(found, lines)
    return {
        "message": found.message,
        "hint": found.hint,
        "query": found.query,
        "line": line,
        "column": column,
        "width": found.width,
    }


@router.get("/files")
def files(
    roots: Annotated[Roots, handed(roots)],
    under: Annotated[str, Query(max_length=1000)] = "",
) -> dict[str, Any]:
    """Files of events where sources may be, for a form to offer: the first of many."""
    found: list[str] = []
    for folder in roots.folders:
        for path in _walk(folder):
            shown = _shown(path)
            if under in shown:
                found.append(shown)
            if len(found) >= MOST_FILES:
                return {"files": found, "more": True}
    return {"files": found, "more": False}


def _walk(folder: Path) -> Iterator[Path]:
    """Files with events' endings, not far down, and none that are hidden."""
    looked = 0
    for place, folders, names in os.walk(folder):
        inside = Path(place)
        deep = len(inside.relative_to(folder).parts) >= DEPTH
        folders[:] = [] if deep else sorted(n for n in folders if not n.startswith((".", "_")))
        looked += len(names) + len(folders)
        for name in sorted(names):
            if name.endswith(ENDINGS) and not name.startswith("."):
                yield inside / name
        if looked > MOST_LOOKED_AT:
            return


def _shown(path: Path) -> str:
    """As a job takes it: relative to where the service was started, if it is there."""
    here = Path.cwd()
    return str(path.relative_to(here) if path.is_relative_to(here) else path)


@router.get("/jobs/{id}/measures")
def measures(
    id: str,
    jobs: Annotated[Jobs, handed(jobs)],
    after: Annotated[int, Query(ge=0, le=10**12)] = 0,
) -> dict[str, Any]:
    """What a job's process measured as it went on, behind the first so many bytes."""
    path = jobs.folder(jobs.records.get(id).id).measures
    if not path.exists():
        return {"measures": [], "next": after}
    with path.open("rb") as file:
        file.seek(after)
        text = file.read()
    whole = text[: text.rfind(b"\n") + 1]  # the last line may be half written
    return {
        "measures": [json.loads(line) for line in whole.splitlines()],
        "next": after + len(whole),
    }
