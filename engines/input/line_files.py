"""CSV and JSON lines in blocks of whole lines, each column of one type from first to last.

A block is parsed at once. Only where that fails is each of its rows looked at, to say which one
and which of its columns is wrong.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.csv
import pyarrow.json

from engines.input import text_bytes
from engines.input.column_types import (
    SpoiltColumn,
    doubtful_columns,
    json_schema,
    spoilt_column,
    usual_lines,
    voted_type,
    with_declared,
)
from engines.input.csv_records import count_fields, header_names, split_header, split_records
from engines.input.event_table import Fault
from engines.input.json_values import MAX_DEPTH, arrow_takes, is_deep
from engines.input.late_fields import lines_of_late_fields
from engines.input.text_bytes import ReadProgress, arrow_reader, bad_byte, untold
from engines.input.time_texts import TimeReader, cast_moments, cast_texts, time_reader, time_type
from engines.limits import EventsError
from workloads.workload import Stream

RowNumbers = npt.NDArray[np.int64]
Parsed = tuple[
    pa.Table, RowNumbers, list[Fault]
]  # good rows, their numbers in the block, the others


class CsvFile:
    """A CSV file with a header."""

    def __init__(self, file: str, stream: Stream, progress: ReadProgress) -> None:
        self._file, self._stream, self._progress = file, stream, progress
        sample, self._whole = text_bytes.sample(file, quotes=True)
        self._names: list[str] = []
        self._delimiter = ","
        self.schema = pa.schema([])
        if not sample.strip():
            return
        header, rows = split_header(sample)
        self._delimiter, self._names = header_names(file, header, stream)
        self.schema = pa.schema([(name, pa.null()) for name in self._names])
        if len(set(self._names)) < len(self._names):
            return  # which is said of the columns
        if not rows.strip():
            return
        texts = {stream.time: pa.binary()} if stream.format is not None else {}
        rows, guess = self._guess(rows, _convert(None, texts))
        if guess is None:
            return
        types = {
            field.name: pa.string() if pa.types.is_binary(field.type) else field.type
            for field in guess.schema
        }
        for name, wanted in doubtful_columns(guess.schema, stream):
            types[name] = voted_type(self._texts(rows, name), wanted) or types[name]
        if stream.time in types:
            types[stream.time] = time_type(types[stream.time], stream)
        self.schema = pa.schema([(name, types[name]) for name in self._names])

    def _guess(
        self, rows: bytes, convert: pyarrow.csv.ConvertOptions
    ) -> tuple[bytes, pa.Table | None]:
        """The rows that have as many values as there are columns; None where there are none."""
        try:
            found = self._read(rows, convert)
            if b'"' not in rows or found.num_rows >= rows.rstrip().count(b"\n"):
                return rows, found
        except pa.ArrowInvalid:
            pass
        rows = self._regular(rows)
        return rows, self._read(rows, convert) if rows.strip() else None

    def _regular(self, rows: bytes) -> bytes:
        mark, width = self._delimiter.encode(), len(self._names)
        records = split_records(rows, mark, width)
        return b"\n".join(record for record in records if count_fields(record, mark) == width)

    def _read(self, rows: bytes, convert: pyarrow.csv.ConvertOptions) -> pa.Table:
        """Rows of the right width, in one piece."""
        return pyarrow.csv.read_csv(
            arrow_reader(rows),
            pyarrow.csv.ReadOptions(
                use_threads=False, column_names=self._names, block_size=len(rows) + 1
            ),
            pyarrow.csv.ParseOptions(delimiter=self._delimiter, newlines_in_values=True),
            convert,
        )

    def _texts(self, rows: bytes, name: str) -> pa.Array:
        """A column as it is written; null where it is not UTF-8."""
        column = self._read(rows, _convert({name: pa.binary()})).column(name).combine_chunks()
        return cast_texts(column, pa.string())[0]

    def spoilt(self, names: set[str]) -> Iterator[SpoiltColumn]:
        """Those of the columns of text in which all values but a few at the start are numbers."""
        sample, _ = text_bytes.sample(self._file, quotes=True)
        rows = self._regular(split_header(sample)[1]) if self._names else b""
        for field in self.schema if rows.strip() else ():
            if field.name in names and pa.types.is_string(field.type):
                found = spoilt_column(field.name, self._texts(rows, field.name))
                if found is not None:
                    yield found

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_progress": untold}  # nobody listens where it is read elsewhere

    def is_splittable(self) -> bool:
        return text_bytes.is_splittable(self._file)

    def blocks(self, start: int = 0, stop: int | None = None) -> Iterator[bytes]:
        header = start == 0
        for block in text_bytes.blocks(self._file, self._progress, start, stop, quotes=True):
            if header and block.strip():
                block = split_header(block)[1]
                header = False
            yield block

    def count_rows(self, block: bytes) -> int:
        """How many rows there are in a block, good or bad."""
        return len(split_records(block, self._delimiter.encode(), len(self._names)))

    def parse(self, block: bytes, schema: pa.Schema) -> Parsed:
        present = [field for field in schema if field.name in self._names]
        times = self._times(schema)
        types = {f.name: f.type for f in present}
        if times is not None:
            types[times.column] = pa.string()
        quotes = b'"' in block
        try:
            table = pyarrow.csv.read_csv(
                arrow_reader(block),
                pyarrow.csv.ReadOptions(column_names=self._names),
                pyarrow.csv.ParseOptions(delimiter=self._delimiter, newlines_in_values=quotes),
                _convert(types),
            )
        except pa.ArrowInvalid:
            return self._parse_rows(block, schema, present)
        if quotes and self._swallows(block, table.num_rows):
            return self._parse_rows(block, schema, present)
        if times is not None:
            column, wrong = _timed(table.column(times.column), times, schema)
            if wrong:
                return self._parse_rows(block, schema, present)
            table = table.set_column(table.column_names.index(times.column), times.column, column)
        return _filled(table, schema), np.arange(table.num_rows), []

    def _swallows(self, block: bytes, rows: int) -> bool:
        """Does Arrow have all that is behind a quote in one value, as nothing ends it?"""
        lines = block.rstrip(b"\r\n").count(b"\n") + 1
        if rows < lines and rows < self.count_rows(block):
            return True
        mark = self._delimiter.encode()
        last = block.rstrip(b"\r\n").rpartition(b"\n")[2]
        return rows == lines and count_fields(last, mark) == 0

    def _times(self, schema: pa.Schema) -> TimeReader | None:
        name = self._stream.time
        if name not in schema.names or name not in self._names:
            return None
        return time_reader(self._stream, schema.field(name).type)

    def _parse_rows(self, block: bytes, schema: pa.Schema, present: list[pa.Field]) -> Parsed:
        mark, width = self._delimiter.encode(), len(self._names)
        faults: list[Fault] = []
        records: list[bytes] = []
        rows: list[int] = []
        for number, record in enumerate(split_records(block, mark, width)):
            fields = count_fields(record, mark)
            if fields == width:
                records.append(record)
                rows.append(number)
            else:
                why = f"{fields} fields, and not {width}" if fields else "a quote that nothing ends"
                faults.append(Fault(number + 1, "unparsable", why))
        convert = _convert({field.name: pa.binary() for field in present})
        tables: list[pa.Table] = []
        good: list[int] = []

        def read(start: int, stop: int) -> None:
            """Records as rows; those that Arrow sees in another way are found by halving."""
            if start == stop:
                return
            try:
                table = self._read(b"\n".join(records[start:stop]), convert)
            except pa.ArrowInvalid:
                table = None
            if table is not None and table.num_rows == stop - start:
                tables.append(table)
                good.extend(rows[start:stop])
            elif stop - start == 1:
                faults.append(Fault(rows[start] + 1, "unparsable", "it is no row of CSV"))
            else:
                read(start, (start + stop) // 2)
                read((start + stop) // 2, stop)

        read(0, len(records))
        columns: dict[str, pa.Array | list[Any]] = {}
        for field in present:
            chunks = [chunk for table in tables for chunk in table.column(field.name).chunks]
            columns[field.name] = pa.chunked_array(chunks, pa.binary()).combine_chunks()
        numbers = np.array(good, np.int64)
        return _typed(columns, numbers, faults, schema, self._whole, self._times(schema))


class JsonFile:
    """A file of JSON objects, one a line, or in one list."""

    def __init__(self, file: str, stream: Stream, progress: ReadProgress) -> None:
        self._file, self._stream, self._progress = file, stream, progress
        sample, self._whole = text_bytes.sample(file)
        self._is_list = _is_list(sample)
        if self._is_list and not self._whole:
            raise EventsError(
                f"'{file}' is one long list of JSON objects; write one object a line, "
                "so that it can be read piece by piece"
            )
        if self._is_list:
            sample = self._lines_of_list(sample)
        self._stored: pa.DataType | None = None  # of the times, where they are read as another
        self.schema = pa.schema([])
        if sample.strip():
            guessed = self._guess(sample)
            if not self._whole and (late := lines_of_late_fields(file, guessed, stream.words)):
                guessed = self._guess(sample + b"\n" + late)
            self.schema = self._declared(guessed)

    def _guess(self, sample: bytes) -> pa.Schema:
        if arrow_takes(sample):
            try:
                found = json_schema(sample)
                if not doubtful_columns(found, self._stream):
                    return found
            except pa.ArrowInvalid:
                pass
        usual = usual_lines(sample, self._stream)
        if not usual:
            line = next(line for line in sample.splitlines() if line.strip())
            if (byte := bad_byte(line)) is not None:
                raise text_bytes.not_utf8(self._file, byte, 1)
            what = "not a list of JSON objects" if self._is_list else "no JSON"
            raise EventsError(
                f"'{self._file}' cannot be read: it is {what}; write one object a line"
            )
        try:
            return json_schema(usual)
        except pa.ArrowInvalid as error:
            raise EventsError(
                f"'{self._file}' cannot be read: {error}; write one object a line"
            ) from error

    def _declared(self, schema: pa.Schema) -> pa.Schema:
        schema = with_declared(schema, self._stream)
        place = schema.get_field_index(self._stream.time)
        if place < 0:
            return schema
        stored = schema.types[place]
        wanted = time_type(stored, self._stream)
        if wanted != stored:
            self._stored = stored
        return schema.set(place, pa.field(self._stream.time, wanted))

    def spoilt(self, names: set[str]) -> Iterator[SpoiltColumn]:
        """None: a value of another class than most others is a bad row."""
        return iter(())

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_progress": untold}

    def is_splittable(self) -> bool:
        return not self._is_list and text_bytes.is_splittable(self._file)

    def count_rows(self, block: bytes) -> int:
        """How many rows there are in a block, good or bad."""
        return sum(bool(line.strip()) for line in block.splitlines())

    def blocks(self, start: int = 0, stop: int | None = None) -> Iterator[bytes]:
        blocks = text_bytes.blocks(self._file, self._progress, start, stop)
        if not self._is_list:
            yield from blocks
        elif text := self._lines_of_list(b"".join(blocks)):
            yield text

    def _lines_of_list(self, text: bytes) -> bytes:
        try:
            return b"\n".join(json.dumps(row).encode() for row in json.loads(text))
        except (ValueError, TypeError, RecursionError) as error:
            raise EventsError(
                f"'{self._file}' is not a list of JSON objects: {error}; write one object a line"
            ) from error

    def parse(self, block: bytes, schema: pa.Schema) -> Parsed:
        # Where whole events are wanted, a field that came up too late to be known would be lost.
        strict = set(self.schema.names) <= set(schema.names)
        return parse_json(block, schema, self._stream, strict, self._whole, self._stored)


def _is_list(sample: bytes) -> bool:
    """Is it one list, and not lines of which the first happens to be a list?"""
    if sample.lstrip()[:1] != b"[":
        return False
    first, _, others = sample.lstrip().partition(b"\n")
    try:
        json.loads(first)
    except (ValueError, RecursionError):
        return True
    return not others.strip()


def parse_json(
    block: bytes,
    schema: pa.Schema,
    stream: Stream,
    strict: bool = False,
    whole: bool = True,
    stored: pa.DataType | None = None,
) -> Parsed:
    """Objects, one a line, as the columns of `schema`; `strict`: they have no other fields.

    `whole`: the types were not guessed from a part of the lines. `stored` is the type that most
    times have where they are read as another.
    """
    times = None
    if stream.time in schema.names:
        times = time_reader(stream, schema.field(stream.time).type)
    place, wanted = schema.get_field_index(stream.time), schema
    if times is not None:
        wanted = schema.set(place, pa.field(stream.time, stored or times.stored))
    # Arrow takes several objects in a line.
    if arrow_takes(block):
        try:
            table = pyarrow.json.read_json(
                arrow_reader(block),
                parse_options=pyarrow.json.ParseOptions(
                    explicit_schema=wanted,
                    unexpected_field_behavior="error" if strict else "ignore",
                ),
            ).select(schema.names)
        except pa.ArrowInvalid:
            return _parse_rows(block, schema, strict, whole, times)
        bad = table.num_rows > block.count(b"\n") + 1
        if times is not None:
            column, wrong = _timed(table.column(times.column), times, schema)
            table = table.set_column(place, times.column, column)
            bad = bad or wrong
        if not bad:
            return table, np.arange(table.num_rows), []
    return _parse_rows(block, schema, strict, whole, times)


def _parse_rows(
    block: bytes, schema: pa.Schema, strict: bool, whole: bool, times: TimeReader | None
) -> Parsed:
    lines = [line for line in block.splitlines() if line.strip()]
    known = set(schema.names)
    objects: list[dict[str, Any]] = []
    rows: list[int] = []
    faults: list[Fault] = []
    for number, line in enumerate(lines):
        try:
            found = json.loads(line)
        except (ValueError, RecursionError) as error:
            byte = bad_byte(line)
            why = f"it is no JSON: {error}" if byte is None else _not_utf8(byte)
            faults.append(Fault(number + 1, "unparsable", why))
            continue
        if not isinstance(found, dict):
            faults.append(Fault(number + 1, "unparsable", "it is no JSON object"))
        elif is_deep(found):
            message = f"it is nested more than {MAX_DEPTH} deep"
            faults.append(Fault(number + 1, "unparsable", message))
        elif strict and not found.keys() <= known:
            name = min(found.keys() - known)
            message = "no row before has this field; declare it under attributes"
            faults.append(Fault(number + 1, "wrong type", message, name))
        else:
            objects.append(found)
            rows.append(number)
    columns = {f.name: [o.get(f.name) for o in objects] for f in schema}
    return _typed(columns, np.array(rows, np.int64), faults, schema, whole, times)


# --- rows one by one ---------------------------------------------------------------------------


def _typed(
    columns: Mapping[str, pa.Array | list[Any]],
    rows: RowNumbers,
    faults: list[Fault],
    schema: pa.Schema,
    whole: bool,
    times: TimeReader | None,
) -> Parsed:
    """Columns in the types of the schema; rows with a value that has none go to the faults."""
    guessed = "" if whole else "; if that is its kind after all, declare it under attributes"
    wrong = np.zeros(len(rows), bool)
    arrays: dict[str, pa.Array] = {}
    for name, values in columns.items():
        kind = schema.field(name).type
        expected = _kind_name(kind)
        if times is not None and name == times.column:
            array, bad = _read_times(values, times, kind)
            expected = times.expected
        elif isinstance(values, pa.Array):
            array, bad = cast_texts(values, kind)
        else:
            array, bad = _build(values, kind)
        arrays[name] = array
        for place in np.flatnonzero(bad & ~wrong):
            value = values[int(place)]
            value = value.as_py() if isinstance(value, pa.Scalar) else value
            message = f"{_shown(value)} is no {expected}{guessed}"
            if isinstance(value, bytes) and (byte := bad_byte(value)) is not None:
                message = f"{_shown(value)} is no UTF-8 text: {_not_utf8(byte)}"
            faults.append(Fault(int(rows[place]) + 1, "wrong type", message, name))
        wrong |= bad
    keep = np.flatnonzero(~wrong)
    table = pa.table(arrays) if arrays else pa.table({"": pa.nulls(len(rows))})
    return _filled(table.take(pa.array(keep)), schema), rows[keep], faults


def _not_utf8(byte: str) -> str:
    return f"byte {byte} is not UTF-8; convert the file: iconv -f cp1252 -t utf-8"


def _read_times(
    values: pa.Array | list[Any], times: TimeReader, kind: pa.DataType
) -> tuple[pa.Array, npt.NDArray[np.bool_]]:
    """Times out of a column of bytes, or out of JSON values."""
    if isinstance(values, pa.Array):
        texts, bad = cast_texts(values, pa.string())
    else:
        numbers = (int,) if times.format is not None else (int, float)
        written = [
            v if isinstance(v, str) else repr(v) if type(v) in numbers else None for v in values
        ]
        bad = np.array(
            [t is None and v is not None for t, v in zip(written, values, strict=True)], bool
        )
        texts = pa.array(written, pa.string())
    found, wrong = times.read(texts, kind)
    return found, bad | wrong


def _timed(
    column: pa.ChunkedArray, times: TimeReader, schema: pa.Schema
) -> tuple[pa.ChunkedArray, bool]:
    """A column of times as such, and whether a value is none."""
    kind = schema.field(times.column).type
    parts, wrong = [], False
    for chunk in column.chunks:
        found, bad = times.read(chunk, kind)
        parts.append(found)
        wrong = wrong or bool(bad.any())
    return pa.chunked_array(parts, kind), wrong


def _build(values: list[Any], kind: pa.DataType) -> tuple[pa.Array, npt.NDArray[np.bool_]]:
    """JSON values in a type, null where they have another, and where that is."""
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        texts = [v if isinstance(v, str) else None for v in values]
        array, bad = cast_moments(pa.array(texts, pa.string()), kind)
        others = np.array([v is not None and not isinstance(v, str) for v in values], bool)
        return array, bad | others
    bad = np.array([v is not None and not _fits(v, kind) for v in values], bool)
    real = pa.types.is_floating(kind)
    good = [
        None if wrong or v is None else float(v) if real else v
        for v, wrong in zip(values, bad.tolist(), strict=True)
    ]
    return pa.array(good, kind), bad


def _fits(value: Any, kind: pa.DataType) -> bool:
    if pa.types.is_null(kind):
        return False
    if pa.types.is_boolean(kind):
        return isinstance(value, bool)
    if pa.types.is_integer(kind):
        return type(value) is int and -(2**63) <= value < 2**63
    if pa.types.is_floating(kind):
        return type(value) is float or (type(value) is int and math.isfinite(value))
    if pa.types.is_string(kind):
        return isinstance(value, str)
    try:
        pa.array([value], kind)
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        return False
    return True


def _filled(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """All columns of the schema, in its order; those that a file lacks are null."""
    names = set(table.column_names)
    return pa.table(
        [
            table.column(field.name)
            if field.name in names
            else pa.nulls(table.num_rows, field.type)
            for field in schema
        ],
        schema=schema,
    )


def _convert(
    types: Mapping[str, pa.DataType] | None = None,
    known: Mapping[str, pa.DataType] | None = None,
) -> pyarrow.csv.ConvertOptions:
    """How values are read: the columns of `types` alone, or all of them, some in `known` types."""
    # An empty field is null, also in a column of strings; "" in quotes is the empty string.
    return pyarrow.csv.ConvertOptions(
        column_types=types or known,
        include_columns=list(types) if types else None,
        null_values=["", "null", "NULL"],
        strings_can_be_null=True,
        quoted_strings_can_be_null=False,
    )


def _shown(value: Any) -> str:
    if isinstance(value, bytes):
        value = value.decode(errors="replace")
    text = repr(value) if isinstance(value, str) else json.dumps(value, default=str)
    return text if len(text) <= 60 else text[:57] + "…" + text[-1]


def _kind_name(kind: pa.DataType) -> str:
    if pa.types.is_integer(kind):
        return "whole number"
    if pa.types.is_floating(kind):
        return "number"
    if pa.types.is_boolean(kind):
        return "truth value"
    if pa.types.is_temporal(kind):
        return "time"
    if pa.types.is_null(kind):
        return "null, as all others before it"
    return "UTF-8 text" if pa.types.is_string(kind) else str(kind)
