"""`/v1/jobs/{id}/why` and `/behind`: why a query gives rows, or none; the events of a row."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Annotated, Any
from typing import Literal as OneOf

from fastapi import APIRouter, Query
from fastapi.responses import PlainTextResponse, Response

from api.explaining.behind import behind_document
from api.explaining.service import why_document
from api.http.problems import ProblemError, responses
from api.http.routes.state import computing, handed, jobs, roots, store
from api.http.why_schemas import BehindOut, WhyOut
from api.jobs.queue import Jobs
from api.jobs.roots import Roots
from api.planning.process_pool import ProcessPool, TooLongError, TooMuchMemoryError
from api.run_settings import OnError
from api.store import Store
from engines.input.event_paths import CONNECTION, EventPath, each_path
from engines.why.behind import RowPlace
from engines.why.explain import QuestionError
from engines.why.text import render_why

router = APIRouter(prefix="/v1/jobs", tags=["jobs"])

_REFUSED = responses(
    *("not-found", "invalid-request", "path-not-allowed", "source-not-found"),
    *("planning-too-long", "planning-too-large", "busy", "not-implemented", "failed"),
)

_TEXT: dict[int | str, dict[str, Any]] = {
    200: {"content": {"text/plain": {"example": "q gives no row: the nearest miss fails at …"}}}
}


@router.get(
    "/{id}/why",
    response_model=WhyOut,
    responses={
        **_REFUSED,
        **_TEXT,
    },
)
def get_why(
    id: str,
    query: Annotated[str, Query(max_length=1_000, description="A query of the job's plan.")],
    store: Annotated[Store, handed(store)],
    jobs: Annotated[Jobs, handed(jobs)],
    roots: Annotated[Roots, handed(roots)],
    computing: Annotated[ProcessPool, handed(computing)],
    at: Annotated[
        str | None,
        Query(max_length=100, description="A time of the stream that the question is about."),
    ] = None,
    key: Annotated[
        str | None,
        Query(max_length=10_000, description='A key: `u1`, `a=1,b=2`, or `{"user": "u1"}`.'),
    ] = None,
    format: Annotated[
        OneOf["json", "text"], Query(description="As people read it: text.")
    ] = "json",
) -> Response:
    """Why a query gives rows over the job's events, or where the nearest miss fails.

    The events are read again. What is missing is looked for among some of them, and the answer
    says where that was bounded: `at` and `key` narrow it.
    """
    asked, on_error = _asked(id, query, store, jobs)
    folders = [str(folder) for folder in roots.folders]
    found = _computed(computing, why_document, *asked, at, key, on_error, folders)
    if format == "text":
        return PlainTextResponse(render_why(found) + "\n")
    return Response(WhyOut(**found).model_dump_json(), media_type="application/json")


@router.get("/{id}/behind", response_model=BehindOut, responses=_REFUSED)
def get_behind(
    id: str,
    query: Annotated[str, Query(max_length=1_000, description="A query of the job's plan.")],
    time: Annotated[str, Query(max_length=100, description="That of the row.")],
    store: Annotated[Store, handed(store)],
    jobs: Annotated[Jobs, handed(jobs)],
    roots: Annotated[Roots, handed(roots)],
    computing: Annotated[ProcessPool, handed(computing)],
    seq: Annotated[int | None, Query(description="The row's, where it has one.")] = None,
    key: Annotated[str | None, Query(max_length=10_000, description="Its key, as JSON.")] = None,
    start: Annotated[str | None, Query(max_length=100, description="Of a match's row.")] = None,
    end: Annotated[str | None, Query(max_length=100, description="Of a match's row.")] = None,
    match: Annotated[
        str | None,
        Query(max_length=10_000, description="Of a match's row, as JSON; tells matches apart."),
    ] = None,
) -> Response:
    """The events behind a row: of a match those that it binds, of an aggregate a bounded sample
    of its matches.

    The events around the row are read again.
    """
    (document, _, source), on_error = _asked(id, query, store, jobs)
    row = RowPlace(time, seq, _object("key", key), start, end, _object("match", match))
    folders = [str(folder) for folder in roots.folders]
    asked = (document, query, source, row, on_error, folders)
    found = _computed(computing, behind_document, *asked)
    return Response(BehindOut(**found).model_dump_json(), media_type="application/json")


def _asked(
    id: str, query: str, store: Store, jobs: Jobs
) -> tuple[tuple[Mapping[str, Any], str, EventPath], OnError]:
    """The workload of a job's plan, a query of it, the job's source, and how that is read."""
    job = jobs.records.get(id)
    document = store.plan(job.request.plan).document
    if query not in document["queries"]:
        raise ProblemError("not-found", f"the job {id} has no query '{query}'")
    if any(path.startswith(CONNECTION) or "://" in path for path in each_path(job.request.source)):
        raise ProblemError(
            "invalid-request", "only events in files are read again; ask over a file of them"
        )
    return (document["document"], query, job.request.source), job.request.options.on_error


def _computed(
    computing: ProcessPool, work: Callable[..., dict[str, Any]], *arguments: Any
) -> dict[str, Any]:
    try:
        return computing.call(work, *arguments)
    except QuestionError as error:
        raise ProblemError("invalid-request", str(error)) from error
    except TooLongError as error:
        narrow = "it took too long (SHEAF_PLANNING_SECONDS); narrow it with at and key"
        raise ProblemError("planning-too-long", narrow) from error
    except TooMuchMemoryError as error:
        narrow = "it took too much memory (SHEAF_PLANNING_MEMORY); ask over fewer events"
        raise ProblemError("planning-too-large", narrow) from error


def _object(name: str, text: str | None) -> dict[str, Any] | None:
    """A parameter that is an object, as JSON."""
    if text is None:
        return None
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ProblemError("invalid-request", f"{name}: it is no JSON") from error
    if found is not None and not isinstance(found, dict):
        raise ProblemError("invalid-request", f"{name}: it is no object")
    return found
