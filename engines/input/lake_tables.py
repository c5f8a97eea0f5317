"""Tables of Delta and Iceberg in folders: which files are their rows now, as their logs say.

The files are then read like any others. What they alone do not say right, such as rows that are
marked as deleted or columns that were renamed, is refused: nothing is read that is no row.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn
from urllib.parse import unquote, urlsplit

import pyarrow as pa

from engines.limits import EventsError

# What is in the folder of a table, and its kind: which files are its rows, only its log tells.
TABLE_LOGS = {"_delta_log": "Delta", ".hoodie": "Hudi"}
_EXTRAS = {"Delta": "delta", "Iceberg": "iceberg"}

# What readers of Delta must know and that changes nothing of files that hold all of their rows.
_DELTA_FEATURES = {"timestampNtz", "v2Checkpoint", "vacuumProtocolCheck", "deletionVectors"}
_FIELD_ID = b"PARQUET:field_id"


@dataclass(frozen=True)
class EventFiles:
    """The files that a path stands for.

    Of a table also the `columns` that it has now, and those of each file that are in its log alone.
    """

    names: list[str]
    columns: pa.Schema | None = None
    keys: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def readable(self, file: str, stored: pa.Schema) -> tuple[pa.Schema, dict[str, Any]]:
        """The columns of a file that the table has, and the values of those that it does not hold.

        Raises `EventsError` where a column of the file is another one than the table's of its name.
        """
        assert self.columns is not None
        names = set(self.columns.names)
        if (column := _other_column(stored, self.columns)) is not None:
            raise EventsError(
                f"'{file}': column '{column}' was renamed, or dropped and added again, since this "
                "file of the table was written; rewrite the table's files, or read it by the name "
                "that Spark has for it: --engine spark --events table:NAME"
            )
        schema = pa.schema([column for column in stored if column.name in names])
        keys = {n: v for n, v in self.keys.get(file, {}).items() if n not in schema.names}
        for name in keys:
            schema = schema.append(pa.field(name, self.columns.field(name).type))
        return schema, keys


def table_kind(folder: Path) -> str | None:
    """Delta, Iceberg or Hudi, where it is the folder of such a table."""
    if next((folder / "metadata").glob("*.metadata.json"), None) is not None:
        return "Iceberg"
    return next((kind for log, kind in TABLE_LOGS.items() if (folder / log).is_dir()), None)


def check_no_table(folder: Path, remedy: str | None = None) -> None:
    """Refuse a folder whose files are not all rows of a table, or of an older version of it."""
    if (kind := table_kind(folder)) is not None:
        raise table_folder(str(folder), kind, remedy)
    if folder.parent != folder and "=" in folder.name:  # of a partition
        check_no_table(folder.parent, remedy)


def table_folder(path: str, kind: str, remedy: str | None = None) -> EventsError:
    """That files of a table are not to be read as they lie there."""
    if remedy is None and kind in _EXTRAS:
        remedy = "of stored events give this folder itself, without a pattern, "
    return EventsError(
        f"'{path}' is the folder of a table ({kind}), in which files stay that are no longer part "
        f"of it; {remedy + 'or ' if remedy else ''}read it by the name that Spark has for it: "
        "--engine spark --events table:NAME"
    )


def table_files(folder: Path, kind: str) -> EventFiles:
    """The files that are a table's rows now, oldest first where its log says when they came."""
    try:
        if kind == "Delta":
            found = _delta_files(folder)
        elif kind == "Iceberg":
            found = _iceberg_files(folder)
        else:
            raise table_folder(str(folder), kind)
    except ImportError as error:
        remedy = f"install what reads its log, pip install 'sheaf[{_EXTRAS[kind]}]', "
        raise table_folder(str(folder), kind, remedy) from error
    if not found.names:
        raise EventsError(f"the {kind} table '{folder}' has no rows; give one that has some")
    return found


def _delta_files(folder: Path) -> EventFiles:
    from deltalake import DeltaTable
    from deltalake.exceptions import DeltaError

    try:
        table = DeltaTable(str(folder.absolute()))
        features = set(table.protocol().reader_features or ())
        mapping = table.metadata().configuration.get("delta.columnMapping.mode", "none")
        is_marked = any(batch.num_rows for batch in _batches(table.deletion_vectors()))
        added = pa.table(table.get_add_actions()).sort_by(
            [("modification_time", "ascending"), ("path", "ascending")]
        )
        columns = pa.schema(table.schema())
    except (DeltaError, OSError) as error:
        _refuse(folder, "Delta", str(error))
    if is_marked:
        _refuse(
            folder,
            "Delta",
            "some of its rows are only marked as deleted (deletion vectors); write them out: "
            "REORG TABLE … APPLY (PURGE)",
        )
    if mapping != "none":
        _refuse(folder, "Delta", f"its columns are mapped by {mapping} (column mapping)")
    if unknown := features - _DELTA_FEATURES:
        _refuse(folder, "Delta", f"it needs what is not known here: {', '.join(sorted(unknown))}")
    names = [_inside(folder, path, "Delta") for path in added.column("path").to_pylist()]
    keys: dict[str, Mapping[str, Any]] = {}
    if "partition" in added.column_names:
        keys = dict(zip(names, added.column("partition").to_pylist(), strict=True))
    return EventFiles(names, columns, keys)


def _batches(found: Any) -> Any:
    return pa.RecordBatchReader.from_stream(found)


def _iceberg_files(folder: Path) -> EventFiles:
    from pyiceberg.io.pyarrow import schema_to_pyarrow
    from pyiceberg.table import StaticTable
    from pyiceberg.transforms import IdentityTransform

    described = _newest_metadata(folder)
    try:
        table = StaticTable.from_metadata(str(described.absolute()))
        schema, snapshot = table.schema(), table.current_snapshot()
        columns = schema_to_pyarrow(schema)
        if snapshot is None:
            return EventFiles([])
        # Whoever may read this folder may not read all others that a table could name.
        _inside(folder, snapshot.manifest_list, "Iceberg")
        for manifest in snapshot.manifests(table.io):
            _inside(folder, manifest.manifest_path, "Iceberg")
        tasks = list(table.scan().plan_files())
        specs = table.specs()
    except EventsError:
        raise
    except Exception as error:  # they have no class of their own in common
        _refuse(folder, "Iceberg", str(error) or type(error).__name__)
    if any(getattr(column, "initial_default", None) is not None for column in schema.fields):
        _refuse(folder, "Iceberg", "a column has a default for rows from before it was added")
    keys: dict[str, Mapping[str, Any]] = {}
    for task in sorted(tasks, key=lambda task: str(task.file.file_path)):
        if task.delete_files:
            _refuse(
                folder,
                "Iceberg",
                "some of its rows are only marked as deleted (delete files); write them out: "
                "CALL system.rewrite_data_files",
            )
        if str(task.file.file_format).rpartition(".")[2].lower() != "parquet":
            _refuse(folder, "Iceberg", f"'{task.file.file_path}' is no Parquet")
        values = zip(specs[task.file.spec_id].fields, task.file.partition, strict=True)
        keys[_inside(folder, task.file.file_path, "Iceberg")] = {
            name: value
            for part, value in values
            if isinstance(part.transform, IdentityTransform)
            and (name := schema.find_column_name(part.source_id)) in columns.names
        }
    return EventFiles(list(keys), columns, keys)


def _newest_metadata(folder: Path) -> Path:
    """The description of a table that holds now; its catalog, which would know, is not asked."""
    inside = folder / "metadata"
    hint = inside / "version-hint.text"
    if hint.is_file() and (version := hint.read_text().strip()).isdigit():
        newest = int(version)
        while (inside / f"v{newest + 1}.metadata.json").is_file():  # the hint may lag behind
            newest += 1
        named = inside / f"v{newest}.metadata.json"
        if named.is_file():
            return named
    versions: dict[int, list[Path]] = {}
    for file in inside.glob("*.metadata.json"):
        if (number := re.match(r"v?(\d+)", file.name)) is not None:
            versions.setdefault(int(number[1]), []).append(file)
    last = versions.get(max(versions, default=-1), [])
    if len(last) != 1:
        _refuse(folder, "Iceberg", "it has no newest description, so only its catalog knows")
    return last[0]


def _inside(folder: Path, place: str, kind: str) -> str:
    """The path of a table's file, under the folder as it was given."""
    root = folder.absolute()
    split = urlsplit(place)
    local = split.path if split.scheme == "file" else place
    path = root / (unquote(local) if kind == "Delta" else local)
    if split.scheme not in ("", "file") or ".." in path.parts or not path.is_relative_to(root):
        _refuse(folder, kind, f"'{place}' is part of it and lies outside of its folder")
    return str(folder / path.relative_to(root))


def _refuse(folder: Path, kind: str, why: str) -> NoReturn:
    raise EventsError(
        f"the {kind} table '{folder}' cannot be read from its files: {why.splitlines()[0]}; or "
        "read it by the name that Spark has for it: --engine spark --events table:NAME"
    )


def _other_column(stored: pa.Schema, columns: pa.Schema, above: str = "") -> str | None:
    """The first column of a file that is not the table's of its name, by their numbers."""
    numbers = {_number(column): column.name for column in columns}
    for column in stored:
        if (number := _number(column)) is None:
            continue  # files from elsewhere have none, and are read by names
        place = columns.get_field_index(column.name)
        if numbers.get(number, column.name) != column.name:
            return above + str(numbers[number])
        if place < 0:
            continue
        current = columns.field(place)
        if _number(current) not in (None, number):
            return above + str(column.name)
        inner = _fields(column.type), _fields(current.type)
        if (found := _other_column(*inner, f"{above}{column.name}.")) is not None:
            return found
    return None


def _number(column: pa.Field) -> bytes | None:
    found: bytes | None = (column.metadata or {}).get(_FIELD_ID)
    return found


def _fields(kind: pa.DataType) -> pa.Schema:
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return _fields(kind.value_type)
    return pa.schema(list(kind)) if pa.types.is_struct(kind) else pa.schema([])
