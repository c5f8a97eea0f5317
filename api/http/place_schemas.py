"""Where events and rows are, as requests and answers say it."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field


class Location(BaseModel):
    model_config = ConfigDict(extra="forbid")

    path: str = Field(
        min_length=1, description="A file, a folder or a glob, as the service sees it."
    )


class Events(BaseModel):
    model_config = ConfigDict(extra="forbid")

    path: str | dict[str, str] = Field(min_length=1, description="Of several sources by name.")


# A text stands for a path.
_BY_TEXT = BeforeValidator(lambda given: {"path": given} if isinstance(given, str) else given)
PathIn = Annotated[Location, _BY_TEXT]
EventsIn = Annotated[Events, _BY_TEXT]
