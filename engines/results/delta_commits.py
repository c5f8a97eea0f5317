"""Commits to a table of Delta, by its own library."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import CommitProperties, DeltaTable, Schema, Transaction
from deltalake.exceptions import DeltaError
from deltalake.transaction import AddAction

from engines.limits import ResultsError
from engines.results.lake_place import Turn


@dataclass(frozen=True)
class DeltaFolder:
    """The log of a table; who writes what is in its `txn` entries, as Spark's writer has them."""

    folder: Path

    def has_columns(self, schema: pa.Schema) -> bool:
        table = self._table()
        return table is None or table.schema() == Schema.from_arrow(schema)

    def last_batch(self, writer: str) -> int:
        table = self._table()
        found = None if table is None else table.transaction_version(writer)
        return -1 if found is None else int(found)

    def commit(
        self, names: Sequence[str], schema: pa.Schema, replace: bool, turn: Turn | None
    ) -> None:
        done = [] if turn is None else [Transaction(turn.writer, turn.batch)]
        try:
            table = DeltaTable.create(str(self.folder.absolute()), schema, mode="ignore")
            table.create_write_transaction(
                [self._added(name) for name in names],
                "overwrite" if replace else "append",
                schema,
                commit_properties=CommitProperties(app_transactions=done),
            )
        except (DeltaError, OSError) as error:
            raise self._refused(error) from error

    def _table(self) -> Any:
        if not (self.folder / "_delta_log").is_dir():
            return None
        try:
            return DeltaTable(str(self.folder.absolute()))
        except (DeltaError, OSError) as error:
            raise self._refused(error) from error

    def _added(self, name: str) -> Any:
        file = (self.folder / name).stat()
        rows = pq.read_metadata(self.folder / name).num_rows
        told = json.dumps({"numRecords": rows})
        return AddAction(name, file.st_size, {}, int(file.st_mtime * 1000), True, told)

    def _refused(self, error: Exception) -> ResultsError:
        why = (str(error).splitlines() or [type(error).__name__])[0]
        return ResultsError(f"the Delta table '{self.folder}' cannot be written to: {why}")
