"""What the service answers when it is asked for a job's rows."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from api.http import examples


class AggregateRow(BaseModel):
    query: str
    key: dict[str, Any] | None
    time: int | str
    seq: int | None
    aggregate: str
    value: float | None
    count: int | None
    exact: bool


class MatchRow(BaseModel):
    query: str
    key: dict[str, Any] | None
    start: int | str
    end: int | str
    time: int | str
    match: dict[str, Any]


class ResultsOut(BaseModel):
    """A page of a job's results: rows `offset` to `offset + limit` of each kind."""

    model_config = ConfigDict(json_schema_extra={"example": examples.RESULTS})

    job: str
    total: dict[str, int] = Field(description="Rows of each kind, of all pages together.")
    offset: int
    limit: int
    aggregates: list[AggregateRow]
    matches: list[MatchRow]
