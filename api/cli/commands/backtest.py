"""`sheaf backtest`: how many alerts each rule would have raised, by day."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from api.cli.commands.run_options import OnError, Paths
from api.cli.completion import WorkloadName
from api.cli.terminal.json_output import Json, echo_json
from api.cli.terminal.progress import waiting
from api.cli.workload_files import open_workload
from workloads.errors import SheafError

_BARS = " ▁▂▃▄▅▆▇█"
_MOST_DAYS = 60  # of which a bar is drawn


def backtest(
    workload: WorkloadName,
    events: Paths,
    top: Annotated[int, typer.Option(min=1, help="Show so many rules, the noisiest first.")] = 20,
    page: Annotated[
        Path | None,
        typer.Option(metavar="OUT.html", help="Write the table and a chart of each rule besides."),
    ] = None,
    on_error: OnError = "stop",
    as_json: Json = False,
) -> None:
    """Count the alerts of each rule by day over stored events.

    The noisiest rules come first. All rules run as one job.
    """
    from api.explaining.backtest import backtest as counted
    from engines.input.event_paths import given_paths

    parsed, _ = open_workload(workload)
    paths = given_paths(events, parsed.stream.sources)
    with waiting("running the rules"):
        found = counted(parsed, paths, on_error)
    if page is not None:
        from api.explaining.alert_page import alert_page

        try:
            page.write_text(alert_page(found, top), encoding="utf-8")
        except OSError as error:
            raise SheafError(f"cannot write '{page}': {error.strerror}") from error
    if as_json:
        echo_json(found)
        return
    for line in _lines(found, top):
        typer.echo(line)
    for reason in found["stopped"].values():
        typer.echo(f"error: {reason}", err=True)
    for note in found["notes"]:
        typer.echo(f"note: {note}", err=True)


def _lines(found: Mapping[str, Any], top: int) -> Iterator[str]:
    rules, days = found["rules"], found["days"]
    loud = [rule for rule in rules if rule["alerts"]]
    yield (
        f"{found['workload']}: {found['alerts']:,} alerts of {len(loud):,} of {len(rules):,} rules "
        f"over {found['events']:,} events, on {len(days):,} days"
    )
    if not loud:
        return
    drawn = days[-_MOST_DAYS:]
    yield f"a bar for each day with alerts, {drawn[0]} to {drawn[-1]}"
    yield ""
    width = max(len(f"{rule['alerts']:,}") for rule in loud)
    for rule in loud[:top]:
        most = max(rule["by_day"].values())
        busiest = next(day for day, number in rule["by_day"].items() if number == most)
        named = " · ".join(str(part) for part in (rule["title"], rule["level"]) if part)
        yield (
            f"{rule['alerts']:>{width},}  {_drawn(rule['by_day'], drawn)}  {rule['query']}"
            + (f" ({named})" if named else "")
            + f", most on {busiest}: {most:,}"
        )
    if len(loud) > top:
        more = len(loud) - top
        yield f"… and {more:,} more {'rule' if more == 1 else 'rules'} with alerts (--top)"


def _drawn(by_day: Mapping[str, int], days: Sequence[str]) -> str:
    """A bar for each day, by the most of any."""
    most = max(by_day.values())
    return "".join(_BARS[-(-by_day.get(day, 0) * (len(_BARS) - 1) // most)] for day in days)
