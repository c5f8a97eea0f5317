"""Result rows as a table on the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from typing import Literal as OneOf

from api.rows import rows

if TYPE_CHECKING:
    import pyarrow as pa
    from rich.console import Console

NUMBERS = ("time", "start", "end", "seq", "value", "count")


def print_table(table: pa.Table, kind: str, limit: int, console: Console | None = None) -> None:
    """The first rows, saying how many there are; columns without any value are left out."""
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = console or Console()
    shown = rows(table, 0, limit)
    names = [name for name in table.column_names if any(r[name] is not None for r in shown)]
    total = f"{table.num_rows:,} {kind}"
    title = total if table.num_rows <= limit else f"{total}, the first {limit}"
    printed = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, title_style="bold")
    cells = [[cell(row[name]) for name in names] for row in shown]
    widths = {
        name: max(len(name), *(len(row[place]) for row in cells))
        for place, name in enumerate(names)
    }
    if "match" in widths:
        # What does not fit is cut from the objects, never from the numbers.
        others = sum(width + 3 for name, width in widths.items() if name != "match")
        widths["match"] = min(widths["match"], max(20, console.width - others - 4))
    for name, width in widths.items():
        side: OneOf["left", "right"] = "right" if name in NUMBERS else "left"
        printed.add_column(name, justify=side, no_wrap=True, overflow="ellipsis", max_width=width)
    for row in cells:
        printed.add_row(*map(Text, row))
    console.print(printed)


def cell(value: Any) -> str:
    """A value as short as it can be said: objects as `a.x=1 b.x=2`."""
    match value:
        case None:
            return ""
        case bool():
            return "yes" if value else "no"
        case float():
            return f"{value:,.12g}"
        case dict():
            return " ".join(_fields(value, ""))
        case _:
            return str(value)


def _fields(value: dict[str, Any], prefix: str) -> list[str]:
    found: list[str] = []
    for name, inner in value.items():
        if isinstance(inner, dict):
            found += _fields(inner, f"{prefix}{name}.")
        elif isinstance(inner, list):
            found.append(f"{prefix}{name}=[{len(inner)}]")
        else:
            found.append(f"{prefix}{name}={cell(inner)}")
    return found
