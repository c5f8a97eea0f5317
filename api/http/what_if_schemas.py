"""What the service is asked and answers about a plan with some of its queries changed."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from api.http.schemas import CostOut

_Name = Annotated[str, Field(max_length=1_000)]
_Window = Annotated[str, Field(max_length=100)]


class WhatIfIn(BaseModel):
    """Changes to the queries of a plan; without any, the plan is compared with itself."""

    without: list[_Name] = Field(
        default=[], max_length=10_000, description="Queries that are left out."
    )
    windows: dict[_Name, _Window] = Field(
        default={}, max_length=10_000, description="Windows of queries, by name."
    )

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "example": {"without": ["abandoned"], "windows": {"purchases": "5 min"}}
        },
    )


class WhatIfQuery(BaseModel):
    name: str
    cost: float = Field(
        description="With the changes: its own work and its part of what it shares."
    )
    before: float
    with_: list[str] = Field(alias="with", description="Queries that it then shares pieces with.")
    before_with: list[str]


class WhatIfOut(BaseModel):
    """A plan beside what it would be with changes; nothing is kept."""

    without: list[str]
    windows: dict[str, str]
    before: CostOut
    cost: CostOut
    queries: list[WhatIfQuery] = Field(description="Those that are left.")
    picture: str = Field(description="The changed plan, as SVG.")


class OtherWindow(BaseModel):
    """A window that a query could have, and what the plan would cost with it."""

    window: str = Field(examples=["10 min"])
    of: list[str] = Field(description="The queries whose window it is.")
    cost: CostOut
    with_: list[str] = Field(alias="with", description="Queries that it would share pieces with.")
