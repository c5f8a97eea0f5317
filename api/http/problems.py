"""Errors over HTTP: `application/problem+json` (RFC 9457) with a stable `type`."""

from __future__ import annotations

import errno
import json
import logging
from collections.abc import Iterable, Sequence
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict
from sqlalchemy.exc import DatabaseError, DataError, DBAPIError, InterfaceError, OperationalError
from starlette.exceptions import HTTPException

from api.connections import NoConnectionError
from api.jobs.roots import NoEventsError, OutsideRootsError
from api.jobs.webhook import WebhookError
from api.planning.process_pool import BusyError, TooLongError, TooMuchMemoryError
from api.planning.service import TooManyCandidatesError, TooManyQueriesError
from api.planning.what_if import WhatIfError
from api.run_settings import OptionError
from api.store import NeededError, UnknownIdError
from api.store.jobs import JobOverError, QueueFullError
from workloads.archives import ArchiveError
from workloads.errors import Diagnostic, SheafError, UnsupportedError, WorkloadError

log = logging.getLogger(__name__)

MEDIA_TYPE = "application/problem+json"
# What a machine can be out of: it is no fault of the request, and may be mended while it waits.
EXHAUSTED = frozenset(
    {errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO, errno.EMFILE, errno.ENFILE, errno.ENOMEM}
)

# What can be told apart by `type`, each with its status and title.
PROBLEMS = {
    "invalid-workload": (422, "The workload has errors"),
    "invalid-request": (422, "The request has errors"),
    "invalid-json": (400, "The body is not JSON"),
    "invalid-encoding": (400, "The body is not text in UTF-8"),
    "invalid-archive": (422, "The archive is not taken"),
    "unsupported-media-type": (415, "A workload is sent as JSON or YAML, or in an archive"),
    "unauthorized": (401, "A token is needed"),
    "forbidden": (403, "The token is not good for this"),
    "too-large": (413, "The body is too large"),
    "unsupported-encoding": (415, "Compressed bodies are not taken"),
    "too-slow": (408, "The request came too slowly"),
    "invalid-http": (400, "This is no HTTP request"),
    "not-found": (404, "Not found"),
    "method-not-allowed": (405, "The method does not go with this address"),
    "key-mismatch": (422, "The idempotency key belongs to another request"),
    "key-in-use": (409, "The request of this idempotency key is under way"),
    "not-acceptable": (406, "There is no such format"),
    "job-over": (409, "The job is over"),
    "in-use": (409, "It is still in use"),
    "incompatible": (409, "The stream cannot go on with this plan"),
    "results-not-ready": (409, "The job has no results"),
    "path-not-allowed": (403, "The service may not use this path"),
    "source-not-found": (422, "There are no events at this path"),
    "too-many-queries": (422, "The workload has too many queries"),
    "too-many-candidates": (422, "The queries have too much in common"),
    "planning-too-long": (422, "Planning takes too long"),
    "planning-too-large": (422, "Planning takes too much memory"),
    "busy": (429, "Too much is being planned"),
    "queue-full": (429, "Too many jobs wait"),
    "too-many-requests": (429, "Too many requests at once"),
    "unavailable": (503, "The service is not ready"),
    "not-implemented": (422, "This is not built yet"),
    "failed": (422, "It cannot be done"),
    "internal": (500, "Something went wrong here"),
}


class Finding(BaseModel):
    """One error of a workload: `line` and `column` count from 1, in the query's own text.

    Where there is no query they are those in the document, if it came as a text.
    `file_line` and `file_column` count in all of the text, where that was posted as YAML.
    """

    message: str
    query: str | None = None
    line: int | None = None
    column: int | None = None
    file_line: int | None = None
    file_column: int | None = None
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
                        "file_line": 7,
                        "file_column": 17,
                        "hint": "did you mean 'VKindle'?",
                        "source": "PATTERN SEQ(VKindel, BKindle)",
                    }
                ],
            }
        }
    )


class ProblemError(Exception):
    """Raised by a route to answer with one of `PROBLEMS`."""

    def __init__(
        self,
        kind: str,
        detail: str,
        diagnostics: Iterable[Diagnostic] = (),
        text: str | None = None,
    ) -> None:
        super().__init__(detail)
        self.kind = kind
        self.detail = detail
        self.diagnostics = tuple(diagnostics)
        self.text = text  # that the diagnostics are of


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
    kind: str,
    detail: str,
    diagnostics: Iterable[Diagnostic] = (),
    status: int | None = None,
    text: str | None = None,
) -> JSONResponse:
    """The answer itself; `text` is what the diagnostics are of, if they have places there."""
    usual, title = PROBLEMS[kind]
    lines = [] if text is None else text.splitlines()
    findings = []
    for d in diagnostics:
        file_line, file_column = place_in_text(d, lines) if text is not None else (None, None)
        findings.append(
            Finding(
                message=d.message,
                query=d.query,
                line=d.line,
                column=d.column,
                file_line=file_line,
                file_column=file_column,
                hint=d.hint,
                source=d.source,
            )
        )
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


def place_in_text(found: Diagnostic, lines: Sequence[str]) -> tuple[int | None, int | None]:
    """The line and column of a finding in the whole text, as far as they can be told."""
    line, column = found.file_line, None
    if found.source is not None and found.source.strip() and found.column is not None:
        if line is None:  # a query that is not in block style: where its words are
            line = next((n for n, text in enumerate(lines, 1) if found.source in text), None)
        if line is not None and line <= len(lines):
            start = lines[line - 1].find(found.source)
            column = start + found.column if start >= 0 else None
    return line, column


def invalid_workload(error: WorkloadError, text: str | None = None) -> ProblemError:
    """The problem with a workload: the first finding in a sentence, and all of them."""
    many = len(error.diagnostics)
    first = error.diagnostics[0].message if many else "it cannot be read"
    more = f", and {many - 1} more" if many > 1 else ""
    return ProblemError("invalid-workload", first + more, error.diagnostics, text)


def decoded(body: bytes, kind: str = "invalid-encoding") -> str:
    """The text of a body; a problem of that kind says where it stops being UTF-8."""
    try:
        return body.decode("utf-8")
    except UnicodeDecodeError as error:
        if body.startswith((b"\xff\xfe", b"\xfe\xff")):
            raise ProblemError(kind, "it begins as UTF-16 does; send it in UTF-8") from error
        line = body.count(b"\n", 0, error.start) + 1
        raise ProblemError(
            kind,
            f"byte 0x{body[error.start]:02x} in line {line} (byte {error.start + 1:,} of the body) "
            "is not UTF-8; send it in UTF-8, by `iconv -f cp1252 -t utf-8` for example",
        ) from error


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
        return problem_response(error.kind, error.detail, error.diagnostics, text=error.text)

    @app.exception_handler(SheafError)
    async def ours(_: Request, error: SheafError) -> JSONResponse:
        if isinstance(error, WorkloadError):
            found = invalid_workload(error)
            return problem_response(found.kind, found.detail, found.diagnostics)
        kinds = (
            (UnknownIdError, "not-found"),
            (ArchiveError, "invalid-archive"),
            (NeededError, "in-use"),
            (QueueFullError, "queue-full"),
            (JobOverError, "job-over"),
            (OutsideRootsError, "path-not-allowed"),
            (WebhookError, "invalid-request"),
            (NoEventsError, "source-not-found"),
            (NoConnectionError, "source-not-found"),
            (OptionError, "invalid-request"),
            (WhatIfError, "invalid-request"),
            (TooManyQueriesError, "too-many-queries"),
            (TooManyCandidatesError, "too-many-candidates"),
            (TooLongError, "planning-too-long"),
            (TooMuchMemoryError, "planning-too-large"),
            (BusyError, "busy"),
            (UnsupportedError, "not-implemented"),
        )
        kind = next((kind for cls, kind in kinds if isinstance(error, cls)), "failed")
        return problem_response(kind, str(error))

    @app.exception_handler(RequestValidationError)
    async def request(_: Request, error: RequestValidationError) -> JSONResponse:
        found = error.errors()  # of which the input, which may be any bytes, is not said
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

    @app.exception_handler(DBAPIError)
    async def store(_: Request, error: DBAPIError) -> JSONResponse:
        if isinstance(error, DataError):  # such as a text with the character 0, on PostgreSQL
            why = str(error.orig).strip().splitlines()[0]
            return problem_response("invalid-request", f"this cannot be stored: {why}")
        # SQLite says of a damaged file no more than that it is an error of the database.
        is_away = isinstance(error, OperationalError | InterfaceError)
        if not is_away and type(error) is not DatabaseError:
            raise error
        why = str(error.orig).strip().splitlines()[0]
        log.error("the store failed: %s", why)
        return problem_response("unavailable", f"the store cannot be used now: {why}")

    @app.exception_handler(UnicodeEncodeError)
    async def half(_: Request, error: UnicodeEncodeError) -> JSONResponse:
        return problem_response("invalid-request", "it has half a character in it, as \\ud800 is")

    @app.exception_handler(OSError)
    async def machine(_: Request, error: OSError) -> JSONResponse:
        if error.errno not in EXHAUSTED:
            raise error
        log.error("the machine has run out of something: %s", error)
        return problem_response("unavailable", f"the service's machine: {error.strerror}")

    @app.exception_handler(Exception)
    async def bug(_: Request, error: Exception) -> JSONResponse:
        return problem_response("internal", "This is a bug; the service's log has its traceback.")
