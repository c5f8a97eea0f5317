"""`sheaf index`: side files by which a run finds the stored events that can matter."""

from __future__ import annotations

import re
from typing import Annotated

import typer

from api.cli.terminal.json_output import Json, echo_json
from api.cli.terminal.progress import waiting
from workloads.errors import SheafError


def index(
    events: Annotated[
        str, typer.Argument(metavar="EVENTS", help="Parquet files: a file, a folder or a glob.")
    ],
    light: Annotated[
        bool,
        typer.Option(
            "--light",
            help="Least and greatest values of small blocks of rows; made with every index.",
        ),
    ] = False,
    on: Annotated[
        str | None,
        typer.Option(
            metavar="A,B", help="Attributes whose values are to be looked up, such as price,volume."
        ),
    ] = None,
    workload: Annotated[
        str | None,
        typer.Option(metavar="WORKLOAD", help="With --advise: the queries that are to be run."),
    ] = None,
    advised: Annotated[
        bool,
        typer.Option("--advise", help="Say which attributes are worth an index, and build none."),
    ] = False,
    budget: Annotated[
        str | None,
        typer.Option(metavar="SIZE", help="With --advise: bytes that indexes may take, as 1GB."),
    ] = None,
    remove: Annotated[
        bool, typer.Option("--remove", help="Remove the indexes of these files instead.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Index stored events, so that runs read only what can matter.

    What is indexed and has not changed stays as it is: after new files have come, index them again.
    """
    from engines.access.build_index import build_indexes, indexed_document

    names = [name.strip() for name in (on or "").split(",") if name.strip()]
    if on is not None and not names:
        raise SheafError("--on names no attribute; give some, such as --on price,volume")
    if not advised and (workload is not None or budget is not None):
        raise SheafError("--workload and --budget are for --advise, which says what to index")
    if advised:
        if workload is None:
            raise SheafError("--advise needs the queries: give --workload WORKLOAD")
        if remove or names:
            raise SheafError("--advise builds and removes nothing; leave out --on and --remove")
        _advise(events, workload, budget, as_json)
        return
    if remove:
        _remove(events, light or bool(names), as_json)
        return
    with waiting("indexing"):
        found = build_indexes(events, names)
    document = [indexed_document(each) for each in found]
    if as_json:
        echo_json({"files": document})
        return
    for each in document:
        what = "light" if not each["on"] else f"light, {', '.join(each['on'])}"
        size = f"{each['bytes']:,} bytes for {each['of_bytes']:,}"
        was = f"{each['seconds']} s" if each["new"] else "as it was"
        typer.echo(f"{each['file']}: {what}; {each['rows']:,} events, {size}; {was}")


_SIZES = {"B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}


def _bytes(text: str) -> int:
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([kKmMgGtT]?[bB])?\s*", text)
    if found is None:
        raise SheafError(f"--budget is '{text}'; write a size such as 500MB or 1GB")
    return int(float(found[1]) * _SIZES[(found[2] or "B").upper()])


def _advise(events: str, workload: str, budget: str | None, as_json: bool) -> None:
    from api.cli.workload_files import open_workload
    from engines.access.advice import advise
    from engines.input.batches import FileSource
    from engines.input.event_table import Faults

    most = None if budget is None else _bytes(budget)
    parsed, _ = open_workload(workload)
    source = FileSource(events, parsed.stream, Faults())
    found = advise(events, source, source.bind(parsed), most)
    if as_json:
        echo_json(found.document())
        return
    for query, reason in found.reasons.items():
        typer.echo(f"query {query} reads all events: {reason}")
    for name, part in found.attributes.items():
        typer.echo(f"{name}: {100 * part:.3g} % of the row groups would be read with it alone")
    if not found.on:
        typer.echo("no index of an attribute would help")
        return
    best = "no other set within the budget is better" if found.is_best else "by adding the best"
    typer.echo(
        f"index {', '.join(found.on)}: {100 * found.part:.3g} % of the row groups would be read, "
        f"about {found.bytes:,} bytes of indexes ({best})"
    )
    typer.echo(f"sheaf index {events} --on {','.join(found.on)}")


def _remove(events: str, more: bool, as_json: bool) -> None:
    from engines.access.index_files import remove_index
    from engines.input.event_table import list_files

    if more:
        raise SheafError("--remove removes all indexes of the files; leave out --light and --on")
    removed = [file for file in list_files(events) if remove_index(file)]
    if as_json:
        echo_json({"removed": removed})
        return
    for file in removed:
        typer.echo(f"{file}: its index is removed")
    if not removed:
        typer.echo("there was no index")
