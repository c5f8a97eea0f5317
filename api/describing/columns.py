"""What the columns of stored events hold, by their first rows."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from engines.input.column_types import SpoiltColumn
from engines.input.csv_records import likely_delimiter, split_header
from engines.input.event_files import EventFile, LinesFile, ParquetFile, open_lines, open_parquet
from engines.input.event_table import column_kinds, find_files, format_of, is_list
from engines.input.lake_tables import EventFiles
from engines.input.text_bytes import sample, untold
from engines.limits import EventsError
from workloads.workload import AttributeKind, Stream

SAMPLE_ROWS = 20_000
EXAMPLES = 5
LONGEST_EXAMPLE = 60  # characters
_FRACTION = re.compile(r"(?:\.0+|(\.\d*?[1-9])0+)(?!\d)")  # of a second, with noughts behind it


@dataclass(frozen=True)
class ColumnProfile:
    """A column: its kind, how its values repeat, the most frequent of them, and their range."""

    name: str
    kind: AttributeKind
    stored: str  # Arrow's name of its type
    nulls: int
    distinct: int
    examples: tuple[str, ...]
    least: str | None
    most: str | None
    spoilt: SpoiltColumn | None = None  # where a few texts keep it from being one of numbers

    @property
    def declared(self) -> AttributeKind:
        """The kind that it ought to have."""
        return self.kind if self.spoilt is None else self.spoilt.kind


@dataclass(frozen=True)
class EventsProfile:
    """The first rows of events, and what their columns hold."""

    path: str
    files: int
    table: pa.Table
    columns: tuple[ColumnProfile, ...]
    faults: int  # rows that could not be read
    is_whole: bool  # were these all rows?

    def column(self, name: str) -> ColumnProfile:
        return next(column for column in self.columns if column.name == name)


def profile_events(path: str) -> EventsProfile:
    """What is in the files that a path stands for, by the first rows of the first of them."""
    found = find_files(path)
    files = found.names
    file = _opened(files[0], replace(found, names=files[:1]))
    tables: list[pa.Table] = []
    rows = faults = 0
    for table, _, wrong in file.read(file.schema, SAMPLE_ROWS):
        tables.append(table)
        rows, faults = rows + table.num_rows, faults + len(wrong)
        if rows > SAMPLE_ROWS:
            break
    if not rows:
        raise EventsError(f"'{files[0]}' has no events; give a file that has some")
    table = pa.concat_tables(tables).slice(0, SAMPLE_ROWS)
    if len(set(table.column_names)) < table.num_columns:
        raise EventsError(f"'{files[0]}' has two columns of one name; rename one of them")
    texts = {f.name for f in table.schema if pa.types.is_string(f.type)}
    spoilt = {s.name: s for s in file.spoilt(texts)} if isinstance(file, LinesFile) else {}
    columns = tuple(
        _profile(name, table.column(name), spoilt.get(name)) for name in table.schema.names
    )
    is_whole = rows <= SAMPLE_ROWS and len(files) == 1
    return EventsProfile(path, len(files), table, columns, faults, is_whole)


def _opened(file: str, found: EventFiles) -> EventFile:
    unknown = Stream(time="")  # nobody knows yet which column has the time
    if format_of(file) == "parquet":
        return ParquetFile(file, *open_parquet(found)[file], untold, unknown)
    if format_of(file) == "csv":
        header, _ = split_header(sample(file, quotes=True)[0])
        return open_lines(file, replace(unknown, delimiter=likely_delimiter(header)), untold)
    return open_lines(file, unknown, untold)


def _profile(name: str, column: pa.ChunkedArray, spoilt: SpoiltColumn | None) -> ColumnProfile:
    kind = column_kinds(pa.schema([(name, column.type)])).get(name, "string")
    least = most = None
    try:
        counts = pc.value_counts(column.drop_null())
    except pa.ArrowNotImplementedError:  # structs and maps, which have no order either
        shown = dict.fromkeys(shown_value(value) for value in column.drop_null().slice(0, 50))
        return _of_nested(name, column, list(shown))
    values, numbers = counts.field("values"), counts.field("counts").to_numpy()
    usual = np.argsort(-numbers, kind="stable")[:EXAMPLES]
    # Times hardly ever come twice: the first and the last say more.
    examples = () if kind == "time" else tuple(shown_value(values[int(i)]) for i in usual)
    if kind in ("int", "float", "time") and len(values) and not is_list(column.type):
        ends = pc.min_max(column)
        least, most = shown_value(ends["min"]), shown_value(ends["max"])
    return ColumnProfile(
        name, kind, str(column.type), column.null_count, len(values), examples, least, most, spoilt
    )


def _of_nested(name: str, column: pa.ChunkedArray, shown: list[str]) -> ColumnProfile:
    examples = tuple(shown[:EXAMPLES])
    return ColumnProfile(
        name, "string", str(column.type), column.null_count, len(shown), examples, None, None
    )


def shown_value(value: pa.Scalar) -> str:
    """A value as people read it, cut where it is long."""
    is_time = pa.types.is_temporal(value.type)
    text = _FRACTION.sub(r"\1", str(value)) if is_time else _plain(value.as_py())
    return text if len(text) <= LONGEST_EXAMPLE else text[: LONGEST_EXAMPLE - 1] + "…"


def _plain(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:.6g}" if isinstance(value, float) else str(value)
