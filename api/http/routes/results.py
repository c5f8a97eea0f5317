"""`/v1/jobs/{id}/results` and `/events`: what a job found, and the job as it happens."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator
from typing import Annotated, Any
from typing import Literal as OneOf

from fastapi import APIRouter, Depends, Header, Query, Request
from fastapi.responses import Response, StreamingResponse
from fastapi.sse import EventSourceResponse, ServerSentEvent

from api.http.event_stream import follow
from api.http.formats import MEDIA_TYPES, Format, accepted, encoded
from api.http.middleware.etags import etag_of, is_known
from api.http.problems import ProblemError, responses
from api.http.routes.state import handed, jobs, store
from api.http.row_schemas import ResultsOut
from api.http.views import results_out
from api.jobs.model import Job, RowKind
from api.jobs.queue import Jobs
from api.jobs.row_selection import KeyFilter, RowSelection, Sort, TooDeepError
from api.jobs.rows import Rows
from api.store import Store

router = APIRouter(prefix="/v1/jobs", tags=["jobs"])

MAX_ROWS = 100_000  # of a page of JSON
USUAL_ROWS = 10_000
MAX_OFFSET = 10**15

_BINARY = {"schema": {"type": "string", "format": "binary"}}
_FORMATS: dict[int | str, dict[str, Any]] = {
    200: {"content": {MEDIA_TYPES["csv"]: {"schema": {"type": "string"}}}}
}
_FORMATS[200]["content"] |= {MEDIA_TYPES[name]: _BINARY for name in ("parquet", "arrow")}
_EVENTS: dict[int | str, dict[str, Any]] = {
    200: {
        "content": {
            "text/event-stream": {
                "schema": {"type": "string"},
                "example": 'id: 2\nevent: status\ndata: {"status":"running","stage":"run"}\n\n',
            }
        }
    }
}


@router.get(
    "/{id}/results",
    response_model=ResultsOut,
    responses={
        **responses("not-found", "results-not-ready", "not-acceptable", "invalid-request"),
        **_FORMATS,
    },
)
def get_results(
    id: str,
    request: Request,
    jobs: Annotated[Jobs, handed(jobs)],
    store: Annotated[Store, handed(store)],
    query: Annotated[str | None, Query(description="Only rows of this query.")] = None,
    kind: Annotated[
        RowKind | None, Query(description="Which rows, in formats that hold one kind.")
    ] = None,
    format: Annotated[Format | None, Query(description="In place of the Accept header.")] = None,
    offset: Annotated[int, Query(ge=0, le=MAX_OFFSET)] = 0,
    limit: Annotated[
        int | None,
        Query(ge=0, le=MAX_OFFSET, description="10,000 in JSON, and no more than 100,000."),
    ] = None,
    key: Annotated[
        str | None,
        Query(
            max_length=10_000,
            description="Only rows of keys with this value, or with those of an object: `u1`, "
            '`{"user": "u1"}`.',
        ),
    ] = None,
    sort: Annotated[
        Sort,
        Query(
            description="`place`: by query, key and time, those of a stream as they came; `value`: "
            "aggregates by their value, and matches by time. In JSON."
        ),
    ] = "place",
    order: Annotated[
        OneOf["asc", "desc"], Query(description="`desc`: from the last to the first. In JSON.")
    ] = "asc",
    accept: Annotated[str, Header()] = "*/*",
) -> ResultsOut | Response:
    """What a job found: a page of JSON, or all in another format."""
    job = jobs.records.get(id)
    found = jobs.rows(job)
    if found is None:
        why = f": {job.reason}" if job.reason else ""
        raise ProblemError("results-not-ready", f"the job is {job.status}{why}")
    if query is not None and not _was_run(query, job, found, jobs, store):
        raise ProblemError("not-found", f"the plan has no query '{query}', and had none")
    filter = None if key is None else KeyFilter(key)
    chosen = format or accepted(accept)
    if chosen is None:
        raise ProblemError("not-acceptable", f"there are {', '.join(MEDIA_TYPES.values())}")
    if chosen == "json":
        if limit is not None and limit > MAX_ROWS:
            raise ProblemError("invalid-request", f"limit: a page has at most {MAX_ROWS:,} rows")
        size = USUAL_ROWS if limit is None else limit
        selected = RowSelection(query, filter, sort, order == "desc")
        try:
            return results_out(job, found, selected, offset, size)
        except TooDeepError as error:
            raise ProblemError("invalid-request", f"offset: {error}") from error
        except FileNotFoundError as error:
            raise _deleted(id) from error
    if (sort, order) != ("place", "asc"):
        raise ProblemError(
            "invalid-request", "sort, order: they are for pages of JSON; files are as rows lie"
        )
    rows = kind or _kind(found, query)
    total = found.total(rows, query)
    first = min(offset, total)
    last = total if limit is None else min(first + limit, total)
    # Rows never change, those of a stream only become more: what is asked for names them.
    named = json.dumps([id, rows, query, key, first, last, chosen])
    etag = etag_of(named.encode())
    if is_known(etag, request.headers):
        return Response(status_code=304, headers={"etag": etag})
    all_rows = query is None and key is None and (first, last) == (0, total)
    try:
        schema = found.schema(rows)
    except FileNotFoundError as error:
        raise _deleted(id) from error
    pieces = encoded(
        schema,
        RowSelection(query, filter).pieces(found, rows, first, last),
        chosen,
        found.whole(rows) if all_rows else None,
    )
    # A job's id, a query's name: what could do harm in a header is left out.
    name = re.sub(r"[^\w.-]+", "-", f"{id}.{query or rows}.{chosen}", flags=re.ASCII)
    headers = {"content-disposition": f'attachment; filename="{name}"', "etag": etag}
    return StreamingResponse(pieces, media_type=MEDIA_TYPES[chosen], headers=headers)


def _deleted(id: str) -> ProblemError:
    return ProblemError("not-found", f"the job {id} was deleted in the meantime")


def _was_run(query: str, job: Job, found: Rows, jobs: Jobs, store: Store) -> bool:
    """Whether the job runs a query, or did: a stream's plan may have lost it since."""
    if query in store.plan(job.request.plan).document["queries"]:
        return True
    if job.request.live is None:
        return False
    told = jobs.records.events(job.id)
    return bool(found.kinds(query)) or any(query in e.data.get("removed", ()) for e in told)


def _kind(found: Rows, query: str | None) -> RowKind:
    """The kind of rows where only one can be meant."""
    match found.kinds(query):
        case ["matches"]:
            return "matches"
        case ["aggregates"] | []:
            return "aggregates"
        case _:
            raise ProblemError(
                "invalid-request",
                "the job has aggregates and matches, which have different columns; "
                "say which with kind=aggregates or kind=matches",
            )


def _known(id: str, jobs: Annotated[Jobs, handed(jobs)]) -> None:
    """Refuse a job that is not there, while an answer can still say so."""
    jobs.records.get(id)


@router.get(
    "/{id}/events",
    response_class=EventSourceResponse,
    dependencies=[Depends(_known)],
    responses={**responses("not-found"), **_EVENTS},
)
async def get_events(
    id: str,
    request: Request,
    jobs: Annotated[Jobs, handed(jobs)],
    rows: Annotated[bool, Query(description="Whether rows are sent.")] = True,
    last_event_id: Annotated[
        str | None, Header(description="Go on behind the event of this id.")
    ] = None,
) -> AsyncIterator[ServerSentEvent]:
    """The job as it happens: `status`, `progress`, then `aggregates`, `matches`, and `end`.

    The rows of a stream come with its batches.
    """
    async for event in follow(jobs, id, last_event_id, rows, request.app.state.closing.is_set):
        yield event
