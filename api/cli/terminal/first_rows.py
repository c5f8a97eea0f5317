"""The first rows of each query, in lines: on a terminal wrapped to its width, elsewhere whole."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, islice
from typing import TYPE_CHECKING, Any

from api.cli.terminal.values import cell, rows

if TYPE_CHECKING:
    from rich.console import Console

    from engines.results.tables import Results

LINES_SHOWN = 20  # that all queries share, each of which has at least one
MAX_WRAPPED_LINES = 3  # that a line takes on a terminal before it is cut
DIGITS_SHOWN, ALL_DIGITS = 6, 12  # of numbers: on a terminal, and elsewhere
MIN_WRAPPED_WIDTH = 36  # characters; where fewer are left, a line goes below its query


@dataclass(frozen=True)
class QueryRows:
    """How many rows a query has, and its first rows as plain values."""

    query: str
    number: int
    first: Sequence[dict[str, Any]]


def lines_each(queries: int) -> int:
    """How many lines are shown of each query."""
    return max(1, LINES_SHOWN // max(1, queries))


def rows_of_queries(results: Results, numbers: dict[str, int]) -> list[QueryRows]:
    """The rows of each query, in the order of `numbers`, which says how many each has."""
    found: dict[str, list[dict[str, Any]]] = {query: [] for query in numbers}
    for table in (results.aggregates, results.matches):
        for row in rows(table, 0, table.num_rows):
            found.setdefault(row["query"], []).append(row)
    return [QueryRows(query, numbers.get(query, 0), first) for query, first in found.items()]


def print_first_rows(
    found: Sequence[QueryRows], console: Console, most: int, indent: int = 0
) -> None:
    """A table of queries, their rows, and the first of them, in at most so many lines each."""
    from rich.text import Text

    name_width = max(map(len, ("query", *(query.query for query in found))))
    number_width = max(map(len, ("rows", *(f"{query.number:,}" for query in found))))
    start = indent + name_width + 2 + number_width + 2
    width = console.width if console.is_terminal else None
    digits = ALL_DIGITS if width is None else DIGITS_SHOWN

    def put(*parts: str | tuple[str, str]) -> None:
        console.print(Text.assemble(" " * indent, *parts), soft_wrap=True)

    put((f"{'query':<{name_width}}  {'rows':>{number_width}}  the first of them", "dim"))
    for query in found:
        head = (f"{query.query:<{name_width}}", "cyan"), f"  {query.number:>{number_width},}"
        lines = list(islice(row_lines(query.first, digits), most))
        if not lines:
            put(*head)
        elif width is None or width - start >= MIN_WRAPPED_WIDTH:
            wrapped = [part for line in lines for part in _wrapped(line, width, start)]
            put(*head, "  ", (wrapped[0], "dim"))
            for part in wrapped[1:]:
                put(" " * (start - indent), (part, "dim"))
        else:
            put(*head)
            for line in lines:
                for part in _wrapped(line, width, indent + 4):
                    put("    ", (part, "dim"))


def print_rows(
    shown: Sequence[dict[str, Any]], kind: str, offset: int, number: int, console: Console
) -> None:
    """Rows of a kind from `offset` on, of `number` that there are, each query under its name."""
    from rich.text import Text

    title = f"{number:,} {'match' if (kind, number) == ('matches', 1) else kind}"
    if len(shown) < number:
        title += f", {offset + 1:,} to {offset + len(shown):,}"
    console.print(Text(title, "bold"))
    width = console.width if console.is_terminal else None
    for query, own in groupby(shown, key=lambda row: str(row["query"])):
        console.print(Text(f"  {query}", "cyan"), soft_wrap=True)
        for line in row_lines(own, ALL_DIGITS if width is None else DIGITS_SHOWN):
            for part in _wrapped(line, width, 4):
                console.print(Text(f"    {part}"), soft_wrap=True)


def _wrapped(line: str, width: int | None, start: int) -> list[str]:
    """A line in the columns from `start` on; all of it where there is no width."""
    if width is None:
        return [line]
    return textwrap.wrap(
        line,
        max(MIN_WRAPPED_WIDTH, width - start),
        subsequent_indent="  ",
        max_lines=MAX_WRAPPED_LINES,
        placeholder=" …",
        break_on_hyphens=False,
    ) or [""]


def row_lines(found: Iterable[dict[str, Any]], digits: int) -> Iterator[str]:
    """A line for each match, and for all aggregates of a key at a moment."""
    together: list[dict[str, Any]] = []
    for row in found:
        if "match" in row:
            yield f"{_place(row)}{cell(row['match'], digits)}"
            continue
        if together and _moment(together[0]) != _moment(row):
            yield _aggregates(together, digits)
            together = []
        together.append(row)
    if together:
        yield _aggregates(together, digits)


def _moment(row: dict[str, Any]) -> tuple[Any, ...]:
    return row["query"], row["key"], row["time"], row.get("seq")


def _aggregates(together: Sequence[dict[str, Any]], digits: int) -> str:
    values = ", ".join(
        f"{row['aggregate']} = {'null' if row['value'] is None else cell(row['value'], digits)}"
        f"{'' if row.get('exact', True) else ' (not exact)'}"
        for row in together
    )
    return f"{_place(together[0])}{values}"


def _place(row: dict[str, Any]) -> str:
    key = cell(row["key"])
    return f"{key} at {row['time']}: " if key else f"at {row['time']}: "
