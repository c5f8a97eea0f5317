"""`/v1/indexes`: index stored events, so that jobs read only what can matter."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated
from typing import Literal as OneOf

from fastapi import APIRouter, Response
from pydantic import BaseModel, ConfigDict, Field, field_validator

from api.http import examples
from api.http.place_schemas import PathIn
from api.http.problems import responses
from api.http.routes.state import handed, indexes, roots
from api.jobs.index_builds import IndexBuild, IndexBuilds
from api.jobs.roots import Roots

router = APIRouter(prefix="/v1/indexes", tags=["indexes"])


class IndexIn(BaseModel):
    """What is to be indexed."""

    source: PathIn = Field(description="Parquet files: a file, a folder or a glob.")
    on: list[Annotated[str, Field(min_length=1, max_length=200)]] = Field(
        default=[], max_length=50, description="Attributes whose values are to be looked up."
    )
    light: bool = Field(
        default=True,
        description="Least and greatest values of small blocks of rows; made with every index.",
    )

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={"example": {"source": {"path": "events.parquet"}, "on": ["price"]}},
    )

    @field_validator("source", mode="before")
    @classmethod
    def _as_path(cls, value: object) -> object:
        """A path may be given by itself."""
        return {"path": value} if isinstance(value, str) else value


class IndexedFileOut(BaseModel):
    """One file and its index."""

    file: str
    rows: int
    bytes: int = Field(description="Of the index.")
    of_bytes: int = Field(description="Of the events.")
    on: list[str]
    seconds: float
    new: bool = Field(description="Was it built now, and not there already?")


class IndexOut(BaseModel):
    """A build of an index, and what came of it."""

    id: str
    status: OneOf["queued", "running", "succeeded", "failed", "cancelled"]
    source: PathIn
    on: list[str]
    progress: float = Field(description="From 0 to 1.")
    created: datetime
    ended: datetime | None
    reason: str | None
    files: list[IndexedFileOut]

    model_config = ConfigDict(json_schema_extra={"example": examples.INDEX})


def _out(build: IndexBuild) -> IndexOut:
    return IndexOut(
        id=build.id,
        status=build.status,
        source=PathIn(path=build.source),
        on=list(build.on),
        progress=build.progress,
        created=datetime.fromtimestamp(build.created, UTC),
        ended=None if build.ended is None else datetime.fromtimestamp(build.ended, UTC),
        reason=build.reason,
        files=[IndexedFileOut(**file) for file in build.files],
    )


@router.post(
    "",
    status_code=201,
    responses=responses("path-not-allowed", "source-not-found", "invalid-request", "queue-full"),
)
def post_index(
    wanted: IndexIn,
    response: Response,
    indexes: Annotated[IndexBuilds, handed(indexes)],
    roots: Annotated[Roots, handed(roots)],
) -> IndexOut:
    """Have events indexed; it is built in a process of its own when its turn comes."""
    roots.check_source(wanted.source.path)
    build = indexes.submit(wanted.source.path, tuple(dict.fromkeys(wanted.on)))
    response.headers["location"] = f"/v1/indexes/{build.id}"
    return _out(build)


@router.get("")
def list_indexes(indexes: Annotated[IndexBuilds, handed(indexes)]) -> list[IndexOut]:
    """All builds of indexes, the newest first."""
    return [_out(build) for build in indexes.all()]


@router.get("/{id}", responses=responses("not-found"))
def get_index(id: str, indexes: Annotated[IndexBuilds, handed(indexes)]) -> IndexOut:
    """How far a build is, and what came of it."""
    return _out(indexes.get(id))


@router.delete(
    "/{id}",
    status_code=204,
    response_model=None,
    responses={
        202: {"model": IndexOut, "description": "It was cancelled"},
        **responses("not-found"),
    },
)
def delete_index(id: str, indexes: Annotated[IndexBuilds, handed(indexes)]) -> Response:
    """Remove an index from beside its events (204), or cancel its build (202)."""
    build = indexes.delete(id)
    if build.status == "cancelled" and any(other.id == id for other in indexes.all()):
        body = _out(build).model_dump_json()
        return Response(body, status_code=202, media_type="application/json")
    return Response(status_code=204)
