"""Tables from files: Parquet, CSV and JSON lines; a file, a folder or a glob."""

from __future__ import annotations

import glob
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.json

from engines.errors import EventsError
from engines.moments import with_times

_FORMATS = {
    ".parquet": "parquet",
    ".csv": "csv",
    ".csv.gz": "csv",
    ".jsonl": "json",
    ".ndjson": "json",
    ".json": "json",
}
ENDINGS = tuple(_FORMATS)

# Blocks must be smaller than what 32-bit offsets reach.
_LARGEST_BLOCK = 2**31 - 2**20


def read_table(path: str) -> pa.Table:
    """All rows under a path, the files in the order of their names, with the union of columns."""
    files = list_files(path)
    parquet = [f for f in files if format_of(f) == "parquet"]
    tables = [_read(file) for file in files if format_of(file) != "parquet"]
    if parquet:
        base = path if Path(path).is_dir() else None
        tables.insert(0, _read_parquet(parquet, base))
    tables = [t for t in tables if t.num_columns] or [pa.table({})]
    if len(tables) == 1:
        return tables[0]
    try:
        return pa.concat_tables(tables, promote_options="permissive")
    except pa.ArrowInvalid as error:
        raise EventsError(
            f"'{path}': its files do not have the same columns: {_first_line(error)}; "
            "make the types agree"
        ) from error
    except pa.ArrowTypeError as error:
        raise EventsError(
            f"'{path}': a column has different types in different files: {_first_line(error)}; "
            "make them agree"
        ) from error


def list_files(path: str) -> list[str]:
    """The files of events that a path stands for, in the order of their names."""
    target = Path(path)
    if target.is_dir():
        found = [
            str(file)
            for file in sorted(target.rglob("*"))
            if file.is_file()
            and format_of(str(file)) is not None
            and not any(p.startswith(("_", ".")) for p in file.relative_to(target).parts)
        ]
        if not found:
            raise EventsError(f"the folder '{path}' has no file ending in {', '.join(ENDINGS)}")
        return found
    # Only then a pattern: a file's name may well have brackets in it. (`Path.glob` takes no
    # absolute ones.)
    found = [path] if target.is_file() else sorted(glob.glob(path, recursive=True))  # noqa: PTH207
    found = [file for file in found if Path(file).is_file()]
    if not found:
        raise EventsError(f"there is no file '{path}'; give a file, a folder or a glob of events")
    for file in found:
        if format_of(file) is None:
            raise EventsError(
                f"'{file}' does not end in {', '.join(ENDINGS)}, by which its format is known"
            )
    return found


def format_of(file: str) -> str | None:
    """`parquet`, `csv` or `json` by the ending; None for any other file."""
    name = Path(file).name.lower()
    return next((kind for ending, kind in _FORMATS.items() if name.endswith(ending)), None)


def _read_parquet(files: list[str], base: str | None) -> pa.Table:
    from pyarrow import dataset  # which brings pandas along: half a second

    try:
        schemas = [dataset.dataset(f, format="parquet").schema for f in files[:1]]
        source = dataset.dataset(
            files, format="parquet", partitioning="hive", partition_base_dir=base
        )
        if len(files) > 1:
            schemas = [fragment.physical_schema for fragment in source.get_fragments()]
            unified = pa.unify_schemas([source.schema, *schemas], promote_options="permissive")
            source = source.replace_schema(unified)
        return source.to_table()
    except (pa.ArrowInvalid, pa.ArrowTypeError, OSError) as error:
        raise EventsError(
            f"'{files[0] if len(files) == 1 else base or files[0]}' cannot be read as Parquet: "
            f"{_first_line(error)}"
        ) from error


def _read(file: str) -> pa.Table:
    try:
        return _read_csv(file) if format_of(file) == "csv" else _read_json(file)
    except pa.ArrowInvalid as error:
        raise EventsError(
            f"'{file}' cannot be read: {_first_line(error)}; "
            "every row needs the same columns, and every column values of one kind"
        ) from error
    except OSError as error:
        raise EventsError(f"'{file}' cannot be read: {error.strerror or error}") from error


def _read_csv(file: str) -> pa.Table:
    # An empty field is null, also in a column of strings; "" in quotes is the empty string.
    convert = pyarrow.csv.ConvertOptions(
        null_values=["", "null", "NULL"],
        strings_can_be_null=True,
        quoted_strings_can_be_null=False,
    )
    size = Path(file).stat().st_size
    if size == 0:
        return pa.table({})
    try:
        return pyarrow.csv.read_csv(file, convert_options=convert)
    except pa.ArrowInvalid:
        # Types are guessed from the first block: with one large block, from all rows.
        expanded = size * (20 if file.lower().endswith(".gz") else 1)
        options = pyarrow.csv.ReadOptions(block_size=min(max(expanded, 2**20), _LARGEST_BLOCK))
        return pyarrow.csv.read_csv(file, options, convert_options=convert)


def _read_json(file: str) -> pa.Table:
    text = Path(file).read_bytes()
    start = text[:4096].lstrip()
    if not text.strip():
        return pa.table({})
    if start.startswith(b"["):
        try:
            return with_times(pa.Table.from_pylist(json.loads(text)))
        except (ValueError, AttributeError, TypeError) as error:
            raise EventsError(
                f"'{file}' is not a list of JSON objects: {_first_line(error)}; "
                "write one object a line"
            ) from error
    source = pa.BufferReader(text)
    try:
        return with_times(pyarrow.json.read_json(source))
    except pa.ArrowInvalid:
        options = pyarrow.json.ReadOptions(
            block_size=min(max(len(text) + 1, 2**20), _LARGEST_BLOCK)
        )
        return with_times(pyarrow.json.read_json(pa.BufferReader(text), options))


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0].strip()
