"""CSV and JSON lines in blocks of whole lines, each column of one type from first to last.

A block is parsed at once. Only where that fails is each of its rows looked at, to say which one
and which of its columns is wrong.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.json

from engines.input.event_table import Fault, as_times, with_times
from engines.limits import EventsError
from workloads.workload import AttributeKind, Stream

BLOCK = 4 * 2**20  # bytes that are parsed at once
SAMPLE = 16 * 2**20  # bytes at the start of a file that its types are guessed from
VOTES = 1000  # values that are looked at where a guess came out wrong

RowNumbers = npt.NDArray[np.int64]
Parsed = tuple[
    pa.Table, RowNumbers, list[Fault]
]  # good rows, their numbers in the block, the others

_DECLARED: Mapping[str, pa.DataType] = {
    "int": pa.int64(),
    "float": pa.float64(),
    "bool": pa.bool_(),
}


class CsvFile:
    """A CSV file with a header."""

    def __init__(self, file: str, stream: Stream, progress: ReadProgress) -> None:
        self._file, self._progress = file, progress
        sample, self._whole = _sample(file)
        self._names: list[str] = []
        self.schema = pa.schema([])
        if not sample.strip():
            return
        guess = self._read(sample, _convert())
        self._names = guess.column_names
        types = {
            field.name: pa.string() if pa.types.is_binary(field.type) else field.type
            for field in guess.schema
        }
        for name, wanted in _doubtful(guess.schema, stream):
            texts = self._read(sample, _convert({name: pa.binary()})).column(name)
            values = _texts(texts.drop_null().slice(0, VOTES))
            types[name] = _voted(values, wanted, _csv_type) or types[name]
        self.schema = pa.schema([(name, types[name]) for name in self._names])

    def _read(self, text: bytes, convert: pyarrow.csv.ConvertOptions) -> pa.Table:
        """The sample with its header; rows of another width are left out."""
        return pyarrow.csv.read_csv(
            pa.BufferReader(text),
            pyarrow.csv.ReadOptions(block_size=len(text) + 1),
            pyarrow.csv.ParseOptions(invalid_row_handler=lambda row: "skip"),
            convert,
        )

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_progress": _untold}  # nobody listens where it is read elsewhere

    def is_splittable(self) -> bool:
        return _is_splittable(self._file)

    def blocks(self, start: int = 0, stop: int | None = None) -> Iterator[bytes]:
        header = start == 0
        for block in _blocks(self._file, self._progress, start=start, stop=stop):
            if header:
                block = block.lstrip(b"\r\n").partition(b"\n")[2]
                header = False
            yield block

    def parse(self, block: bytes, schema: pa.Schema) -> Parsed:
        present = [field for field in schema if field.name in self._names]
        types = {field.name: field.type for field in present}
        read = pyarrow.csv.ReadOptions(column_names=self._names)
        try:
            table = pyarrow.csv.read_csv(
                pa.BufferReader(block), read, convert_options=_convert(types)
            )
            return _filled(table, schema), np.arange(table.num_rows), []
        except pa.ArrowInvalid:
            return self._parse_rows(block, schema, present)

    def _parse_rows(self, block: bytes, schema: pa.Schema, present: list[pa.Field]) -> Parsed:
        lines = [line for line in block.splitlines() if line]
        text = b"\n".join(lines)
        faults: list[Fault] = []

        def wrong_width(row: pyarrow.csv.InvalidRow) -> str:
            found, wanted = row.actual_columns, row.expected_columns
            faults.append(Fault(row.number, "unparsable", f"{found} fields, and not {wanted}"))
            return "skip"

        table = pyarrow.csv.read_csv(
            pa.BufferReader(text),
            pyarrow.csv.ReadOptions(
                use_threads=False, column_names=self._names, block_size=len(text) + 1
            ),
            pyarrow.csv.ParseOptions(invalid_row_handler=wrong_width),
            _convert({field.name: pa.binary() for field in present}),
        )
        rows = np.delete(np.arange(len(lines)), [fault.row - 1 for fault in faults])
        columns = {f.name: table.column(f.name).combine_chunks() for f in present}
        return _typed(columns, rows, faults, schema, self._whole)


class JsonFile:
    """A file of JSON objects, one a line, or in one list."""

    def __init__(self, file: str, stream: Stream, progress: ReadProgress) -> None:
        self._file, self._progress = file, progress
        sample, self._whole = _sample(file)
        self._is_list = sample.lstrip()[:1] == b"["
        if self._is_list and not self._whole:
            raise EventsError(
                f"'{file}' is one long list of JSON objects; write one object a line, "
                "so that it can be read piece by piece"
            )
        if self._is_list:
            sample = self._lines_of_list(sample)
        self.schema = pa.schema([])
        if not sample.strip():
            return
        try:
            self.schema = _read_json(sample)
            if not _doubtful(self.schema, stream):
                self.schema = _declared(self.schema, stream)
                return
        except pa.ArrowInvalid:
            pass
        try:
            guess = _read_json(_usual_lines(sample, stream))
        except pa.ArrowInvalid as error:
            raise EventsError(
                f"'{file}' cannot be read: {error}; write one object a line"
            ) from error
        self.schema = _declared(guess, stream)

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_progress": _untold}

    def is_splittable(self) -> bool:
        return not self._is_list and _is_splittable(self._file)

    def blocks(self, start: int = 0, stop: int | None = None) -> Iterator[bytes]:
        blocks = _blocks(self._file, self._progress, start=start, stop=stop)
        if not self._is_list:
            yield from blocks
        elif text := self._lines_of_list(b"".join(blocks)):
            yield text

    def _lines_of_list(self, text: bytes) -> bytes:
        try:
            return b"\n".join(json.dumps(row).encode() for row in json.loads(text))
        except (ValueError, TypeError) as error:
            raise EventsError(
                f"'{self._file}' is not a list of JSON objects: {error}; write one object a line"
            ) from error

    def parse(self, block: bytes, schema: pa.Schema) -> Parsed:
        # Where whole events are wanted, a field that came up too late to be known would be lost.
        strict = set(self.schema.names) <= set(schema.names)
        return parse_json(block, schema, strict, self._whole)


def parse_json(block: bytes, schema: pa.Schema, strict: bool = False, whole: bool = True) -> Parsed:
    """Objects, one a line, as the columns of `schema`; `strict`: they have no other fields.

    `whole`: the types were not guessed from a part of the lines.
    """
    try:
        table = pyarrow.json.read_json(
            pa.BufferReader(block),
            parse_options=pyarrow.json.ParseOptions(
                explicit_schema=schema,
                unexpected_field_behavior="error" if strict else "ignore",
            ),
        )
        return table.select(schema.names), np.arange(table.num_rows), []
    except pa.ArrowInvalid:
        return _parse_rows(block, schema, strict, whole)


def _parse_rows(block: bytes, schema: pa.Schema, strict: bool, whole: bool) -> Parsed:
    lines = [line for line in block.splitlines() if line.strip()]
    known = set(schema.names)
    objects: list[dict[str, Any]] = []
    rows: list[int] = []
    faults: list[Fault] = []
    for number, line in enumerate(lines):
        try:
            found = json.loads(line)
        except ValueError as error:
            faults.append(Fault(number + 1, "unparsable", f"it is no JSON: {error}"))
            continue
        if not isinstance(found, dict):
            faults.append(Fault(number + 1, "unparsable", "it is no JSON object"))
        elif strict and not found.keys() <= known:
            name = min(found.keys() - known)
            message = "no row before has this field; declare it under attributes"
            faults.append(Fault(number + 1, "wrong type", message, name))
        else:
            objects.append(found)
            rows.append(number)
    columns = {f.name: [o.get(f.name) for o in objects] for f in schema}
    return _typed(columns, np.array(rows, np.int64), faults, schema, whole)


class ReadProgress(Protocol):
    """Hears how much of a file has been read: 0 to 1."""

    def __call__(self, file: str, part: float) -> None: ...


# --- types -------------------------------------------------------------------------------------


def _doubtful(schema: pa.Schema, stream: Stream) -> list[tuple[str, AttributeKind]]:
    """Columns that were guessed to be of a type they should not have, and what they should be."""
    wanted: dict[str, AttributeKind] = dict(stream.attributes)
    wanted[stream.time] = "time"
    if stream.sequence is not None:
        wanted[stream.sequence] = "int"
    found: list[tuple[str, AttributeKind]] = []
    for name, kind in wanted.items():
        if name not in schema.names or schema.names.count(name) > 1:
            continue
        guess = schema.field(name).type
        is_text = pa.types.is_string(guess) or pa.types.is_binary(guess)
        role = name in (stream.time, stream.sequence)
        real = role and pa.types.is_floating(guess)
        if (is_text and kind != "string") or real or (pa.types.is_null(guess) and not role):
            found.append((name, kind))
    return found


def _voted(values: list[str], wanted: AttributeKind, type_of: TypeOf) -> pa.DataType | None:
    """The type that most values have, if it is of the wanted kind."""
    if wanted == "string":
        return pa.string()
    if wanted in ("float", "bool"):
        return _DECLARED[wanted]
    votes = Counter(type_of(value) for value in values)
    if wanted == "int":
        return pa.int64() if votes[pa.int64()] * 2 >= len(values) else None
    whole, day = votes[pa.int64()], votes[pa.date32()]
    moments = {t: n for t, n in votes.items() if pa.types.is_timestamp(t)}
    if max(whole, day, sum(moments.values())) * 2 < max(len(values), 1):
        return None
    if moments and sum(moments.values()) >= max(whole, day):
        best = max(moments, key=lambda t: moments[t])
        fine = any(t.unit == "ns" for t in moments)
        return pa.timestamp("ns" if fine else "s", best.tz)
    return pa.int64() if whole >= day else pa.date32()


class TypeOf(Protocol):
    def __call__(self, value: str) -> pa.DataType: ...


def _csv_type(value: str) -> pa.DataType:
    quoted = '"' + value.replace('"', '""') + '"'
    text = f"x\n{quoted}\n".encode()
    try:
        return pyarrow.csv.read_csv(pa.BufferReader(text)).schema.types[0]
    except pa.ArrowInvalid:
        return pa.string()


def _declared(schema: pa.Schema, stream: Stream) -> pa.Schema:
    """With the declared attributes that no row has, or only nulls."""
    for name, kind in stream.attributes.items():
        wanted = _DECLARED.get(kind, pa.timestamp("s") if kind == "time" else pa.string())
        place = schema.get_field_index(name)
        if place < 0:
            schema = schema.append(pa.field(name, wanted))
        elif pa.types.is_null(schema.types[place]):
            schema = schema.set(place, pa.field(name, wanted))
    return schema


def _usual_lines(sample: bytes, stream: Stream) -> bytes:
    """The rows without the values of another class than most values of their column."""
    found: list[tuple[dict[str, Any], dict[str, str]]] = []
    votes: dict[str, Counter[str]] = {}
    roles = (stream.time, stream.sequence)
    for line in sample.splitlines():
        try:
            row = json.loads(line) if line.strip() else None
        except ValueError:
            continue
        if isinstance(row, dict):
            classes = {n: _class(v, n in roles) for n, v in row.items() if v is not None}
            found.append((row, classes))
            for name, kind in classes.items():
                votes.setdefault(name, Counter())[kind] += 1
    usual = {name: count.most_common(1)[0][0] for name, count in votes.items()}
    declared = {"int": "number", "float": "number", "bool": "bool", "string": "text"}
    usual |= {n: declared[k] for n, k in stream.attributes.items() if k in declared}
    return b"\n".join(
        json.dumps({n: v for n, v in row.items() if v is None or usual[n] == classes[n]}).encode()
        for row, classes in found
    )


def _class(value: Any, exact: bool) -> str:
    """Which class of JSON values it is in; `exact` ones tell reals and times apart."""
    match value:
        case bool():
            return "bool"
        case int():
            return "number"
        case float():
            return "real" if exact else "number"
        case str():
            is_time = exact and as_times(pa.chunked_array([[value]])) is not None
            return "time" if is_time else "text"
        case _:
            return type(value).__name__


def _read_json(sample: bytes) -> pa.Schema:
    options = pyarrow.json.ReadOptions(block_size=len(sample) + 1)
    return with_times(pyarrow.json.read_json(pa.BufferReader(sample), options)).schema


# --- rows one by one ---------------------------------------------------------------------------


def _typed(
    columns: Mapping[str, pa.Array | list[Any]],
    rows: RowNumbers,
    faults: list[Fault],
    schema: pa.Schema,
    whole: bool,
) -> Parsed:
    """Columns in the types of the schema; rows with a value that has none go to the faults."""
    guessed = "" if whole else "; if that is its kind after all, declare it under attributes"
    wrong = np.zeros(len(rows), bool)
    arrays: dict[str, pa.Array] = {}
    for name, values in columns.items():
        kind = schema.field(name).type
        array, bad = _cast(values, kind) if isinstance(values, pa.Array) else _build(values, kind)
        arrays[name] = array
        for place in np.flatnonzero(bad & ~wrong):
            value = values[int(place)]
            shown = _shown(value.as_py() if isinstance(value, pa.Scalar) else value)
            message = f"{shown} is no {_kind_name(kind)}{guessed}"
            faults.append(Fault(int(rows[place]) + 1, "wrong type", message, name))
        wrong |= bad
    keep = np.flatnonzero(~wrong)
    table = pa.table(arrays) if arrays else pa.table({"": pa.nulls(len(rows))})
    return _filled(table.take(pa.array(keep)), schema), rows[keep], faults


def _cast(values: pa.Array, kind: pa.DataType) -> tuple[pa.Array, npt.NDArray[np.bool_]]:
    """Texts in another type, null where that fails, and where it does: found by halving."""
    bad = np.zeros(len(values), bool)
    if pa.types.is_null(kind):
        return pa.nulls(len(values)), np.asarray(pc.is_valid(values))

    def cast(part: pa.Array) -> pa.Array:
        texts = part.cast(pa.string())
        if not pa.types.is_string(kind):
            texts = pc.utf8_trim_whitespace(texts)
        return texts.cast(kind)

    def halves(start: int, stop: int) -> Iterable[pa.Array]:
        try:
            yield cast(values.slice(start, stop - start))
        except pa.ArrowInvalid:
            if stop - start == 1:
                bad[start] = True
                yield pa.nulls(1, kind)
                return
            middle = (start + stop) // 2
            yield from halves(start, middle)
            yield from halves(middle, stop)

    parts = list(halves(0, len(values))) if len(values) else [pa.array([], kind)]
    return pa.concat_arrays(parts), bad


def _build(values: list[Any], kind: pa.DataType) -> tuple[pa.Array, npt.NDArray[np.bool_]]:
    """JSON values in a type, null where they have another, and where that is."""
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        texts = [v if isinstance(v, str) else None for v in values]
        array, bad = _cast(pa.array(texts, pa.string()), kind)
        return array, bad | np.array([v is not None and not isinstance(v, str) for v in values])
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


# --- bytes -------------------------------------------------------------------------------------


def _untold(file: str, part: float) -> None:
    """Progress that nobody wants to hear of."""


def _is_splittable(file: str) -> bool:
    """Is it plain text whose lines end in newlines?"""
    if file.lower().endswith(".gz"):
        return False
    with pa.OSFile(file) as raw:
        return b"\n" in raw.read(BLOCK)


def _blocks(
    file: str, progress: ReadProgress, size: int = 0, start: int = 0, stop: int | None = None
) -> Iterator[bytes]:
    """The file in blocks of whole lines; a last line need not end.

    With `start` and `stop` only the lines whose first byte is from one to before the other.
    """
    size = size or BLOCK
    total = max(Path(file).stat().st_size, 1)
    with pa.OSFile(file) as raw:
        packed = file.lower().endswith(".gz")
        text: Any = pa.CompressedInputStream(raw, "gzip") if packed else raw
        if start or (stop is not None and stop < total):
            text = _Lines(raw, start, total if stop is None else stop)
        rest, first = b"", start == 0
        while new := text.read(size):
            if first:
                new, first = new.removeprefix(b"\xef\xbb\xbf"), False
            progress(file, min(raw.tell() / total, 1.0))
            if b"\n" not in new and b"\r" in new:
                new = new.replace(b"\r", b"\n")
            lines, newline, after = new.rpartition(b"\n")
            if newline:
                yield rest + lines + newline
                rest = after
            else:
                rest += new
        if rest.strip():
            yield rest


class _Lines:
    """The bytes of the lines that begin in a range of a file."""

    def __init__(self, raw: pa.NativeFile, start: int, stop: int) -> None:
        self._raw, self._stop = raw, stop
        if start:  # a line that begins right here follows a newline
            raw.seek(start - 1)
            self._to_next_line()

    def read(self, size: int) -> bytes:
        left = self._stop - self._raw.tell()
        if left <= 0:
            return b""
        found: bytes = self._raw.read(min(size, left))
        if len(found) == left and not found.endswith(b"\n"):
            found += self._to_next_line()
        return found

    def _to_next_line(self) -> bytes:
        """Go behind the next newline; gives what was passed."""
        passed = b""
        while piece := self._raw.read(2**16):
            line, newline, after = piece.partition(b"\n")
            passed += line + newline
            if newline:
                self._raw.seek(self._raw.tell() - len(after))
                break
        return passed


def _sample(file: str) -> tuple[bytes, bool]:
    """The start of a file, and whether that is all of it."""
    found: list[bytes] = []
    size = 0
    for block in _blocks(file, lambda file, part: None):
        if found and size + len(block) > SAMPLE:
            return b"".join(found), False
        found.append(block)
        size += len(block)
    return b"".join(found), True


def _convert(types: Mapping[str, pa.DataType] | None = None) -> pyarrow.csv.ConvertOptions:
    # An empty field is null, also in a column of strings; "" in quotes is the empty string.
    return pyarrow.csv.ConvertOptions(
        column_types=types,
        include_columns=list(types) if types else None,
        null_values=["", "null", "NULL"],
        strings_can_be_null=True,
        quoted_strings_can_be_null=False,
    )


def _texts(column: pa.ChunkedArray) -> list[str]:
    return [value.decode(errors="replace") for value in column.to_pylist()]


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
