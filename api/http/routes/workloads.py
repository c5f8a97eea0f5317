"""`/v1/workloads`: post a workload, look at it, plan it."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from typing import Annotated, Any
from typing import Literal as OneOf

import yaml
from fastapi import APIRouter, Header, Query, Request, Response
from fastapi.concurrency import run_in_threadpool

from api.http.metrics import Metrics
from api.http.problems import ProblemError, decoded, invalid_workload, responses
from api.http.routes.paging import LINK, Cursor, Limit, Order, listed
from api.http.routes.state import (
    computing,
    handed,
    metrics,
    remembered,
    roots,
    settings,
    store,
    tasks,
)
from api.http.schemas import (
    EXAMPLE_WORKLOAD,
    ExplainOut,
    PlanIn,
    PlanOut,
    RefusedRuleOut,
    TaskOut,
    WorkloadOut,
    WorkloadSummary,
)
from api.http.views import (
    plan_body,
    task_out,
    workload_body,
    workload_out,
    workload_summary,
)
from api.http.yaml_text import text_of
from api.jobs.roots import Roots
from api.planning.process_pool import INLINE_BYTES, CancelToken, ProcessPool
from api.planning.service import (
    SEARCH_SHARE,
    CheckedWorkload,
    check_archive,
    check_document,
    check_text,
    explain_bound,
    explain_document,
    plan_document,
)
from api.store import Store, StoredPlan, StoredWorkload
from engines.calibration.machine_costs import known
from workloads.errors import WorkloadError
from workloads.imported_rules import RefusedRule
from workloads.notations import notation_of

router = APIRouter(prefix="/v1/workloads", tags=["workloads"])

JSON_TYPES = ("application/json", "text/json")
YAML_TYPES = ("application/yaml", "application/x-yaml", "text/yaml", "text/x-yaml")

SQL_TYPES = ("application/sql", "application/x-sql", "text/sql", "text/x-sql")

ARCHIVE_TYPES = (
    *("application/zip", "application/x-zip-compressed", "application/gzip"),
    *("application/x-gzip", "application/x-tar+gzip"),
)

_SCHEMA = {"type": "object", "required": ["stream"]}
_BYTES = {"type": "string", "format": "binary"}
_BODY = {
    "requestBody": {
        "required": True,
        "description": "A workload document: name, stream, statistics, queries, rules; or a zip or "
        "tar.gz of it and the files of rules that it names; or statements of SQL, which `;` "
        "separates.",
        "content": {
            "application/json": {"schema": _SCHEMA, "example": EXAMPLE_WORKLOAD},
            "application/yaml": {
                "schema": _SCHEMA,
                "example": yaml.safe_dump(EXAMPLE_WORKLOAD, sort_keys=False),
            },
            "application/sql": {"schema": {"type": "string"}},
            "application/zip": {"schema": _BYTES},
            "application/gzip": {"schema": _BYTES},
        },
    }
}


_REFUSALS = (
    "invalid-json",
    "invalid-encoding",
    "invalid-archive",
    "too-large",
    "unsupported-media-type",
    "invalid-workload",
)
_AS_YAML: dict[int | str, dict[str, Any]] = {
    200: {"content": {"application/yaml": {"schema": {"type": "object"}}}}
}

ASYNC = re.compile(r"(^|[,\s])respond-async\b")

NameIn = Annotated[
    str,
    Query(min_length=1, max_length=200, description="The name of a workload in SQL."),
]
VersionIn = Annotated[int | None, Query(ge=1, le=10**9, description="By default the latest.")]


@router.post(
    "",
    status_code=201,
    response_model=WorkloadOut,
    openapi_extra=_BODY,
    responses=responses(*_REFUSALS),
)
async def post_workload(
    request: Request, store: Annotated[Store, handed(store)], name: NameIn = "workload"
) -> Response:
    """Check a workload and keep it; all of its errors are reported together.

    A changed workload of the same name is a new version of it.
    """
    (bound, document), text = await _checked(request, name)
    stored = await run_in_threadpool(store.add_workload, bound, document, text)
    headers = {"location": f"/v1/workloads/{stored.id}"}
    return Response(_answer(stored, bound.refused), 201, headers, "application/json")


@router.put(
    "/{id}",
    response_model=WorkloadOut,
    openapi_extra=_BODY,
    responses=responses("not-found", *_REFUSALS),
)
async def put_workload(
    id: str, request: Request, store: Annotated[Store, handed(store)]
) -> Response:
    """Change a workload: a new version, unless the latest says the same."""
    name = (await run_in_threadpool(store.workload, id)).name
    (bound, document), text = await _checked(request, name)
    if bound.name != name:
        raise ProblemError(
            "invalid-request",
            f"the document is named '{bound.name}', and the workload '{name}'; "
            "post it to have it under its own name",
        )
    stored = await run_in_threadpool(store.add_workload, bound, document, text)
    return Response(_answer(stored, bound.refused), media_type="application/json")


def _answer(stored: StoredWorkload, refused: Sequence[RefusedRule]) -> bytes | str:
    """A workload that was kept, with the rules that are not among its queries."""
    if not refused:
        return workload_body(stored)
    listed = [RefusedRuleOut(**asdict(rule)) for rule in refused]
    return workload_out(stored).model_copy(update={"refused": listed}).model_dump_json()


async def _checked(request: Request, name: str) -> tuple[CheckedWorkload, str | None]:
    """The workload in a request's body, and its text if that is YAML.

    A large one is checked where that can be ended. Statements of SQL get the `name`.
    """
    most = settings(request).max_queries

    def check(how: Callable[[Any, int], CheckedWorkload], given: Any) -> CheckedWorkload:
        if len(body) <= INLINE_BYTES:
            return how(given, most)
        return computing(request).call(how, given, most)

    media = request.headers.get("content-type", "application/json").split(";")[0].strip().lower()
    body = await request.body()
    if media in (*YAML_TYPES, *SQL_TYPES):
        text = decoded(body)
        kept = text if media in YAML_TYPES and notation_of(text) is None else None
        try:
            return await run_in_threadpool(check, partial(check_text, name=name), text), kept
        except WorkloadError as error:
            raise invalid_workload(error, text) from error
    if media in JSON_TYPES:
        return await run_in_threadpool(check, check_document, _document(body)), None
    if media in ARCHIVE_TYPES:
        # However small, it may hold much: it is unpacked where that can be ended.
        call = computing(request).call
        return await run_in_threadpool(call, check_archive, body, most), None
    raise ProblemError(
        "unsupported-media-type",
        f"'{media}' is not one of {JSON_TYPES[0]}, {YAML_TYPES[0]}, {ARCHIVE_TYPES[0]}, "
        f"{ARCHIVE_TYPES[2]}, {SQL_TYPES[0]}",
    )


@router.get("", response_model=list[WorkloadSummary], responses={200: LINK})
def list_workloads(
    request: Request,
    store: Annotated[Store, handed(store)],
    limit: Limit = 100,
    cursor: Cursor = None,
    order: Order = "desc",
) -> Response:
    """The latest version of all workloads, the newest first or in the order they first came."""
    return listed(request, store.workloads(limit, cursor, order == "desc"), workload_summary)


@router.get("/{id}", response_model=WorkloadOut, responses={**responses("not-found"), **_AS_YAML})
def get_workload(
    id: str,
    store: Annotated[Store, handed(store)],
    version: VersionIn = None,
    format: Annotated[
        OneOf["json", "yaml"] | None, Query(description="In place of the Accept header.")
    ] = None,
    accept: Annotated[str, Header()] = "*/*",
) -> Response:
    """One workload with its queries and its document, or as YAML its text as it was posted.

    What was posted as JSON is written as YAML.
    """
    stored = store.workload(id, version)
    media = [part.split(";")[0].strip().lower() for part in accept.split(",")]
    if format == "yaml" or (format is None and any(m in YAML_TYPES for m in media)):
        return Response(text_of(stored), media_type="application/yaml; charset=utf-8")
    return Response(workload_body(stored), media_type="application/json")


@router.delete("/{id}", status_code=204, responses=responses("not-found", "in-use"))
def delete_workload(id: str, store: Annotated[Store, handed(store)]) -> Response:
    """Delete a workload in all its versions, and its plans; refused while jobs need them."""
    store.delete_workload(id)
    return Response(status_code=204)


@router.get("/{id}/versions", responses=responses("not-found"))
def list_versions(id: str, store: Annotated[Store, handed(store)]) -> list[WorkloadSummary]:
    """All versions of a workload, the latest first."""
    return [workload_summary(stored) for stored in store.versions(id)]


@router.get(
    "/{id}/explain",
    responses=responses("not-found", "planning-too-long", "planning-too-large", "busy"),
)
def explain_workload(
    id: str,
    store: Annotated[Store, handed(store)],
    computing: Annotated[ProcessPool, handed(computing)],
    version: VersionIn = None,
) -> ExplainOut:
    """Every query's normal form, what queries have in common, and why some of it is not shared."""
    stored = store.workload(id, version)
    if is_small(stored) and not computing.has_begun:
        found = explain_bound(stored.bound, stored.document)
    else:
        found = computing.call(explain_document, dict(stored.document))
    return ExplainOut(workload=stored.id, workload_version=stored.version, **found)


@router.post(
    "/{id}/plans",
    status_code=201,
    response_model=PlanOut,
    responses={
        202: {"model": TaskOut, "description": "It is being made, as was preferred"},
        **responses(
            "not-found",
            "path-not-allowed",
            "source-not-found",
            "invalid-request",
            "planning-too-long",
            "planning-too-large",
            "busy",
        ),
    },
)
def post_plan(
    id: str,
    request: Request,
    store: Annotated[Store, handed(store)],
    roots: Annotated[Roots, handed(roots)],
    computing: Annotated[ProcessPool, handed(computing)],
    metrics: Annotated[Metrics, handed(metrics)],
    wanted: PlanIn | None = None,
    prefer: Annotated[
        str, Header(description="`respond-async` answers at once with a task to look at.")
    ] = "",
) -> Response:
    """Plan a workload; an empty body takes the defaults."""
    wanted = wanted or PlanIn()
    stored = store.workload(id, wanted.version)
    wanted.settings().check("local")
    if wanted.sample is not None:
        roots.check_source(wanted.sample.path)
    given = settings(request)
    asked = (
        dict(stored.document),
        wanted,
        roots.folders,
        given.max_candidates,
        SEARCH_SHARE * given.planning_seconds,
    )
    start = time.perf_counter()

    def keep(made: Mapping[str, Any]) -> StoredPlan:
        metrics.planned(made, time.perf_counter() - start)
        return store.add_plan(stored, made)

    if ASYNC.search(prefer):

        def work(watched: CancelToken) -> str:
            return keep(computing.call(plan_document, *asked, watched=watched)).id

        owner = getattr(request.state, "subject", None)
        task = tasks(request).begin(stored.id, stored.version, work, owner)
        body = task_out(task, settings(request).planning_seconds).model_dump_json()
        headers = {"location": f"/v1/tasks/{task.id}", "preference-applied": "respond-async"}
        return Response(body, 202, headers, "application/json")
    # A sample's file may have changed; all else that a plan depends on is in the question.
    asked_for = wanted.model_dump_json(exclude={"version"})
    question = (stored.id, stored.version, stored.changed, asked_for, known())
    again = remembered(request).get(question) if wanted.sample is None else None
    plan = None if again is None else store.find_plan(again)
    if plan is not None:
        pass
    elif not computing.has_begun and is_quick(stored, wanted):
        plan = keep(plan_document(*asked))
    else:
        plan = keep(computing.call(plan_document, *asked))
    remembered(request).put(question, plan.id)
    headers = {"location": f"/v1/plans/{plan.id}"}
    return Response(plan_body(plan), 201, headers, "application/json")


def is_quick(workload: StoredWorkload, wanted: PlanIn) -> bool:
    """Whether a plan is made sooner than a process that could make it starts."""
    return wanted.solver == "greedy" and wanted.sample is None and is_small(workload)


def is_small(workload: StoredWorkload) -> bool:
    """Whether a workload can be worked on at once."""
    return len(json.dumps(dict(workload.document))) <= INLINE_BYTES


def _document(body: bytes) -> dict[str, Any]:
    try:
        document = json.loads(decoded(body, "invalid-json"))
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}"
        raise ProblemError("invalid-json", f"{error.msg} at {place}") from error
    except ValueError as error:  # what Python says of a whole number of thousands of digits
        raise ProblemError("invalid-json", "it has a number with too many digits") from error
    except RecursionError as error:
        raise ProblemError("invalid-json", "it is nested too deep") from error
    if not isinstance(document, dict):
        raise ProblemError(
            "invalid-request", "a workload is an object with name, stream and queries"
        )
    return document
