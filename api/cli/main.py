"""The `sheaf` command."""

from __future__ import annotations

import sys
from importlib.metadata import version
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from api.cli import checks
from api.cli.commands.bench import PASS_ON, bench
from api.cli.commands.calibrate import calibrate
from api.cli.commands.check import check
from api.cli.commands.demo import demo
from api.cli.commands.devices import devices
from api.cli.commands.generate import generate
from api.cli.commands.job import job
from api.cli.commands.plan import plan
from api.cli.commands.results import results
from api.cli.commands.run import run
from api.cli.commands.serve import serve
from api.cli.commands.stream import commands as stream
from api.cli.commands.workload import workload
from api.cli.interruption import interruptible
from api.cli.terminal.colour import echo_error
from api.cli.terminal.help_sections import SectionedCommand
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


app = typer.Typer(
    cls=Commands,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(asked: bool) -> None:
    if asked:
        typer.echo(f"sheaf {version('sheaf')}")
        raise typer.Exit


@app.callback()
def sheaf(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Show it and exit."),
    ] = False,
) -> None:
    """Run many event-pattern queries over one stream as a single shared Spark job.

    WORKLOAD is a file, or the name of a bundled workload: shop, stocks or hospital.
    """


app.command()(demo)
app.command()(check)
app.command()(plan)
app.command(cls=SectionedCommand)(run)
app.add_typer(stream, name="stream")
app.command()(serve)
app.add_typer(workload, name="workload")
app.add_typer(job, name="job")
app.command()(results)
app.command()(generate)
app.command(context_settings=PASS_ON)(bench)
app.command()(devices)
app.command()(calibrate)
app.command(context_settings=checks.PASS_ON)(checks.test)


def main() -> None:
    """Run the command given on the command line."""
    with interruptible():
        sys.exit(app(standalone_mode=True))
