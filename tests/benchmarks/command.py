"""What `sheaf bench` runs: what is faster than what, and by how much, on this machine."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Annotated
from typing import Literal as OneOf

import typer

from api.cli.main import Commands

if TYPE_CHECKING:
    from tests.benchmarks import Row

app = typer.Typer(
    cls=Commands,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback()
def benchmarks() -> None:
    """Benchmarks of a source checkout."""


@app.command()
def bench(
    name: Annotated[
        str | None,
        typer.Argument(
            help="Which benchmark: length, window, negation, chopconnect, experiment2, planning, "
            "model, plan-fidelity, queries, sql, devices, zstream, odense, passdown, neel, "
            "detection, strategies, joins, rowpattern, funnels, spark, live, service, access, "
            "tpstream, rules, whole, "
            "or stream for your own; all but that if none."
        ),
    ] = None,
    rows: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[ROW]...", help="For whole: only these of its rows, such as shop or stocks."
        ),
    ] = None,
    events: Annotated[
        str | None, typer.Option(metavar="PATH", help="Your events. For stream and rules.")
    ] = None,
    rules: Annotated[
        str | None, typer.Option(metavar="PATH", help="Your Sigma rules, a folder. For rules.")
    ] = None,
    logsources: Annotated[
        str | None, typer.Option(metavar="PATH", help="What their log sources mean. For rules.")
    ] = None,
    workload: Annotated[
        str | None, typer.Option(metavar="WORKLOAD", help="Your queries. For stream.")
    ] = None,
    form: Annotated[
        OneOf["text", "markdown", "json"],
        typer.Option("--format", help="JSON is an object a line."),
    ] = "text",
    as_json: Annotated[bool, typer.Option("--json", help="As --format json.")] = False,
    small: Annotated[bool, typer.Option("--small", help="A few seconds, to see that it works.")] = (
        False
    ),
    full: Annotated[
        bool, typer.Option("--full", help="For whole: 20 M events on Spark and for memory.")
    ] = False,
) -> None:
    """Measure; every ratio compares times of one run, and variants that differ in results fail."""
    from tests.benchmarks import by_own_rules, by_whole, tables
    from workloads.errors import SheafError

    benchmarks: dict[str, tuple[str, Callable[[], Iterator[Row]]]]
    if name == "rules" and rules is not None and events is not None:
        found = partial(by_own_rules, rules, events, logsources, _size(small))
        benchmarks = {name: (_about(by_own_rules), found)}
    elif rules is not None or logsources is not None:
        raise SheafError("--rules and --events go together, with the benchmark 'rules'")
    else:
        benchmarks = _chosen(name, events, workload, small)
    if name == "whole":
        benchmarks = {name: (_about(by_whole), partial(by_whole, _size(small), rows or (), full))}
    elif rows or full:
        raise SheafError("rows and --full are for the benchmark 'whole'")
    form = "json" if as_json else form
    if form == "markdown":
        typer.echo(f"{_machine()} {tables.UNITS}\n")
    elif form == "text":
        typer.echo(f"{_machine()}\n{tables.UNITS}")
    for chosen, (text, rows_of) in benchmarks.items():
        if form == "json":
            lines: Iterator[str] = map(tables.as_json, rows_of())
        elif form == "markdown":
            lines = tables.as_markdown(chosen, text, rows_of())
        else:
            typer.echo(f"\n{chosen}: {text}")
            lines = tables.as_text(rows_of())
        for line in lines:
            typer.echo(line)


def _chosen(
    name: str | None, events: str | None, workload: str | None, small: bool
) -> dict[str, tuple[str, Callable[[], Iterator[Row]]]]:
    """The benchmarks asked for: what each is about, and what makes its rows."""
    from tests.benchmarks import BENCHMARKS, by_stream
    from workloads.errors import SheafError, did_you_mean

    size = _size(small)
    if name == "stream" or events is not None or workload is not None:
        if name not in (None, "stream") or events is None or workload is None:
            raise SheafError("--events and --workload go together, with the benchmark 'stream'")
        return {"stream": (_about(by_stream), partial(by_stream, events, workload, size))}
    if name is not None and name not in BENCHMARKS:
        known = [*BENCHMARKS, "stream"]
        hint = did_you_mean(name, known) or f"known are {', '.join(known)}"
        raise SheafError(f"no benchmark is called '{name}'; {hint}")
    names = BENCHMARKS if name is None else [name]
    return {n: (_about(BENCHMARKS[n]), partial(BENCHMARKS[n], size)) for n in names}


def _size(small: bool) -> OneOf["small", "full"]:
    return "small" if small else "full"


def _about(benchmark: Callable[..., object]) -> str:
    """A benchmark's docstring on one line."""
    return " ".join((benchmark.__doc__ or "").split())


def _machine() -> str:
    import os
    import platform
    from importlib.metadata import version

    return (
        f"Measured with sheaf {version('sheaf')}, Python {platform.python_version()} and numba "
        f"{version('numba')} on {os.cpu_count()} cores ({platform.machine()})."
    )
