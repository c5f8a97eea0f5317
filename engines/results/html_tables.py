"""Texts as a table of HTML, for notebooks."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from html import escape


def html_table(
    columns: Sequence[str],
    rows: Iterable[Sequence[str]],
    caption: str = "",
    numbers: Collection[int] = (),
) -> str:
    """A table with a head; the columns of `numbers` stand at the right."""
    sides = ["right" if place in numbers else "left" for place in range(len(columns))]

    def line(tag: str, values: Iterable[str]) -> str:
        cells = (
            f'<{tag} style="text-align:{side}">{escape(value)}</{tag}>'
            for value, side in zip(values, sides, strict=True)
        )
        return f"<tr>{''.join(cells)}</tr>"

    title = f'<caption style="text-align:left">{escape(caption)}</caption>' if caption else ""
    body = "".join(line("td", row) for row in rows)
    return f"<table>{title}<thead>{line('th', columns)}</thead><tbody>{body}</tbody></table>"
