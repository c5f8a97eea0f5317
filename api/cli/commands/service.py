"""What the commands that talk to a service have in common: which one, and how answers are shown."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from api.cli.terminal.json_output import echo_json

if TYPE_CHECKING:
    from datetime import datetime

    from pydantic import BaseModel
    from rich.console import Console

    from api.client import Client

Server = Annotated[
    str | None,
    typer.Option(
        metavar="URL",
        help="A service to talk to, or SHEAF_SERVER; without one this command is its own, "
        "on the data of `sheaf serve`. The token is taken from SHEAF_TOKEN.",
        envvar="SHEAF_SERVER",
        show_envvar=False,
    ),
]


@contextmanager
def connected(server: str | None) -> Iterator[Client]:
    """A client of the service at an address, or of one inside this process."""
    from api.client import Client

    token = os.environ.get("SHEAF_TOKEN")
    if server is not None:
        with Client(server, token) as client:
            yield client
        return
    from api.http.app import create_app
    from api.http.embedded_server import serving
    from api.http.settings import from_environment

    # Whoever may start a service may do all: tokens are for those who come over the network.
    with (
        serving(create_app(from_environment(tokens=()))) as address,
        Client(address) as client,
    ):
        yield client


def print_json(found: BaseModel | Sequence[BaseModel]) -> None:
    """An answer as JSON, in full."""
    if isinstance(found, Sequence):
        plain: Any = [one.model_dump(mode="json", exclude_none=True) for one in found]
    else:
        plain = found.model_dump(mode="json", exclude_none=True)
    echo_json(plain)


def console() -> Console:
    """Where tables go; in a pipe they are as wide as they need to be."""
    from rich.console import Console

    made = Console(highlight=False)
    if not made.is_terminal:
        made.width = 200
    return made


def print_rows(title: str, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """A table with a title above; numbers are set to the right."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    rows = list(rows)
    table = Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD)
    for place, name in enumerate(columns):
        numbers = bool(rows) and all(isinstance(row[place], int | float) for row in rows)
        table.add_column(name, justify="right" if numbers else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(_cell(value)) for value in row))
    console().print(table)


def _cell(value: Any) -> str:
    match value:
        case None:
            return ""
        case int():
            return f"{value:,}"
        case float():
            return f"{value:,.4g}"
        case _:
            return str(value)


def moment(time: datetime | None) -> str:
    """A time of the service's as the local clock has it."""
    return "" if time is None else time.astimezone().strftime("%Y-%m-%d %H:%M:%S")


def on_a_terminal() -> bool:
    return sys.stderr.isatty()
