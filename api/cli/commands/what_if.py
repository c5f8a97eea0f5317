"""`sheaf what-if`: what a plan would cost without some queries, or with other windows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from api.cli.commands.run_options import SamplePaths
from api.cli.completion import WorkloadName
from api.cli.terminal.json_output import Json, echo_json
from api.cli.terminal.progress import waiting
from api.cli.workload_files import open_workload
from workloads.errors import SheafError

_MOST_QUERIES = 20  # whose costs are shown
_BOUNDS = (100_000, 60.0)  # candidates, and seconds of searching


def what_if(
    workload: WorkloadName,
    without: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Leave out a query; may be given several times."),
    ] = None,
    window: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=WINDOW",
            help="Give a query another window: purchases='5 min'; may be given several times.",
        ),
    ] = None,
    windows_of: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="Try the windows of other queries that read what this one reads."
        ),
    ] = None,
    events: SamplePaths = None,
    picture: Annotated[
        Path | None,
        typer.Option(metavar="OUT.svg", help="Draw the changed plan."),
    ] = None,
    server: Annotated[
        str | None,
        typer.Option(metavar="URL", help="A service; WORKLOAD is then the id of a plan there."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Show what a plan would cost with fewer queries or other windows.

    WORKLOAD may also be a plan, as 'plan --format json' writes it. Nothing is kept.
    """
    from api.planning.what_if import Changes

    if windows_of is not None and (without or window or picture):
        raise SheafError("--windows-of tries windows one by one; leave out the other changes")
    if server is not None and events:
        raise SheafError("--events is for plans that are made here, without --server")
    changes = Changes(tuple(without or ()), _windows(window or ()))
    with waiting("planning"):
        found = _found(workload, events, server, changes, windows_of)
    if picture is not None:
        try:
            picture.write_text(found["picture"], encoding="utf-8")
        except OSError as error:
            raise SheafError(f"cannot write '{picture}': {error.strerror}") from error
    if as_json:
        echo_json(found)
        return
    lines = _changed(found) if windows_of is None else _tried(windows_of, found)
    for line in lines:
        typer.echo(line)


def _found(
    workload: str,
    events: Sequence[str] | None,
    server: str | None,
    changes: Any,
    windows_of: str | None,
) -> Any:
    """The answer, from a service or made here."""
    from api.planning import what_if as planning

    if server is not None:
        from api.cli.commands.service import connected

        with connected(server) as client:
            if windows_of is not None:
                tried = [w.model_dump(by_alias=True) for w in client.windows(workload, windows_of)]
                now = client.get_plan(workload).physical.cost
                return {"before": asdict(now), "windows": tried}
            said = client.what_if(workload, changes.without, changes.windows)
            return said.model_dump(by_alias=True)
    document = _plan(workload, events)
    if windows_of is not None:
        tried = planning.other_windows(document, windows_of, *_BOUNDS)
        return {"before": document["cost"], "windows": tried}
    return planning.what_if(document, changes, *_BOUNDS)


def _plan(workload: str, events: Sequence[str] | None) -> dict[str, Any]:
    """The plan of a workload, or the one that a file holds."""
    from api.cli.commands.plan import read_plan
    from api.planning.plan_on_events import plan_on_events
    from engines.input.event_paths import given_paths
    from optimizer.plan.plan import to_json

    if workload.endswith(".json") and '"operators"' in _text(workload):
        if events:
            raise SheafError("--events is for workloads; a plan has its statistics")
        return dict(to_json(read_plan(Path(workload))))
    parsed, _ = open_workload(workload)
    paths = given_paths(events, parsed.stream.sources) if events else None
    return dict(to_json(plan_on_events(parsed, paths)))


def _text(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return ""  # which opening it as a workload says


def _windows(given: Sequence[str]) -> dict[str, str]:
    found = {}
    for text in given:
        name, equals, window = text.rpartition("=")
        if not equals:
            raise SheafError(f"--window is '{text}'; write NAME=WINDOW, such as q1='5 min'")
        found[name] = window
    return found


def _changed(found: Mapping[str, Any]) -> Iterator[str]:
    from optimizer.explain.text import amount

    before, after = found["before"], found["cost"]
    unit = after["unit"]

    def row(name: str, was: float, now: float, more: str = "") -> str:
        change = f"{100 * (now - was) / was:+.1f} %" if was else ""
        return f"{amount(was, unit):>12} {amount(now, unit):>12} {change:>9}  {name}{more}"

    what = "of CPU for each second of stream" if unit.startswith("nanoseconds") else unit
    yield f"{'before':>12} {'then':>12} {'':>9}  {what}"
    yield row("the plan", before["shared"], after["shared"])
    yield row("query by query", before["separate"], after["separate"])
    yield ""
    moved = [q for q in found["queries"] if _moves(q)]
    for query in sorted(moved, key=lambda q: -abs(q["cost"] - q["before"]))[:_MOST_QUERIES]:
        yield row(query["name"], query["before"], query["cost"], _company(query))
    if len(moved) > _MOST_QUERIES:
        yield f"… and {len(moved) - _MOST_QUERIES:,} more queries whose costs change (--json)"
    if not moved:
        yield "no query costs more or less than before"


def _moves(query: Mapping[str, Any]) -> bool:
    is_other = bool(abs(query["cost"] - query["before"]) > 1e-3 * max(query["before"], 1e-9))
    return is_other or bool(query["with"] != query["before_with"])


def _company(query: Mapping[str, Any]) -> str:
    """With whom a query no longer shares pieces, or does from now on."""
    was, now = set(query["before_with"]), set(query["with"])
    lost, won = sorted(was - now), sorted(now - was)
    said = [f"no longer with {', '.join(lost)}"] * bool(lost)
    said += [f"now with {', '.join(won)}"] * bool(won)
    return f" ({'; '.join(said)})" if said else ""


def _tried(name: str, found: Mapping[str, Any]) -> Iterator[str]:
    from optimizer.explain.text import amount

    if not found["windows"]:
        yield f"no other query that reads what '{name}' reads has another window"
        return
    before = found["before"]
    yield f"{amount(before['shared'], before['unit']):>12}  as it is"
    for each in found["windows"]:
        shared = f", shares with {', '.join(each['with'])}" if each["with"] else ""
        cost = amount(each["cost"]["shared"], each["cost"]["unit"])
        yield f"{cost:>12}  {each['window']}, of {', '.join(each['of'])}{shared}"
