"""The options of live streams, which `sheaf run` and `sheaf job launch` both take."""

from __future__ import annotations

from typing import Annotated

import typer

STREAMS = "Live streams"

Checkpoint = Annotated[
    str | None,
    typer.Option(metavar="DIR", help="Where to go on from.", rich_help_panel=STREAMS),
]
Once = Annotated[
    bool, typer.Option("--once", help="End with the events there are.", rich_help_panel=STREAMS)
]
Finish = Annotated[
    bool,
    typer.Option(
        "--finish",
        help="Then no more will come: give the rows that wait for more.",
        rich_help_panel=STREAMS,
    ),
]
Every = Annotated[
    float | None,
    typer.Option(metavar="SECONDS", help="Time between batches.", rich_help_panel=STREAMS),
]
Buckets = Annotated[
    int | None,
    typer.Option(metavar="N", min=1, help="Pieces that the state is in.", rich_help_panel=STREAMS),
]
Files = Annotated[
    int | None,
    typer.Option(metavar="N", min=1, help="New files in a batch at most.", rich_help_panel=STREAMS),
]
Light = Annotated[
    bool,
    typer.Option(
        "--light",
        help="Keep the light index of the files of rows, for who reads them as events.",
        rich_help_panel=STREAMS,
    ),
]
Schema = Annotated[
    list[str] | None,
    typer.Option(
        "--schema",
        "--like",
        metavar="PATH",
        help="A file of events like those that will come; of several sources NAME=PATH for each.",
        rich_help_panel=STREAMS,
    ),
]
Registry = Annotated[
    str | None,
    typer.Option(
        metavar="URL",
        help="The schema registry of Kafka's messages: Avro, JSON Schema or Protobuf.",
        rich_help_panel=STREAMS,
    ),
]
