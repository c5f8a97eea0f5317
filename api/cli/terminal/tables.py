"""Result rows as a table on the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any
from typing import Literal as OneOf

from api.cli.terminal.values import rows

if TYPE_CHECKING:
    import pyarrow as pa
    from rich.console import Console

NUMBERS = ("time", "start", "end", "seq", "value", "count")
WIDTH_OF_A_PIPE = 200
SINGULAR = {"aggregates": "aggregate", "matches": "match"}
MIN_COLUMN_WIDTH = 12  # characters that are left of an object


def print_table(
    table: pa.Table,
    kind: str,
    limit: int,
    console: Console | None = None,
    number: int | None = None,
) -> None:
    """The first rows of a table, saying how many there are.

    `number` says how many there are where the table holds only the first.
    """
    number = table.num_rows if number is None else number
    print_rows(rows(table, 0, limit), table.column_names, kind, limit, console, number)


def print_rows(
    shown: list[dict[str, Any]],
    columns: Sequence[str],
    kind: str,
    limit: int,
    console: Console | None,
    number: int,
) -> None:
    """Rows as plain values, of `number` that there are; columns that say nothing are left out."""
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = console or Console()
    if not console.is_terminal:
        console.width = max(console.width, WIDTH_OF_A_PIPE)
    names = [name for name in columns if not _says_nothing(name, shown)]
    cells = [[cell(row[name]) for name in names] for row in shown]
    widths = _fitted(
        {
            name: max(len(name), *(len(row[place]) for row in cells))
            for place, name in enumerate(names)
        },
        console.width,
    )
    total = f"{number:,} {SINGULAR[kind] if number == 1 else kind}"
    title = total if number <= limit else f"{total}, the first {limit}"
    printed = Table(
        title=title, title_justify="left", box=box.SIMPLE_HEAD, title_style="bold", padding=(0, 1)
    )
    for name, width in widths.items():
        side: OneOf["left", "right"] = "right" if name in NUMBERS else "left"
        printed.add_column(name, justify=side, no_wrap=True, overflow="ellipsis", max_width=width)
    for row in cells:
        printed.add_row(*map(Text, row))
    console.print(printed)


def _says_nothing(name: str, shown: list[dict[str, Any]]) -> bool:
    values = [row[name] for row in shown]
    return all(value is None for value in values) or (name == "exact" and all(values))


def _fitted(widths: dict[str, int], available: int) -> dict[str, int]:
    """What does not fit is cut from the objects, never from the numbers."""
    fitted = dict(widths)
    for name in ("match", "key"):
        if name in fitted:
            excess = sum(width + 3 for width in fitted.values()) + 1 - available
            fitted[name] = min(fitted[name], max(MIN_COLUMN_WIDTH, fitted[name] - max(0, excess)))
    return fitted


def cell(value: Any, digits: int = 12) -> str:
    """A value as short as it can be said: objects as `a.x=1 b.x=2`."""
    match value:
        case None:
            return ""
        case bool():
            return "yes" if value else "no"
        case float():
            return f"{value:,.{digits}g}"
        case dict():
            return " ".join(_fields(value, "", digits))
        case _:
            return str(value)


def _fields(value: dict[str, Any], prefix: str, digits: int) -> list[str]:
    found: list[str] = []
    for name, inner in value.items():
        if isinstance(inner, dict):
            found += _fields(inner, f"{prefix}{name}.", digits)
        elif isinstance(inner, list):
            found.append(f"{prefix}{name}=[{len(inner)}]")
        else:
            found.append(f"{prefix}{name}={cell(inner, digits)}")
    return found
