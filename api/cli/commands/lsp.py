"""`sheaf lsp`: workloads in editors."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Annotated

import typer

from workloads.errors import SheafError


def lsp(
    events: Annotated[
        str | None,
        typer.Option(metavar="PATH", help="Events whose columns are completed and explained."),
    ] = None,
) -> None:
    """Serve workload files to an editor as a language server.

    Findings at their place, completion, explanations and formatting, over standard input and
    output. Editors start it.
    """
    if find_spec("pygls") is None:
        raise SheafError("the language server needs pygls: install sheaf[lsp]")
    from api.editing.language_server import language_server

    language_server(events).start_io()
