"""Tables of Delta and Iceberg as places of rows: `delta:PATH` and `iceberg:PATH`.

Files of rows are put into a table's folder, where nobody reads them, and become part of it all at
once, by one entry in its log.
"""

from __future__ import annotations

import importlib.util
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Literal as OneOf
from typing import Protocol
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq

from engines.input.lake_tables import table_kind
from engines.limits import ResultsError
from engines.results.chunks import ROW_KINDS, RowKind

LakeKind = OneOf["Delta", "Iceberg"]
_KINDS: dict[str, LakeKind] = {"delta:": "Delta", "iceberg:": "Iceberg"}  # by prefix
_LIBRARIES = {"Delta": "deltalake", "Iceberg": "pyiceberg"}


@dataclass(frozen=True)
class Turn:
    """A batch of a writer that is to be in a table once, however often it is written."""

    writer: str
    batch: int


class LakeTable(Protocol):
    """The log of a table in a folder; each commit makes or changes the table, or does nothing."""

    @property
    def folder(self) -> Path: ...

    def has_columns(self, schema: pa.Schema) -> bool:
        """Whether the table has these columns; so will one that is not there yet."""
        ...

    def last_batch(self, writer: str) -> int:
        """The number of the last batch of a writer that is in the table, or -1."""
        ...

    def commit(
        self, names: Sequence[str], schema: pa.Schema, replace: bool, turn: Turn | None
    ) -> None:
        """Have files of the folder be part of the table, or with `replace` all of it."""
        ...


@dataclass(frozen=True)
class LakePlace:
    """The folder that `delta:PATH` or `iceberg:PATH` names.

    Of rows of one kind it is the table, of both it has a folder with a table for each.
    """

    kind: LakeKind
    folder: str

    def table(self, folder: Path) -> LakeTable:
        """The table in a folder."""
        if self.kind == "Delta":
            from engines.results.delta_commits import DeltaFolder

            return DeltaFolder(folder)
        from engines.results.iceberg_commits import IcebergFolder

        return IcebergFolder(folder)

    def tables(self, kinds: tuple[bool, bool]) -> dict[RowKind, Path]:
        """The folder of each kind of rows; `kinds` are those there are."""
        root = Path(self.folder)
        wanted = [kind for kind, has in zip(ROW_KINDS, kinds, strict=True) if has] or ROW_KINDS[:1]
        return {kind: root if len(wanted) == 1 else root / kind for kind in wanted}

    def check(self) -> None:
        """Refuse what rows could not be written to, as far as that can be told by now."""
        root, library = Path(self.folder), _LIBRARIES[self.kind]
        if importlib.util.find_spec(library) is None:
            extra = self.kind.lower()
            raise ResultsError(
                f"tables of {self.kind} are written by {library}, which is not there; install it: "
                f"pip install 'sheaf[{extra}]'"
            )
        if not root.absolute().parent.is_dir():
            raise ResultsError(f"there is no folder '{root.parent}' to write results to")
        self._check_folder(root, [*ROW_KINDS, "late", "_staging"])

    def check_tables(self, kinds: tuple[bool, bool]) -> None:
        """Refuse folders that are there and are no such tables."""
        root, tables = Path(self.folder), self.tables(kinds)
        if len(tables) > 1 and table_kind(root) is not None:
            raise ResultsError(
                f"'{root}' is a table, and there are rows of both kinds, each of which gets a "
                "table in a folder of it; name another folder"
            )
        for folder in tables.values():
            self._check_folder(folder)

    def _check_folder(self, folder: Path, known: Sequence[str] = ()) -> None:
        if folder.exists() and not folder.is_dir():
            raise ResultsError(f"'{folder}' is a file, and a table is a folder")
        found = table_kind(folder)
        if found not in (None, self.kind):
            raise ResultsError(f"'{folder}' is a table of {found}, not of {self.kind}")
        other = (path.name for path in sorted(folder.glob("*")) if path.name not in known)
        if found is None and (name := next(other, None)) is not None:
            raise ResultsError(
                f"'{folder}' is there already, with '{name}', and is no table of {self.kind}; "
                "name another folder"
            )


def lake_place(path: str) -> LakePlace | None:
    """The tables that a path names, if it names any."""
    for prefix, kind in _KINDS.items():
        if path.startswith(prefix):
            folder = path.removeprefix(prefix).rstrip("/")
            if not folder or "://" in folder:
                raise ResultsError(
                    f"'{path}' names no folder of this machine: write {prefix}PATH; tables "
                    "elsewhere are written by Spark as table:NAME"
                )
            return LakePlace(kind, folder)
    return None


def replace_rows(table: LakeTable, file: Path) -> None:
    """Have the rows of a Parquet file be all that a table has; older ones stay in its history."""
    schema = held_schema(pq.read_schema(file))
    _check_columns(table, schema)
    name = f"rows-{uuid4().hex}.parquet"
    names = [name] if _put(file, table.folder / name, schema) else []
    table.commit(names, schema, True, None)


def add_rows(table: LakeTable, files: Sequence[Path], turn: Turn) -> None:
    """Add the rows of Parquet files to a table, once for each turn."""
    if not files or table.last_batch(turn.writer) >= turn.batch:
        return
    schema = held_schema(pq.read_schema(files[0]))
    _check_columns(table, schema)
    named = {_file_of(turn, number): file for number, file in enumerate(files)}
    names = [name for name, file in named.items() if _put(file, table.folder / name, schema)]
    table.commit(names, schema, False, turn)


def files_of_writer(writer: str) -> str:
    """The pattern of the names of files that `add_rows` has put into a table, in order."""
    return f"?????????-{writer[:8]}-*.parquet"


def _file_of(turn: Turn, part: int) -> str:
    return f"{turn.batch:09d}-{turn.writer[:8]}-{part:05d}.parquet"


def held_schema(schema: pa.Schema) -> pa.Schema:
    """Columns as both kinds of table have them: times in microseconds, zones in UTC."""
    return pa.schema([pa.field(column.name, _held(column.type)) for column in schema])


def _held(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_timestamp(kind):
        return pa.timestamp("us", None if kind.tz is None else "UTC")
    if pa.types.is_dictionary(kind):
        return _held(kind.value_type)
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(column.name, _held(column.type)) for column in kind])
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return pa.list_(_held(kind.value_type))
    return kind


def _check_columns(table: LakeTable, schema: pa.Schema) -> None:
    if not table.has_columns(schema):
        raise ResultsError(
            f"the table '{table.folder}' has other columns than these rows: "
            f"{', '.join(f'{column.name} {column.type}' for column in schema)}; name another folder"
        )


def _put(file: Path, place: Path, schema: pa.Schema) -> bool:
    """Whether a file has rows, which are then at their place in a table's folder."""
    place.parent.mkdir(parents=True, exist_ok=True)
    with pq.ParquetFile(file) as rows:
        if not rows.metadata.num_rows:
            return False
        if rows.schema_arrow.remove_metadata() == schema:
            shutil.copyfile(file, place)
            return True
        batches = _cast(rows.iter_batches(), schema)
        with pq.ParquetWriter(place, schema, compression="zstd") as out:
            for batch in batches:
                out.write_batch(batch)
    return True


def _cast(batches: Iterator[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    try:
        yield from chain.from_iterable(
            pa.Table.from_batches([batch]).cast(schema).to_batches() for batch in batches
        )
    except pa.ArrowInvalid as error:
        raise ResultsError(
            f"rows cannot be as a table has them, with times in whole microseconds: {error}; write "
            "them to .parquet"
        ) from error
