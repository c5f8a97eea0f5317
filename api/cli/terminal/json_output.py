"""`--json`, which is the same option wherever a command has it: one JSON document on stdout."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

Json = Annotated[bool, typer.Option("--json", help="Print it as one JSON document.")]


def echo_json(found: Any) -> None:
    """Plain values as JSON, in full."""
    typer.echo(json.dumps(found, indent=2, ensure_ascii=False))
