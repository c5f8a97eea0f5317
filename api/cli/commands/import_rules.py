"""`sheaf import`: rules and queries in other languages as a workload."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from api.cli.terminal.colour import echo_error
from api.cli.terminal.json_output import Json, echo_json
from workloads.errors import SheafError, did_you_mean

if TYPE_CHECKING:
    from api.describing.columns import EventsProfile
    from api.importing import ImportOptions


def import_rules(
    language: Annotated[
        str, typer.Argument(metavar="FORMAT", help="What the files are: sql, sigma or eql.")
    ],
    paths: Annotated[list[Path], typer.Argument(metavar="PATH…", help="Files or folders of them.")],
    out: Annotated[
        Path | None, typer.Option(help="Where the workload goes; without it, to the terminal.")
    ] = None,
    name: Annotated[str | None, typer.Option(help="The workload's name.")] = None,
    events: Annotated[
        str | None,
        typer.Option(
            metavar="PATH", help="Events, of which the columns of time and sequence are found."
        ),
    ] = None,
    time: Annotated[
        str | None, typer.Option(help="The column that holds an event's time; without it, ts.")
    ] = None,
    sequence: Annotated[
        str | None, typer.Option(help="The column that orders events of one time.")
    ] = None,
    config: Annotated[
        Path | None, typer.Option(metavar="PATH", help="Settings of the format, where it has any.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Write a workload of rules in another language.

    What is not taken is listed with its reason.
    """
    from api.describing.columns import profile_events
    from api.http.yaml_text import as_yaml
    from api.importing import FORMATS, ImportOptions
    from api.importing.fitting import fitting
    from engines.input.event_table import column_kinds

    if language not in FORMATS:
        hint = did_you_mean(language, FORMATS) or f"there are {', '.join(sorted(FORMATS))}"
        raise SheafError(f"no format is called '{language}'; {hint}")
    files = _files(paths)
    options = ImportOptions(name or paths[0].resolve().stem, time or "ts", config, sequence)
    profile = None if events is None else profile_events(events)
    if profile is not None:
        options = _told_by(profile, options, time)
    found = FORMATS[language](files, options)
    if profile is not None and language != "sql" and found.document["queries"]:
        found = fitting(found, column_kinds(profile.table.schema))
    text = as_yaml(found.document)
    if out is not None:
        out.write_text(text, encoding="utf-8")
    taken = len(found.document.get("queries", ()))
    if as_json:
        echo_json(
            {
                "read": found.read,
                "queries": taken,
                "refused": [{"place": r.place, "reason": r.reason} for r in found.refused],
                "notes": list(found.notes),
                **({"file": str(out)} if out is not None else {"workload": found.document}),
            }
        )
    elif out is None:
        typer.echo(text, nl=False)
    else:
        typer.echo(f"{out}: {taken:,} queries of {found.read:,} read")
    for refused in found.refused:
        echo_error(f"not taken: {refused.place}: {refused.reason}")
    for note in found.notes:
        echo_error(f"note: {note}")
    if not taken:
        raise SheafError("nothing was taken: the workload has no queries")


def _told_by(profile: EventsProfile, options: ImportOptions, time: str | None) -> ImportOptions:
    """The options with the columns of the events, where they do not name them."""
    from api.describing.first_workload import find_sequence, find_time

    column = find_time(profile, time)
    if column is None:
        missing = (
            "no column looks like a time" if time is None else f"'{time}' is no column of times"
        )
        raise SheafError(f"{profile.path}: {missing}; name one with --time")
    return replace(
        options,
        time=column.name,
        unit=column.unit or options.unit,
        format=column.format,
        sequence=options.sequence or find_sequence(profile, {column.name}),
    )


def _files(paths: list[Path]) -> list[Path]:
    """The files that were named, and all files of folders, in order."""
    found: list[Path] = []
    for path in paths:
        if path.is_dir():
            found += sorted(p for p in path.rglob("*") if p.is_file())
        elif path.is_file():
            found.append(path)
        else:
            raise SheafError(f"there is no file '{path}'; check the path")
    return found
