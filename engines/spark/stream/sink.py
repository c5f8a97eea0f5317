"""Where the rows of a live stream go: Parquet files that appear complete, each batch's once.

Tasks write beside the folders that are read; when all of a batch's are done, its files are renamed
into them, under the number of the batch. A batch that runs again after a crash has the same rows,
and its files take the place of those that were there.
"""

from __future__ import annotations

import json
import shutil
import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from engines.access.build_index import build_indexes
from engines.access.index_files import remove_index
from engines.account import Account
from engines.limits import ResultsError
from engines.results.lake_place import LakeKind, LakePlace, Turn, add_rows
from engines.spark.stream.checkpoint import stream_id
from engines.spark.stream.source import bytes_table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_STAGING = "_staging"  # readers leave out what begins so
_SINKS = ("sink-aggregates", "sink-matches")  # operators of plans; late events are no rows of one


@dataclass(frozen=True)
class Sink:
    """A folder with one folder for each kind of rows.

    Where it is `light`, each keeps the light index of its files.
    """

    folder: str
    kinds: tuple[str, ...]
    light: bool = False

    def prepare(self) -> None:
        """Make the folders."""
        try:
            for kind in self.kinds:
                (Path(self.folder) / kind).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ResultsError(f"'{self.folder}' cannot be written to: {error.strerror}") from error

    def write(self, found: DataFrame, batch: int) -> list[dict[str, Any]]:
        """Write the rows of a batch, in place of those that an earlier try has written.

        Gives what is told of them.
        """
        self.clear(batch)
        writer = Writer(str(self.staging(batch).absolute()), self.kinds)
        about = [json.loads(row[0]) for row in found.mapInArrow(writer, "about string").collect()]
        self.publish(batch)
        return about

    def staging(self, batch: int) -> Path:
        return Path(self.folder) / _STAGING / str(batch)

    def clear(self, batch: int) -> None:
        """Before tasks write: what an earlier try has left."""
        shutil.rmtree(self.staging(batch), ignore_errors=True)
        self.staging(batch).mkdir(parents=True)

    def publish(self, batch: int) -> None:
        """After all tasks have written."""
        for kind in self.kinds:
            self.publish_kind(kind, sorted(self.staging(batch).glob(f"{kind}-*.parquet")), batch)
        shutil.rmtree(self.staging(batch), ignore_errors=True)

    def publish_kind(self, kind: str, staged: Sequence[Path], batch: int) -> None:
        """Have the files of a kind be those of the batch."""
        folder, names = Path(self.folder) / kind, set[str]()
        for file in staged:
            name = _name(batch, file.name.partition("-")[2])
            file.replace(folder / name)
            names.add(name)
        for file in folder.glob(_name(batch, "*")):
            if file.name not in names:
                file.unlink()
                remove_index(file)
        if self.light:
            for name in sorted(names):
                build_indexes(str(folder / name))


@dataclass(frozen=True)
class LakeSink(Sink):
    """A folder with a table of Delta or Iceberg for each kind of rows, and files of late events.

    Each batch is one commit to a table, which says of which stream it is the batch: one that runs
    again, or was cut off behind its commit, is in the table once.
    """

    lake: LakeKind = "Delta"
    checkpoint: str = ""

    def prepare(self) -> None:
        super().prepare()
        self._place.check_tables((True, True))

    def publish_kind(self, kind: str, staged: Sequence[Path], batch: int) -> None:
        if f"sink-{kind}" not in _SINKS:
            super().publish_kind(kind, staged, batch)
            return
        turn = Turn(stream_id(self.checkpoint), batch)
        add_rows(self._place.table(Path(self.folder) / kind), staged, turn)

    @property
    def _place(self) -> LakePlace:
        return LakePlace(self.lake, self.folder)


def files_of(folder: Path, batch: int) -> list[Path]:
    """The files of a batch's rows, of all kinds, that are complete; late events are no rows."""
    kinds = (id.removeprefix("sink-") for id in _SINKS)
    return [file for kind in kinds for file in sorted((folder / kind).glob(_name(batch, "*")))]


def _name(batch: int, part: str) -> str:
    return f"{batch:09d}-{part}"


@dataclass(frozen=True)
class Writer:
    """What a task does: writes the tables of a partition and passes on what is told of them."""

    staging: str
    kinds: tuple[str, ...]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        context = TaskContext.get()
        part = 0 if context is None else context.partitionId()
        drafts: dict[str, Path] = {}
        writers: dict[str, Any] = {}
        account = Account()
        with ExitStack() as stack:
            for batch in batches:
                for kind in self.kinds:
                    with account.charge(f"sink-{kind}"):
                        for value in batch.column(kind).drop_null():
                            table = bytes_table(value.as_buffer())
                            if kind not in writers:
                                drafts[kind] = Path(self.staging) / f"{kind}.{uuid.uuid4().hex}"
                                writer = pq.ParquetWriter(
                                    drafts[kind], table.schema, compression="zstd"
                                )
                                writers[kind] = stack.enter_context(writer)
                            writers[kind].write_table(table)
                yield batch.select(["about"])
        for kind, draft in drafts.items():
            with account.charge(f"sink-{kind}"):
                draft.replace(draft.with_name(f"{kind}-{part:05d}.parquet"))
        sinks = (f"sink-{kind}" for kind in drafts)
        spent = {id: account.nanoseconds[id] for id in sinks if id in _SINKS}
        if spent:
            said = {"account": {"rows_in": {}, "rows_out": {}, "nanoseconds": spent}}
            yield pa.RecordBatch.from_pydict({"about": [json.dumps(said)]})
