"""`/v1/events`, `/v1/uploads`: what is in files of events, a first workload for them, uploads."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated
from typing import Literal as OneOf

from fastapi import APIRouter, Query, Request, Response
from fastapi.concurrency import run_in_threadpool
from pydantic import BaseModel, ConfigDict, Field

from api.describing.service import describe_under
from api.http.problems import ProblemError, responses
from api.http.routes.state import computing, handed, roots, uploads
from api.jobs.roots import Roots
from api.jobs.uploads import UploadError, Uploads
from api.planning.process_pool import ProcessPool, TooLongError, TooMuchMemoryError

router = APIRouter(prefix="/v1", tags=["events"])


class ColumnOut(BaseModel):
    """A column of stored events, by their first rows."""

    name: str
    kind: OneOf["int", "float", "string", "bool", "time"]
    stored: str = Field(description="The type in which it is stored.")
    role: OneOf["time", "type", "key", "number"] | None = Field(
        description="What the first workload takes it for."
    )
    nulls: int
    distinct: int
    examples: list[str] = Field(description="The most frequent values.")
    least: str | None
    most: str | None


class EventsOut(BaseModel):
    """What is in files of events, and a first workload over them."""

    path: str
    files: int
    rows: int = Field(description="That were looked at.")
    whole: bool = Field(description="Were these all?")
    first: str | None = Field(alias="from", description="The earliest time among them.")
    last: str | None = Field(alias="to", description="The latest.")
    columns: list[ColumnOut]
    notes: list[str] = Field(description="What is doubtful about the workload.")
    workload: str = Field(description="A stream and a query, in YAML.")

    model_config = ConfigDict(
        populate_by_name=True,
        json_schema_extra={
            "example": {
                "path": "clicks.csv",
                "files": 1,
                "rows": 20000,
                "whole": False,
                "from": "2025-03-01 10:00:00",
                "to": "2025-03-01 18:00:12",
                "columns": [
                    {
                        "name": "kind",
                        "kind": "string",
                        "stored": "string",
                        "role": "type",
                        "nulls": 0,
                        "distinct": 4,
                        "examples": ["View", "Cart"],
                        "least": None,
                        "most": None,
                    }
                ],
                "notes": [],
                "workload": "name: clicks\nstream:\n  time: ts\n  type: kind\nqueries:\n  - …\n",
            }
        },
    )


class UploadOut(BaseModel):
    """An uploaded file; `path` is what jobs and samples take."""

    name: str
    path: str
    bytes: int

    model_config = ConfigDict(
        json_schema_extra={
            "example": {
                "name": "3f2a90b1c4d5-clicks.csv",
                "path": "/data/uploads/3f2a90b1c4d5-clicks.csv",
                "bytes": 48213,
            }
        }
    )


def _out(path: Path) -> UploadOut:
    return UploadOut(name=path.name, path=str(path), bytes=path.stat().st_size)


@router.get(
    "/events",
    responses=responses(
        "path-not-allowed", "source-not-found", "planning-too-long", "planning-too-large", "failed"
    ),
)
def get_events(
    path: Annotated[str, Query(max_length=1_000, description="A file, a folder or a glob.")],
    roots: Annotated[Roots, handed(roots)],
    computing: Annotated[ProcessPool, handed(computing)],
) -> EventsOut:
    """Columns of stored events by their first rows, and a first workload over them."""
    try:
        found = computing.call(describe_under, path, [str(folder) for folder in roots.folders])
    except TooLongError as error:
        raise ProblemError("planning-too-long", "the events took too long to read") from error
    except TooMuchMemoryError as error:
        raise ProblemError("planning-too-large", "the events took too much memory") from error
    return EventsOut(**found)


@router.post(
    "/uploads",
    status_code=201,
    responses=responses("too-large", "failed"),
    openapi_extra={
        "requestBody": {
            "content": {
                "application/octet-stream": {
                    "schema": {"type": "string", "format": "binary"},
                    "example": "ts,kind,user\n1,Login,a\n",
                }
            }
        }
    },
)
async def post_upload(
    request: Request,
    name: Annotated[str, Query(max_length=500, description="The file's name, with its ending.")],
    uploads: Annotated[Uploads, handed(uploads)],
) -> UploadOut:
    """Keep a file of events, the body as it is, where jobs and samples can read it."""
    content = await request.body()
    try:
        return _out(await run_in_threadpool(uploads.add, name, content))
    except UploadError as error:
        raise ProblemError("failed", str(error)) from error


@router.get("/uploads")
def list_uploads(uploads: Annotated[Uploads, handed(uploads)]) -> list[UploadOut]:
    """Files that were uploaded."""
    return [_out(path) for path in uploads.files()]


@router.delete("/uploads/{name}", status_code=204, responses=responses("not-found"))
def delete_upload(name: str, uploads: Annotated[Uploads, handed(uploads)]) -> Response:
    """Delete an uploaded file; a job that still reads it fails."""
    if not uploads.delete(name):
        raise ProblemError("not-found", f"there is no upload '{name}'")
    return Response(status_code=204)
