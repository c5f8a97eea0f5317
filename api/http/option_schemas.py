"""The options of a run as they go over HTTP, for plans and for jobs."""

from __future__ import annotations

from typing import Annotated
from typing import Literal as OneOf

from pydantic import BaseModel, ConfigDict, Field

from api.run_settings import ACCESS, RunSettings
from workloads.workload import OnLimit


class RunSettingsIn(BaseModel):
    """The options of a run, as the command line and the clients have them too.

    One that the engine cannot honour is refused, with the reason.
    """

    model_config = ConfigDict(extra="forbid")

    on_error: OneOf["stop", "skip"] = Field(
        default="stop",
        description="At a row that is no event: stop, or leave it out and count it.",
    )
    disorder: Annotated[str, Field(max_length=40)] | None = Field(
        default=None,
        description="How late events can be, such as `10 s`. Local engine and streams.",
        examples=["10 s"],
    )
    slice: Annotated[int, Field(ge=1, le=10**12)] | None = Field(
        default=None, description="Events in memory at a time. Local engine."
    )
    partial_limit: Annotated[int, Field(ge=1, le=10**15)] | None = Field(
        default=None,
        description="Partial matches of one key that an operator of a query may hold. Local "
        "engine.",
    )
    on_limit: OnLimit = Field(
        default="stop", description="At that limit: stop the query, or drop its oldest."
    )
    row_limit: Annotated[int, Field(ge=1, le=10**15)] | None = Field(
        default=None,
        description="Rows that a query may give; the query alone is stopped. The service has one "
        "of its own for jobs over stored events (SHEAF_ROW_LIMIT), which is also the most.",
    )

    threads: Annotated[int, Field(ge=1, le=1024)] | None = Field(
        default=None,
        description="Threads that run at once; one for each processor if none is said. Local "
        "engine.",
    )

    match: OneOf["text", "struct"] = Field(
        default="text",
        description="What matches are in Parquet and Arrow: JSON text, or a struct with a field "
        "for each name of RETURN. Jobs over stored events.",
    )

    access: str = Field(
        default="auto",
        pattern=f"^({ACCESS})$",
        description="How stored events are read: all of them (scan), only row groups that can "
        "matter (index), or what is cheaper (auto). With index:A,b indexes are asked for the "
        "events of these components, and of no others. Jobs over stored events.",
    )

    tables: bool = Field(
        default=False,
        description="Whether each query has a file of its own beside the sink's, with the columns "
        "that it names: `found.NAME.parquet` beside `found.parquet`. Jobs over stored events.",
    )

    def settings(self) -> RunSettings:
        """These options as a run takes them."""
        return RunSettings(**{name: getattr(self, name) for name in RunSettingsIn.model_fields})
