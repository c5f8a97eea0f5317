"""Commits to a table of Iceberg in a folder, which no catalog knows.

The newest description is the one with the greatest number, as tables of Hadoop's file systems have
them: `metadata/v3.metadata.json`, which `version-hint.text` names too.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyiceberg.catalog.noop import NoopCatalog
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.io.pyarrow import _pyarrow_to_schema_without_ids
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC
from pyiceberg.schema import assign_fresh_schema_ids
from pyiceberg.table import CommitTableResponse, StaticTable, Table
from pyiceberg.table.metadata import new_table_metadata
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER
from pyiceberg.table.update import update_table_metadata

from engines.limits import ResultsError
from engines.results.lake_place import Turn

_BATCH_OF = "sheaf.batch."  # the property with the last batch of a writer; snapshots may expire
_NAME = ("rows",)  # which the library wants, and nobody sees


@dataclass(frozen=True)
class IcebergFolder:
    """The descriptions of a table; in their properties is who has written what."""

    folder: Path

    def has_columns(self, schema: pa.Schema) -> bool:
        table = self._table()
        if table is None:
            return True
        wanted = [(column.name, str(column.field_type)) for column in _columns(schema).fields]
        found = [(column.name, str(column.field_type)) for column in table.schema().fields]
        return found == wanted

    def last_batch(self, writer: str) -> int:
        table = self._table()
        return -1 if table is None else int(table.properties.get(_BATCH_OF + writer, -1))

    def commit(
        self, names: Sequence[str], schema: pa.Schema, replace: bool, turn: Turn | None
    ) -> None:
        try:
            table = self._table() or self._made(schema)
            # Tried again by the library where others were quicker.
            with _without_complaints(), table.transaction() as change:
                if turn is not None:
                    change.set_properties({_BATCH_OF + turn.writer: str(turn.batch)})
                if replace and any(table.scan().plan_files()):
                    change.delete(AlwaysTrue())
                if names:
                    change.add_files([str(self.folder.absolute() / name) for name in names])
        except ResultsError:
            raise
        except Exception as error:  # they have no class of their own in common
            why = (str(error).splitlines() or [type(error).__name__])[0]
            raise ResultsError(
                f"the Iceberg table '{self.folder}' cannot be written to: {why}"
            ) from error

    def _table(self) -> Any:
        """The table as it is now; None where there is none."""
        catalog = _FolderCatalog(self.folder.absolute())
        if catalog.newest():
            return catalog.load_table(_NAME)
        if next((self.folder / "metadata").glob("*.metadata.json"), None) is not None:
            raise ResultsError(
                f"the Iceberg table '{self.folder}' is one of a catalog, which has to know of what "
                "is written: with Spark, --out table:NAME"
            )
        return None

    def _made(self, schema: pa.Schema) -> Any:
        catalog = _FolderCatalog(self.folder.absolute())
        described = new_table_metadata(
            schema=_columns(schema),
            partition_spec=UNPARTITIONED_PARTITION_SPEC,
            sort_order=UNSORTED_SORT_ORDER,
            location=str(self.folder.absolute()),
            properties={},
        )
        with suppress(CommitFailedException):  # then it is there
            catalog.describe(described, 1)
        return catalog.load_table(_NAME)


@contextmanager
def _without_complaints() -> Iterator[None]:
    """A block in which the library does not warn of columns without statistics, as ours are."""
    log = logging.getLogger("pyiceberg.io.pyarrow")

    def is_other(record: logging.LogRecord) -> bool:
        return not str(record.msg).startswith("PyArrow statistics missing")

    log.addFilter(is_other)
    try:
        yield
    finally:
        log.removeFilter(is_other)


def _columns(schema: pa.Schema) -> Any:
    return assign_fresh_schema_ids(_pyarrow_to_schema_without_ids(schema))


class _FolderCatalog(NoopCatalog):  # type: ignore[misc] # its library need not be there
    """A catalog of one table, as much of it as the table asks for."""

    def __init__(self, folder: Path) -> None:
        super().__init__("folder")
        self._metadata = folder / "metadata"

    def newest(self) -> int:
        """The number of the newest description; 0 where there is none."""
        found = self._metadata.glob("v*.metadata.json")
        numbers = (re.fullmatch(r"v(\d+)\.metadata\.json", file.name) for file in found)
        return max((int(number[1]) for number in numbers if number is not None), default=0)

    def load_table(self, identifier: Any) -> Any:
        newest = str(self._metadata / f"v{self.newest()}.metadata.json")
        static = StaticTable.from_metadata(newest)
        return Table(identifier, static.metadata, newest, static.io, self)

    def commit_table(self, table: Any, requirements: Any, updates: Any) -> Any:
        for requirement in requirements:
            requirement.validate(table.metadata)
        before = table.metadata_location
        described = update_table_metadata(table.metadata, updates, False, before)
        number = int(Path(before).name.removeprefix("v").partition(".")[0]) + 1
        place = self.describe(described, number)
        return CommitTableResponse(metadata=described, metadata_location=str(place))

    def describe(self, described: Any, number: int) -> Path:
        """Write a description, complete, under a number that no other has."""
        self._metadata.mkdir(parents=True, exist_ok=True)
        final = self._metadata / f"v{number}.metadata.json"
        draft = final.with_name(f".{final.name}.{os.getpid()}")
        draft.write_text(described.model_dump_json(by_alias=True, exclude_none=True))
        try:
            os.link(draft, final)
        except FileExistsError as error:
            raise CommitFailedException(f"others have written '{final.name}'") from error
        finally:
            draft.unlink()
        draft.write_text(str(number))
        draft.replace(self._metadata / "version-hint.text")
        return final
