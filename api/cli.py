"""The `sheaf` command."""

import typer

from api import checks

app = typer.Typer(no_args_is_help=True, add_completion=False)


@app.callback()
def sheaf() -> None:
    """Run many event-pattern queries over one stream as a single shared Spark job."""


app.command(context_settings=checks.PASS_ON)(checks.test)


def main() -> None:
    """Run the command given on the command line."""
    app()
