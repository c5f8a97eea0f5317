"""Errors over HTTP: `application/problem+json` (RFC 9457) with a stable `type`."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from fastapi import FastAPI, Request
from fastapi.encoders import jsonable_encoder
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict
from starlette.exceptions import HTTPException

from api.jobs.roots import OutsideRootsError
from api.planning.process_pool import BusyError, TooLongError
from api.planning.service import TooManyCandidatesError, TooManyQueriesError
from api.store import UnknownIdError
from api.store.jobs import JobOverError, QueueFullError
from workloads.errors import Diagnostic, SheafError, UnsupportedError, WorkloadError

MEDIA_TYPE = "application/problem+json"

# What can be told apart by `type`, each with its status and title.
PROBLEMS = {
    "invalid-workload": (422, "The workload has errors"),
    "invalid-request": (422, "The request has errors"),
    "invalid-json": (400, "The body is not JSON"),
    "unsupported-media-type": (415, "A workload is sent as JSON or YAML"),
    "unauthorized": (401, "A token is needed"),
    "forbidden": (403, "The token is not good for this"),
    "too-large": (413, "The body is too large"),
    "not-found": (404, "Not found"),
    "method-not-allowed": (405, "The method does not go with this address"),
    "key-mismatch": (422, "The idempotency key belongs to another request"),
    "key-in-use": (409, "The request of this idempotency key is under way"),
    "not-acceptable": (406, "There is no such format"),
    "job-over": (409, "The job is over"),
    "incompatible": (409, "The stream cannot go on with this plan"),
    "results-not-ready": (409, "The job has no results"),
    "path-not-allowed": (403, "The service may not use this path"),
    "too-many-queries": (422, "The workload has too many queries"),
    "too-many-candidates": (422, "The queries have too much in common"),
    "planning-too-long": (422, "Planning takes too long"),
    "busy": (429, "Too much is being planned"),
    "queue-full": (429, "Too many jobs wait"),
    "unavailable": (503, "The service is not ready"),
    "not-implemented": (422, "This is not built yet"),
    "failed": (422, "It cannot be done"),
    "internal": (500, "Something went wrong here"),
}


class Finding(BaseModel):
    """One error of a workload: `line` and `column` count from 1, in the query's own text."""

    message: str
    query: str | None = None
    line: int | None = None
    column: int | None = None
    hint: str | None = None
    source: str | None = None


class ProblemOut(BaseModel):
    """An error; `diagnostics` are there for workloads with errors."""

    type: str
    title: str
    status: int
    detail: str
    diagnostics: list[Finding] | None = None

    model_config = ConfigDict(
        json_schema_extra={
            "example": {
                "type": "urn:sheaf:problem:invalid-workload",
                "title": "The workload has errors",
                "status": 422,
                "detail": "unknown type 'VKindel' (did you mean 'VKindle'?)",
                "diagnostics": [
                    {
                        "message": "unknown type 'VKindel'",
                        "query": "q1",
                        "line": 2,
                        "column": 13,
                        "hint": "did you mean 'VKindle'?",
                        "source": "PATTERN SEQ(VKindel, BKindle)",
                    }
                ],
            }
        }
    )


class ProblemError(Exception):
    """Raised by a route to answer with one of `PROBLEMS`."""

    def __init__(self, kind: str, detail: str, diagnostics: Iterable[Diagnostic] = ()) -> None:
        super().__init__(detail)
        self.kind = kind
        self.detail = detail
        self.diagnostics = tuple(diagnostics)


class ProblemResponse(JSONResponse):
    """A problem, in ASCII: it may quote text that UTF-8 cannot say."""

    media_type = MEDIA_TYPE

    def render(self, content: Any) -> bytes:
        return json.dumps(content).encode()


def responses(*kinds: str) -> dict[int | str, dict[str, Any]]:
    """What a route's documentation says of the problems it may answer with."""
    return {
        PROBLEMS[kind][0]: {
            "description": PROBLEMS[kind][1],
            "content": {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/ProblemOut"}}},
        }
        for kind in kinds
    }


def problem_response(
    kind: str, detail: str, diagnostics: Iterable[Diagnostic] = (), status: int | None = None
) -> JSONResponse:
    """The answer itself."""
    usual, title = PROBLEMS[kind]
    findings = [
        Finding(
            message=d.message,
            query=d.query,
            line=d.line,
            column=d.column,
            hint=d.hint,
            source=d.source,
        )
        for d in diagnostics
    ]
    body = ProblemOut(
        type=f"urn:sheaf:problem:{kind}",
        title=title,
        status=status or usual,
        detail=detail,
        diagnostics=findings or None,
    )
    content = body.model_dump(exclude_none=True)
    if findings:
        content["diagnostics"] = [finding.model_dump() for finding in findings]
    headers = {"retry-after": "10"} if body.status in (429, 503) else None
    return ProblemResponse(content, status_code=body.status, headers=headers)


def document(app: FastAPI) -> None:
    """Add the problems' schema to the app's documentation, to which `responses` refers."""
    original = app.openapi

    def documented() -> dict[str, Any]:
        api = original()
        problem = ProblemOut.model_json_schema(ref_template="#/components/schemas/{model}")
        schemas = api.setdefault("components", {}).setdefault("schemas", {})
        schemas.update(problem.pop("$defs"))
        schemas["ProblemOut"] = problem
        return api

    app.openapi = documented  # type: ignore[method-assign]


def install(app: FastAPI) -> None:
    """Turn every error of the app into a problem."""
    document(app)

    @app.exception_handler(ProblemError)
    async def own(_: Request, error: ProblemError) -> JSONResponse:
        return problem_response(error.kind, error.detail, error.diagnostics)

    @app.exception_handler(SheafError)
    async def ours(_: Request, error: SheafError) -> JSONResponse:
        if isinstance(error, WorkloadError):
            many = len(error.diagnostics)
            first = error.diagnostics[0].message if many else "it cannot be read"
            more = f", and {many - 1} more" if many > 1 else ""
            return problem_response("invalid-workload", first + more, error.diagnostics)
        kinds = (
            (UnknownIdError, "not-found"),
            (QueueFullError, "queue-full"),
            (JobOverError, "job-over"),
            (OutsideRootsError, "path-not-allowed"),
            (TooManyQueriesError, "too-many-queries"),
            (TooManyCandidatesError, "too-many-candidates"),
            (TooLongError, "planning-too-long"),
            (BusyError, "busy"),
            (UnsupportedError, "not-implemented"),
        )
        kind = next((kind for cls, kind in kinds if isinstance(error, cls)), "failed")
        return problem_response(kind, str(error))

    @app.exception_handler(RequestValidationError)
    async def request(_: Request, error: RequestValidationError) -> JSONResponse:
        found = jsonable_encoder(error.errors())
        said = [f"{'.'.join(map(str, e['loc'][1:])) or 'body'}: {e['msg']}" for e in found]
        kind = "invalid-json" if any(e["type"] == "json_invalid" for e in found) else None
        return problem_response(kind or "invalid-request", "; ".join(said))

    @app.exception_handler(HTTPException)
    async def http(_: Request, error: HTTPException) -> JSONResponse:
        by_status = {status: kind for kind, (status, _) in reversed(PROBLEMS.items())}
        kind = by_status.get(error.status_code, "failed")
        response = problem_response(kind, str(error.detail), status=error.status_code)
        response.headers.update(error.headers or {})
        return response

    @app.exception_handler(Exception)
    async def bug(_: Request, error: Exception) -> JSONResponse:
        return problem_response("internal", "This is a bug; the service's log has its traceback.")
