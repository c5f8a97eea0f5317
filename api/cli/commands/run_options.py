"""The options of a run, which `plan`, `run` and `job launch` all take."""

from __future__ import annotations

from typing import Annotated

import typer

from api.run_settings import Access as AccessMethod
from api.run_settings import MatchFormat
from api.run_settings import OnError as OnErrorChoice
from workloads.workload import OnLimit as OnLimitChoice

EVENTS, LIMITS = "How events are read", "Limits"

_PATHS_OF = "of a workload with several sources NAME=PATH, for each"
Paths = Annotated[
    list[str],
    typer.Option(
        "--events",
        metavar="PATH",
        help=f"Parquet, CSV or JSON lines: file, folder or glob; {_PATHS_OF}.",
    ),
]
SamplePaths = Annotated[
    list[str] | None,
    typer.Option(
        "--events", metavar="PATH", help=f"Events to sample statistics from; {_PATHS_OF}."
    ),
]
CheckedPaths = Annotated[
    list[str] | None,
    typer.Option(
        "--events",
        metavar="PATH",
        help="Check types, attributes and keys against these events too: all of them are read; "
        f"{_PATHS_OF}.",
    ),
]
OnError = Annotated[
    OnErrorChoice,
    typer.Option(
        help="At a row that is no event: stop, or leave it out and count it.",
        rich_help_panel=EVENTS,
    ),
]
Disorder = Annotated[
    str | None,
    typer.Option(
        metavar="TIME",
        help="How late events can be, such as '10 s'. Local engine, live streams.",
        rich_help_panel=EVENTS,
    ),
]
Slice = Annotated[
    int | None,
    typer.Option(
        "--slice",
        metavar="EVENTS",
        min=1,
        help="Events in memory at a time. Local engine.",
        rich_help_panel=EVENTS,
    ),
]
Threads = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        min=1,
        help="Threads that run at once; one for each processor if none is said. Local engine.",
    ),
]
Match = Annotated[
    MatchFormat,
    typer.Option(
        help="What --out has matches as: JSON text, or in Parquet and Arrow a struct with a field "
        "for each name of RETURN.",
    ),
]
Tables = Annotated[
    bool,
    typer.Option(
        "--tables",
        help="Write a table of each query besides, PATH with NAME before its ending, with the "
        "columns that AGG, RETURN or MEASURES name.",
    ),
]
Access = Annotated[
    AccessMethod,
    typer.Option(
        metavar="auto|scan|index[:A,b]",
        help="How stored events are read: all of them (scan), only row groups that can matter "
        "(index), or what is cheaper. With index:A,b indexes are asked for the events of these "
        "components, and of no others.",
        rich_help_panel=EVENTS,
    ),
]
PartialLimit = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        min=1,
        help="Partial matches of one key that an operator of a query may hold. Local engine.",
        rich_help_panel=LIMITS,
    ),
]
OnLimit = Annotated[
    OnLimitChoice,
    typer.Option(help="At that limit: stop the query, or drop its oldest.", rich_help_panel=LIMITS),
]
RowLimit = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        min=1,
        help="Rows that a query may give; the query alone is stopped.",
        rich_help_panel=LIMITS,
    ),
]
