"""`/v1/jobs/{id}/why`: why a query of a job gives rows, or none."""

from __future__ import annotations

from typing import Annotated, Any
from typing import Literal as OneOf

from fastapi import APIRouter, Query
from fastapi.responses import PlainTextResponse, Response

from api.explaining.service import why_document
from api.http.problems import ProblemError, responses
from api.http.routes.state import computing, handed, jobs, roots, store
from api.http.why_schemas import WhyOut
from api.jobs.queue import Jobs
from api.jobs.roots import Roots
from api.planning.process_pool import ProcessPool, TooLongError, TooMuchMemoryError
from api.store import Store
from engines.why.explain import QuestionError
from engines.why.text import render_why

router = APIRouter(prefix="/v1/jobs", tags=["jobs"])

_TEXT: dict[int | str, dict[str, Any]] = {
    200: {"content": {"text/plain": {"example": "q gives no row: the nearest miss fails at …"}}}
}


@router.get(
    "/{id}/why",
    response_model=WhyOut,
    responses={
        **responses(
            "not-found",
            "invalid-request",
            "path-not-allowed",
            "source-not-found",
            "planning-too-long",
            "planning-too-large",
            "busy",
            "not-implemented",
            "failed",
        ),
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
    job = jobs.records.get(id)
    document = store.plan(job.request.plan).document
    if query not in document["queries"]:
        raise ProblemError("not-found", f"the job {id} has no query '{query}'")
    if "://" in job.request.source:
        raise ProblemError(
            "invalid-request", "the events of a topic are not kept; ask over a file of them"
        )
    folders = [str(folder) for folder in roots.folders]
    on_error = job.request.options.on_error
    asked = (document["document"], query, job.request.source, at, key, on_error, folders)
    try:
        found = computing.call(why_document, *asked)
    except QuestionError as error:
        raise ProblemError("invalid-request", str(error)) from error
    except TooLongError as error:
        narrow = "it took too long (SHEAF_PLANNING_SECONDS); narrow it with at and key"
        raise ProblemError("planning-too-long", narrow) from error
    except TooMuchMemoryError as error:
        narrow = "it took too much memory (SHEAF_PLANNING_MEMORY); ask over fewer events"
        raise ProblemError("planning-too-large", narrow) from error
    if format == "text":
        return PlainTextResponse(render_why(found) + "\n")
    return Response(WhyOut(**found).model_dump_json(), media_type="application/json")
