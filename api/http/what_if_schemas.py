"""What the service is asked and answers about a plan with some of its queries changed."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field
from pydantic.config import JsonDict

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


_UNIT = "nanoseconds per second of stream"
_COST: JsonDict = {"separate": 21000.0, "shared": 16000.0, "unit": _UNIT}
_CHEAPER: JsonDict = {"separate": 12000.0, "shared": 9800.0, "unit": _UNIT}


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

    model_config = ConfigDict(
        json_schema_extra={
            "example": {
                "without": ["abandoned"],
                "windows": {"purchases": "5 min"},
                "before": _COST,
                "cost": _CHEAPER,
                "queries": [
                    {
                        "name": "purchases",
                        "cost": 9800.0,
                        "before": 11000.0,
                        "with": [],
                        "before_with": ["abandoned"],
                    }
                ],
                "picture": "<svg>…</svg>",
            }
        }
    )


class OtherWindow(BaseModel):
    """A window that a query could have, and what the plan would cost with it."""

    window: str = Field(examples=["10 min"])
    of: list[str] = Field(description="The queries whose window it is.")
    cost: CostOut
    with_: list[str] = Field(alias="with", description="Queries that it would share pieces with.")

    model_config = ConfigDict(
        json_schema_extra={
            "example": {
                "window": "10 min",
                "of": ["abandoned"],
                "cost": _CHEAPER,
                "with": ["abandoned"],
            }
        }
    )
