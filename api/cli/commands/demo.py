"""`sheaf demo`: the whole way of a workload, from HTTP through Spark and back, in one command."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from api.cli.terminal.command_name import command_name, in_checkout
from workloads.errors import SheafError

if TYPE_CHECKING:
    import httpx
    from rich.console import Console

WORKLOAD = "shop"
EVENTS = 100_000
FILES = 2  # that the live stream comes in


def demo(
    events: Annotated[int, typer.Option(min=1, help="How many events to generate.")] = EVENTS,
) -> None:
    """Go the whole way: service, plan, Spark job, live stream.

    A workload is posted to a service, planned, and run on Spark over stored events and live.
    """
    import httpx
    from rich.console import Console

    from api.http.app import create_app
    from api.http.embedded_server import serving
    from api.http.settings import Settings

    console = Console(highlight=False)
    console.print(
        "[bold]Sheaf[/bold] runs many event-pattern queries over one stream as one job.\n"
    )
    with (
        tempfile.TemporaryDirectory(prefix="sheaf-demo-") as folder,
        serving(create_app(Settings(data=Path(folder) / "data", roots=(Path(folder),)))) as address,
        httpx.Client(base_url=address, timeout=60) as client,
    ):
        _step(console, 1, "The service is up, inside this process", f"{address}, for browsers too")
        path = _generate(console, Path(folder), events)
        workload = _post_workload(console, client)
        plan = _post_plan(console, client, workload)
        job = _run_job(console, client, plan, path)
        _show_results(console, client, job)
        _run_stream(console, client, job, path)
    console.print("\nRead on")
    for command, what in _read_on():
        console.print(f"  [cyan]{command:<50}[/cyan] {what}", soft_wrap=True)


def _read_on() -> Iterator[tuple[str, str]]:
    """What can be typed next, and what it gives."""
    sheaf = command_name()
    yield f"{sheaf} plan {WORKLOAD} --format svg > plan.svg", "this plan as a picture"
    yield f"{sheaf} generate {WORKLOAD} --out events.parquet", "events to keep"
    yield f"{sheaf} run {WORKLOAD} --events events.parquet", "the same queries without a service"
    yield f"{sheaf} serve", "the service, with its pages for a browser"
    if in_checkout():
        yield "docs/language.md", "how queries are written"


def _step(console: Console, number: int, title: str, detail: str = "") -> None:
    shown = f"  [dim]{detail}[/dim]" if detail else ""
    console.print(f"[bold cyan]{number}[/bold cyan]  [bold]{title}[/bold]{shown}", soft_wrap=True)


def _generate(console: Console, folder: Path, events: int) -> Path:
    from workloads import bundled
    from workloads.generators import write_events

    path = folder / "events.parquet"
    start = time.perf_counter()
    write_events(bundled.stream(WORKLOAD, events), path)
    passed = time.perf_counter() - start
    size = path.stat().st_size / 1e6
    detail = f"{size:.1f} MB of Parquet in {passed:.1f} s"
    _step(console, 2, f"{events:,} events of a shop's click stream", detail)
    return path


def _post_workload(console: Console, client: httpx.Client) -> dict[str, Any]:
    from workloads import bundled

    workload = _answer(
        client.post(
            "/v1/workloads",
            content=bundled.path(WORKLOAD).read_bytes(),
            headers={"content-type": "application/yaml"},
        )
    )
    aggregate = sum(query["kind"] == "aggregate" for query in workload["queries"])
    many = len(workload["queries"])
    title = f"{many} queries over {len(workload['types'])} event types"
    _step(console, 3, title, f"POST /v1/workloads -> {workload['id']}")
    console.print(
        f"   {aggregate} aggregate over the matches in a window, "
        f"{many - aggregate} return the matches themselves.\n"
    )
    return workload


def _post_plan(console: Console, client: httpx.Client, workload: dict[str, Any]) -> dict[str, Any]:
    from rich.padding import Padding
    from rich.text import Text

    plan = _answer(client.post(f"/v1/workloads/{workload['id']}/plans", json={}))
    _step(console, 4, "The plan", f"POST /v1/workloads/{workload['id']}/plans -> {plan['id']}")
    text = client.get(f"/v1/plans/{plan['id']}", params={"format": "text"}).text.rstrip()
    head, _, rest = text.partition("\n\n")
    for line in head.splitlines():  # what it comes to, in full
        console.print(Padding(Text(line), (0, 0, 0, 3)))
    for line in ("", *rest.splitlines()):
        console.print(Text(f"   {line}".rstrip()), no_wrap=True, overflow="ellipsis", crop=True)
    console.print(
        f"\n   [dim]In a browser, while this runs: {client.base_url}/plans/{plan['id']}[/dim]\n",
        soft_wrap=True,
    )
    return plan


def _run_job(
    console: Console, client: httpx.Client, plan: dict[str, Any], path: Path
) -> dict[str, Any]:
    body = {"plan": plan["id"], "source": {"path": str(path)}, "mode": "batch"}
    job = _answer(client.post("/v1/jobs", json=body))
    _step(console, 5, "The plan as a Spark job", f"POST /v1/jobs -> {job['id']}")
    job = _waited(console, client, job)
    seconds = job["seconds"]
    console.print(
        f"   {job['events']:,} events in {seconds['run']:.1f} s"
        f" [dim](and {seconds['start']:.1f} s for Spark to start)[/dim]\n"
    )
    return job


def _run_stream(console: Console, client: httpx.Client, stored: dict[str, Any], path: Path) -> None:
    """The same plan over the same events as they come, and whether it finds the same."""
    import pyarrow.parquet as pq

    folder = path.with_name("live")
    folder.mkdir()
    events = pq.read_table(path)
    size = -(-events.num_rows // FILES)
    for number in range(FILES):
        file = folder / f"{number}.parquet"
        pq.write_table(events.slice(number * size, size), file)
        # Files are taken by their times, to the millisecond; within one they would have no order.
        os.utime(file, (number, number))
    live = {"files": 1, "buckets": 2, "once": True, "finish": True}
    body = {"plan": stored["plan"], "source": str(folder), "mode": "stream", "stream": live}
    job = _answer(client.post("/v1/jobs", json=body))
    console.print()
    _step(console, 7, "The plan over a live stream", f"POST /v1/jobs -> {job['id']}")
    job = _waited(console, client, job)
    if job["rows"] != stored["rows"]:
        raise SheafError(f"the stream found {job['rows']}, the stored events {stored['rows']}")
    did = job["stream"]
    console.print(
        f"   {FILES} files came one after the other, in {did['batches']} batches and "
        f"{did['seconds']:.1f} s: the same {sum(job['rows'].values()):,} rows.",
        soft_wrap=True,
    )


def _waited(console: Console, client: httpx.Client, job: dict[str, Any]) -> dict[str, Any]:
    """The job when it has succeeded, with what it is at meanwhile."""
    with console.status("waiting") as status:
        while job["status"] in ("queued", "running"):
            status.update(_now(job))
            time.sleep(0.2)
            job = _answer(client.get(f"/v1/jobs/{job['id']}"))
    if job["status"] != "succeeded":
        raise SheafError(f"the job {job['status']}: {job['reason']}")
    return job


def _now(job: dict[str, Any]) -> str:
    """What a job is doing, in a few words."""
    from api.cli.terminal.progress import stage_text

    if job["stream"] is not None and job["stream"]["batches"]:
        return f"batch {job['stream']['batches']}, {job['events']:,} events"
    progress = job["progress"]
    done = f", {progress['done'] / progress['known']:.0%}" if progress and progress["known"] else ""
    return stage_text(str(job["stage"]), "spark") + done


def _show_results(console: Console, client: httpx.Client, job: dict[str, Any]) -> None:
    from api.cli.terminal.first_rows import QueryRows, print_first_rows

    queries = _answer(client.get(f"/v1/plans/{job['plan']}"))["queries"]
    total = sum(job["rows"].values())
    _step(console, 6, f"{total:,} rows of results", f"GET /v1/jobs/{job['id']}/results")
    shown = []
    for query in queries:
        found = _answer(
            client.get(f"/v1/jobs/{job['id']}/results", params={"query": query, "limit": 8})
        )
        number = sum(found["total"].values())
        shown.append(QueryRows(query, number, found["aggregates"] + found["matches"]))
    print_first_rows(shown, console, most=1, indent=3)


def _answer(response: httpx.Response) -> dict[str, Any]:
    """The body of an answer; a problem becomes an error that says what it says."""
    body: dict[str, Any] = response.json()
    if response.is_error:
        raise SheafError(f"{body['title']}: {body['detail']}")
    return body
