"""What the service answers when it is asked why a query gives rows, or none."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field


class WhyCondition(BaseModel):
    """A condition of a component, and the events that are left after it."""

    condition: str
    left: int


class WhyComponent(BaseModel):
    """What there is of one component of a query, among the events that the question is about."""

    alias: str
    type: str
    negated: bool
    events_of_type: int = Field(description="In all events.")
    events_looked_at: int = Field(description="Of its type, among those the question is about.")
    conditions: list[WhyCondition]
    instances: int


class WhyEvent(BaseModel):
    """An event, with the values that the query reads of it."""

    alias: str
    time: int | float | str
    values: dict[str, Any]


class WhyMatch(BaseModel):
    """A row, and the events behind it; of an aggregate those of its first match."""

    row: dict[str, Any] | None = None
    matches: int | None = None
    events: list[WhyEvent] = []


class BehindOut(BaseModel):
    """The matches behind a row: the one that it is, or those that it aggregates."""

    query: str
    matches: int = Field(description="That were found.")
    is_cut: bool = Field(description="The search was bounded: there may be more.")
    shown: list[list[WhyEvent]] = Field(description="The events of the first matches.")
    note: str | None = Field(description="What was not looked for, and why.")

    model_config = ConfigDict(
        json_schema_extra={
            "example": {
                "query": "purchases",
                "matches": 1,
                "is_cut": False,
                "shown": [
                    [
                        {"alias": "v", "time": 1000, "values": {"user": "ann"}},
                        {"alias": "b", "time": 4000, "values": {"user": "ann", "price": 12.5}},
                    ]
                ],
                "note": None,
            }
        }
    )


class WhyMiss(BaseModel):
    """Events that would be a match if one thing less were asked for."""

    kind: str = Field(
        description="condition, negation, window, order, strategy, slide, key, component, clause",
        examples=["negation"],
    )
    what: str = Field(description="What fails.", examples=["!Login l"])
    because: str
    key: dict[str, Any] | None
    events: list[WhyEvent]
    by: list[WhyEvent] = Field(description="The events that decide it.")
    row: dict[str, Any] | None = None


class WhyOut(BaseModel):
    """Why a query gives rows, or where the nearest miss fails."""

    query: str
    verdict: str
    matched: bool
    at: int | float | str | None
    key: dict[str, Any] | None
    rows: int = Field(description="That the question is about.")
    rows_in_all: int
    events: int
    events_looked_at: int
    components: list[WhyComponent]
    matches: list[WhyMatch]
    misses: list[WhyMiss] = Field(description="The nearest first.")
    notes: list[str] = Field(description="What was bounded, and what is not explained.")
