"""The `sheaf` command."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from functools import cache
from importlib import import_module
from typing import Annotated, Any, NamedTuple

import typer
from typer.core import TyperGroup

from api.cli.interruption import interruptible
from api.cli.plain_values import take_plain_values
from api.cli.terminal.colour import echo_error
from workloads.errors import SheafError, WorkloadError


class Commands(TyperGroup):
    """Says what is wrong with what the user gave in a sentence; tracebacks are for bugs."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except SheafError as error:
            text = str(error)
            prefixed = isinstance(error, WorkloadError) or text.startswith("error:")
            echo_error(text if prefixed else f"error: {text}")
        except BrokenPipeError:
            raise  # click ends quietly where a reader such as `head` has had enough
        except OSError as error:
            if error.filename is None or error.strerror is None:
                raise
            echo_error(f"error: {error.filename}: {error.strerror}")
        raise typer.Exit(1)


class _Place(NamedTuple):
    """Where a command is: a function, or an application with commands of its own."""

    module: str
    name: str
    sections: bool = False  # is its help long?
    passes_on: bool = False  # are its arguments another program's?


_COMMANDS = {
    "demo": _Place("api.cli.commands.demo", "demo"),
    "check": _Place("api.cli.commands.check", "check"),
    "describe": _Place("api.cli.commands.describe", "describe"),
    "plan": _Place("api.cli.commands.plan", "plan"),
    "what-if": _Place("api.cli.commands.what_if", "what_if"),
    "run": _Place("api.cli.commands.run", "run", sections=True),
    "test-rules": _Place("api.cli.commands.rule_tests", "run_rule_tests"),
    "why": _Place("api.cli.commands.why", "why"),
    "backtest": _Place("api.cli.commands.backtest", "backtest"),
    "index": _Place("api.cli.commands.index", "index"),
    "stream": _Place("api.cli.commands.stream", "commands"),
    "lsp": _Place("api.cli.commands.lsp", "lsp"),
    "serve": _Place("api.cli.commands.serve", "serve"),
    "workload": _Place("api.cli.commands.workload", "workload"),
    "job": _Place("api.cli.commands.job", "job"),
    "results": _Place("api.cli.commands.results", "results"),
    "import": _Place("api.cli.commands.import_rules", "import_rules"),
    "generate": _Place("api.cli.commands.generate", "generate"),
    "bench": _Place("api.cli.commands.bench", "bench", passes_on=True),
    "devices": _Place("api.cli.commands.devices", "devices"),
    "calibrate": _Place("api.cli.commands.calibrate", "calibrate"),
    "test": _Place("api.cli.checks", "test", passes_on=True),
}


def _show_version(asked: bool) -> None:
    if asked:
        from importlib.metadata import version

        typer.echo(f"sheaf {version('sheaf')}")
        raise typer.Exit


def sheaf(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Show it and exit."),
    ] = False,
) -> None:
    """Run many event-pattern queries over one stream as a single shared Spark job.

    WORKLOAD is a file, or the name of a bundled workload: shop, funnels, stocks, hospital,
    driving or machines.
    """


def application(names: Iterable[str]) -> typer.Typer:
    """The application with these commands; what only others need is not loaded."""
    made = typer.Typer(
        cls=Commands,
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    made.callback()(sheaf)
    for name in names:
        place = _COMMANDS[name]
        found = getattr(import_module(place.module), place.name)
        if isinstance(found, typer.Typer):
            made.add_typer(found, name=name)
        elif place.passes_on:
            from api.cli.checks import PASS_ON

            made.command(name=name, context_settings=PASS_ON)(found)
        elif place.sections:
            from api.cli.terminal.help_sections import SectionedCommand

            made.command(name=name, cls=SectionedCommand)(found)
        else:
            made.command(name=name)(found)
    return made


@cache
def _complete() -> typer.Typer:
    return application(_COMMANDS)


def __getattr__(name: str) -> typer.Typer:
    """`app`, the application with all commands, which takes longer to load."""
    if name == "app":
        return _complete()
    raise AttributeError(name)


def main() -> None:
    """Run the command given on the command line."""
    first = sys.argv[1] if len(sys.argv) > 1 else ""
    is_whole = first not in _COMMANDS or any(name.endswith("_COMPLETE") for name in os.environ)
    take_plain_values()
    chosen = _complete() if is_whole else application([first])
    with interruptible():
        sys.exit(chosen(standalone_mode=True))
