"""`%%sheaf`: a cell that is a workload, or a query over the stream of one."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

from api.cli.workload_files import workload_of_text
from api.notebooks.tables import table_html
from workloads.errors import SheafError, did_you_mean
from workloads.workload import to_document

HELP = """%%sheaf [EVENTS] [--workload W] [--as NAME] [--plan]

The cell is a workload in YAML; with --workload it is one query over the stream of W, which is a
variable, a file, or the name of a bundled workload. EVENTS is a variable that has a table or a data
frame, or a path; without it the cell gives a plan, and so it does with --plan. What the cell gives
is kept as NAME too.
"""


class MagicError(SheafError):
    """A line after %%sheaf that cannot be read."""


class _Arguments(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise MagicError(f"%%sheaf: {message}\n{HELP}")


def add_magic(shell: Any, load: Callable[[Any], Any]) -> None:
    """Give an IPython shell `%%sheaf`, and tables of Arrow as HTML.

    `load` is that of `sheaf`, which takes a workload that has been read as well.
    """

    def sheaf(line: str, cell: str) -> Any:
        return run_cell(line, cell, shell.user_ns, load)

    sheaf.__doc__ = HELP
    shell.register_magic_function(sheaf, "cell", "sheaf")
    html = shell.display_formatter.formatters["text/html"]
    html.for_type_by_name("pyarrow.lib", "Table", table_html)


def run_cell(line: str, cell: str, names: dict[str, Any], load: Callable[[Any], Any]) -> Any:
    """What a cell gives: the results of its workload over events, or its plan."""
    arguments = _arguments(line)
    events = _events(arguments.events, names)
    if arguments.workload is None:
        workload = load(workload_of_text(cell))
    else:
        stream = load(_named(arguments.workload, names))
        workload = load(to_document(stream) | {"queries": [cell]})
    plan = workload.plan(events)
    given = plan if events is None or arguments.plan else plan.run(events)
    if arguments.name is not None:
        names[arguments.name] = given
    return given


def _arguments(line: str) -> argparse.Namespace:
    parser = _Arguments(prog="%%sheaf", add_help=False, allow_abbrev=False)
    parser.add_argument("events", nargs="?")
    parser.add_argument("--workload")
    parser.add_argument("--as", dest="name")
    parser.add_argument("--plan", action="store_true")
    try:
        words = shlex.split(line)
    except ValueError as error:
        raise MagicError(f"%%sheaf: {error}\n{HELP}") from error
    found = parser.parse_args(words)
    if found.name is not None and not found.name.isidentifier():
        raise MagicError(f"%%sheaf: '{found.name}' is no name of a variable")
    return found


def _events(text: str | None, names: dict[str, Any]) -> Any:
    """The value of a variable, or a path; a name that is neither is refused."""
    if text is None or text in names or not text.isidentifier() or Path(text).exists():
        return _named(text, names)
    known = [name for name in names if not name.startswith("_")]
    hint = did_you_mean(text, known) or "give a table, a data frame or a path"
    raise MagicError(f"%%sheaf: there is no variable '{text}', and no file; {hint}")


def _named(text: str | None, names: dict[str, Any]) -> Any:
    """The value of a variable, or the text itself."""
    return None if text is None else names.get(text, text)
