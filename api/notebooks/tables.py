"""Workloads, results and tables as HTML."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from api.cli.terminal.values import cell
from engines.results.html_tables import html_table
from engines.results.json_text import iso_texts
from workloads.printing import print_query

if TYPE_CHECKING:
    from workloads.workload import Workload

ROWS_SHOWN = 10  # of a table
QUERY_ROWS_SHOWN = 3  # of a query among others


def workload_html(workload: Workload) -> str:
    """A workload's queries, with their text."""
    number = len(workload.queries)
    by_type = f", its type in '{workload.stream.type}'" if workload.stream.type else ""
    caption = (
        f"{workload.name}: {number:,} {'query' if number == 1 else 'queries'} over events with "
        f"their time in '{workload.stream.time}'{by_type}"
    )
    listed = [(query.name or "", query.text or print_query(query)) for query in workload.queries]
    return html_table(("query", "text"), listed, caption)


def table_html(table: pa.Table, caption: str = "", most: int = ROWS_SHOWN) -> str:
    """The first rows of a table; the caption says how many there are."""
    number = table.num_rows
    said = f"{number:,} {'row' if number == 1 else 'rows'}"
    if number > most:
        said += f", the first {most}"
    numbers = {
        place
        for place, field in enumerate(table.schema)
        if pa.types.is_integer(field.type) or pa.types.is_floating(field.type)
    }
    shown = zip(*(_texts(column) for column in table.slice(0, most).columns), strict=True)
    caption = f"{caption}: {said}" if caption else said
    return html_table(table.column_names, shown, caption, numbers)


def results_html(
    report: Mapping[str, Any], files: tuple[str, ...], rows_of: Callable[[str], pa.Table]
) -> str:
    """How many rows each query has, and the first of them where they are in memory."""
    numbers: Mapping[str, int] = report["rows_by_query"]
    caption = f"{report['events']:,} events, {sum(numbers.values()):,} rows"
    if files:
        caption += f", in {', '.join(files)}"
    listed = [(query, f"{number:,}") for query, number in numbers.items()]
    parts = [html_table(("query", "rows"), listed, caption, {1})]
    if not files:
        parts += [
            table_html(rows_of(query), query, QUERY_ROWS_SHOWN)
            for query, number in numbers.items()
            if number
        ]
    return "".join(parts)


def _texts(column: pa.ChunkedArray) -> list[str]:
    """The values of a column as people read them."""
    if pa.types.is_timestamp(column.type) or pa.types.is_date(column.type):
        return [text or "" for text in iso_texts(column.combine_chunks()).to_pylist()]
    return [cell(value) for value in column.to_pylist()]
