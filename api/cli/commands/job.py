"""`sheaf job`: plans that run in a service, and what becomes of them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated
from typing import Literal as OneOf

import typer

from api.cli.commands.run_options import (
    Access,
    Disorder,
    Match,
    OnError,
    OnLimit,
    PartialLimit,
    RowLimit,
    Slice,
    Tables,
    Threads,
)
from api.cli.commands.service import (
    Server,
    connected,
    moment,
    on_a_terminal,
    print_json,
    print_rows,
)
from api.cli.commands.stream_options import (
    Buckets,
    Checkpoint,
    Every,
    Files,
    Finish,
    Light,
    Once,
    Schema,
)
from api.cli.completion import JobId, PlanId
from api.cli.terminal.help_sections import SectionedCommand
from api.cli.terminal.json_output import Json
from api.cli.terminal.preview import operator_lines
from api.cli.terminal.progress import stage_text
from api.run_settings import RunSettings, as_flag
from engines.input.event_paths import given_paths, shown_path

if TYPE_CHECKING:
    from api.client import Client, Event
    from api.http.schemas import JobOut, StreamOut

job = typer.Typer(no_args_is_help=True, help="Jobs of a service.")


@job.command("launch", cls=SectionedCommand)
def launch(
    plan: PlanId,
    events: Annotated[
        list[str],
        typer.Option(
            metavar="PATH",
            help="Events, as the service sees them; of several sources NAME=PATH for each.",
        ),
    ],
    out: Annotated[
        str | None, typer.Option(metavar="PATH", help="Where results are written besides.")
    ] = None,
    webhook: Annotated[
        str | None, typer.Option(metavar="URL", help="Where rows are posted to besides.")
    ] = None,
    mode: Annotated[
        OneOf["batch", "stream"], typer.Option(help="Stored events, or live ones.")
    ] = "batch",
    engine: Annotated[OneOf["spark", "local"], typer.Option(help="What runs it.")] = "spark",
    device: Annotated[OneOf["auto", "cpu", "opencl"], typer.Option(help="What computes.")] = "auto",
    master: Annotated[str, typer.Option(help="Spark's master.")] = "local[*]",
    wait: Annotated[
        bool, typer.Option("--wait", help="Until it is over; without --server always.")
    ] = False,
    checkpoint: Checkpoint = None,
    every: Every = None,
    buckets: Buckets = None,
    files: Files = None,
    schema: Schema = None,
    once: Once = False,
    finish: Finish = False,
    light: Light = False,
    on_error: OnError = "stop",
    disorder: Disorder = None,
    access: Access = "auto",
    slice_rows: Slice = None,
    partial_limit: PartialLimit = None,
    on_limit: OnLimit = "stop",
    row_limit: RowLimit = None,
    threads: Threads = None,
    match: Match = "text",
    tables: Tables = False,
    server: Server = None,
    as_json: Json = False,
) -> None:
    """Run a plan over events."""
    settings = RunSettings(
        on_error,
        disorder,
        slice_rows,
        partial_limit,
        on_limit,
        row_limit,
        threads,
        match,
        access,
        tables,
    )
    settings.check("stream" if mode == "stream" else engine, as_flag, out)
    given: dict[str, object] = {
        "checkpoint": checkpoint,
        "every": every,
        "buckets": buckets,
        "files": files,
        "once": once or None,
        "finish": finish or None,
        "light": light or None,
    }
    stream = {name: value for name, value in given.items() if value is not None}
    with connected(server) as client:
        named = any("=" in place for place in (*events, *(schema or ())))
        sources = client.get_plan(plan).physical.document.get("streams", ()) if named else ()
        if schema:
            stream["like"] = {"path": given_paths(schema, sources)}
        found = client.launch(
            plan, given_paths(events, sources), out, webhook=webhook, mode=mode, engine=engine,
            device=device, master=master, stream=stream or None, **settings.stated(),
        )  # fmt: skip
        if wait or server is None:
            found = _waited(client, found.id)
    _show(found, as_json)


@job.command("list")
def list_all(
    status: Annotated[
        OneOf["queued", "running", "succeeded", "failed", "cancelled"] | None,
        typer.Option(help="Only these."),
    ] = None,
    order: Annotated[
        OneOf["asc", "desc"], typer.Option(help="desc: the newest first; asc: as they came.")
    ] = "desc",
    server: Server = None,
    as_json: Json = False,
) -> None:
    """All jobs, the newest first."""
    with connected(server) as client:
        found = list(client.jobs(status, order))
    if as_json:
        print_json(found)
        return
    print_rows(
        f"{len(found)} jobs",
        ("id", "of", "status", "plan", "mode", "events", "created", "finished"),
        (
            (
                j.id,
                j.title,
                j.status,
                j.plan,
                j.mode,
                j.events,
                moment(j.created),
                moment(j.finished),
            )
            for j in found
        ),
    )


@job.command("show")
def show(id: JobId, server: Server = None, as_json: Json = False) -> None:
    """A job as it is now; `watch` waits for its end."""
    with connected(server) as client:
        found = client.job(id)
    _show(found, as_json)


@job.command("watch")
def watch(id: JobId, server: Server = None, as_json: Json = False) -> None:
    """Wait for a job to end, then show it.

    Fails where the job does. It says on a terminal how far the job is; `follow` prints that, and
    the rows, line by line.
    """
    with connected(server) as client:
        found = _waited(client, id)
    _show(found, as_json)


@job.command("follow")
def follow(
    id: JobId,
    rows: Annotated[bool, typer.Option(help="Also what it finds.")] = True,
    server: Server = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print each of them as a line of JSON.")
    ] = False,
) -> None:
    """Print a job's progress and rows as they come.

    A line for each, until the job is over: for a stream, and for other programs to read.
    """
    with connected(server) as client:
        for event in client.follow(id, rows):
            if as_json:
                said = {"id": event.id, "event": event.name, "data": event.data}
                typer.echo(json.dumps(said, ensure_ascii=False))
                continue
            for line in _told(event):
                typer.echo(line)


@job.command("change")
def change(
    id: JobId,
    plan: PlanId,
    server: Server = None,
    as_json: Json = False,
) -> None:
    """Have a running stream go on with another plan.

    Queries come and go; those that stay keep their state.
    """
    with connected(server) as client:
        found = client.change_plan(id, plan)
    if as_json:
        print_json(found)
        return
    words = {"kept": "go on", "afresh": "start afresh", "removed": "are gone"}
    for name, word in words.items():
        if queries := getattr(found, name):
            typer.echo(f"{', '.join(queries)} {word}")


@job.command("operators")
def operators(
    id: JobId,
    everything: Annotated[
        bool, typer.Option("--all", help="Also symbols and events, which are columns of others.")
    ] = False,
    server: Server = None,
    as_json: Json = False,
) -> None:
    """Account for the operators of a job's plan.

    CPU and rows so far beside what was predicted, and state.
    """
    with connected(server) as client:
        found = client.operators(id)
    if as_json:
        print_json(found)
        return
    for line in operator_lines(found, everything):
        typer.echo(line)


@job.command("log")
def log(id: JobId, server: Server = None) -> None:
    """What the job's process printed."""
    with connected(server) as client:
        typer.echo(client.log(id), nl=False)


@job.command("cancel")
def cancel(id: JobId, server: Server = None) -> None:
    """End a job that waits or runs.

    One that is over stays as it is, with its results.
    """
    with connected(server) as client:
        found = client.cancel(id)
    if found.status != "cancelled" and found.finished is not None:
        typer.echo(f"{id} is over ({found.status}), and stays as it is", err=True)


@job.command("delete")
def delete(
    ids: Annotated[list[str], typer.Argument(metavar="JOB...", help="Ids of jobs that are over.")],
    server: Server = None,
) -> None:
    """Delete jobs that are over, with their results.

    Files in sinks stay.
    """
    with connected(server) as client:
        for id in ids:
            client.delete_job(id)


def _waited(client: Client, id: str) -> JobOut:
    """The job when it has succeeded, with what it is at on a terminal meanwhile."""
    from rich.console import Console

    if not on_a_terminal():
        return client.wait(id)
    with Console(stderr=True).status("waiting") as status:
        return client.wait(id, progress=lambda now: status.update(_now(now)))


def _now(job: JobOut) -> str:
    place = f", number {job.position} in the queue" if job.position else ""
    return f"{job.id} {job.status}: {stage_text(job.stage, job.engine)}{place}{_done(job)}"


def _done(job: JobOut) -> str:
    if not job.progress or not job.progress.known:
        return ""
    return f", {job.progress.done / job.progress.known:.0%}"


def _told(event: Event) -> Iterator[str]:
    """An event in a line for each thing it says."""
    from api.cli.terminal.values import cell

    if event.name in ("aggregates", "matches"):
        for row in event.data["rows"]:
            place = f"{row['query']} {cell(row['key'])} at {row['time']}: "
            if "match" in row:
                yield place + cell(row["match"])
            else:
                yield f"{place}{row['aggregate']} = {cell(row['value'])}"
    elif event.name == "end":
        yield f"over: {event.data['status']}"
    else:
        facts = {name: value for name, value in event.data.items() if value not in (None, [], {})}
        yield f"{event.name}: " + ", ".join(f"{name} {cell(v)}" for name, v in facts.items())


def _show(found: JobOut, as_json: bool) -> None:
    if as_json:
        print_json(found)
        return
    facts: list[tuple[str, object]] = [
        ("status", found.status if found.reason is None else f"{found.status}: {found.reason}"),
        ("plan", f"{found.plan} of {found.workload}, version {found.workload_version}"),
        ("source", shown_path(found.source.path)),
        ("runs on", f"{found.engine}, device {found.device}, master {found.master}"),
        ("options", ", ".join(f"{name} {value}" for name, value in found.options.items())),
        ("created", moment(found.created)),
        ("started", moment(found.started)),
        ("finished", moment(found.finished)),
        ("events", found.events),
        ("seconds", _listed(found.seconds)),
        ("rows", _listed(found.rows)),
        ("by query", _listed(found.rows_by_query)),
        ("left out", found.skipped if found.stream is None else None),
        ("files", ", ".join(found.files or ()) or None),
        *_stream_facts(found.stream),
        ("stopped", ", ".join((found.stopped or {}).values()) or None),
        ("dropped", _listed(found.dropped)),
    ]
    print_rows(found.id, ("", ""), [fact for fact in facts if fact[1] not in (None, "", 0)])
    for note in found.notes:
        typer.echo(f"note: {note}", err=True)


def _stream_facts(stream: StreamOut | None) -> list[tuple[str, object]]:
    if stream is None:
        return []
    seconds = f" in {stream.seconds:,.3g} s" if stream.batches else ""
    return [
        ("batches", f"{stream.batches:,}{seconds}"),
        ("up to", stream.until),
        ("state", f"{stream.state / 1e6:,.3g} MB" if stream.state else None),
        ("waiting", stream.waiting or None),
        ("too late", stream.late or None),
        ("no events", stream.bad or None),
        ("restarts", stream.restarts or None),
    ]


def _listed(numbers: dict[str, float] | dict[str, int] | None) -> str | None:
    if numbers is None:
        return None
    return ", ".join(
        f"{name} {number:,.3g}" if isinstance(number, float) else f"{name} {number:,}"
        for name, number in numbers.items()
    )
