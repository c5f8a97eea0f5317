"""Runs of many files are merged, so that a probe opens few: what new files add is merged once more.

A run is never changed. A merged one is written beside those that it replaces, and then the
manifests of its data files, one after the other, come to name it. So each manifest holds at any
time, wherever a merge ends, and of two merges at once both leave what can be read.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from engines.access.index_files import (
    SHARED,
    Manifest,
    SideFile,
    StaleIndexError,
    checked_manifest,
    clear_shared,
    folder_of,
    indexed_files,
    open_side,
    replace_run,
    write_shared,
)
from engines.access.sorted_runs import run_form
from engines.access.value_marks import with_marks

MOST_RUNS = 8  # of an attribute in a folder
MOST_ENTRIES = 2**24  # of a merged run, which is made in memory


@dataclass(eq=False)
class _Run:
    """A side file with a run of an attribute, and the data files that go by it."""

    side: SideFile
    members: list[tuple[str, Manifest]] = field(default_factory=list)

    def open(self, name: str) -> pq.ParquetFile:
        data, manifest = self.members[0]
        return open_side(data, manifest.on[name], manifest.footer)


def merge_runs(files: Iterable[str]) -> None:
    """Merge the runs of an attribute where a folder of these files has too many of them."""
    for folder in sorted({folder_of(file) for file in files}):
        for name, runs in _runs_in(folder).items():
            if len(runs) > MOST_RUNS:
                for alike in _alike(runs, name):
                    _merge(folder, name, _smallest(alike))
        clear_shared(folder)


def _runs_in(folder: Path) -> dict[str, list[_Run]]:
    """By attribute the runs that manifests of a folder name, as far as these hold."""
    found: dict[str, dict[str, _Run]] = defaultdict(dict)
    for data in indexed_files(folder):
        try:
            manifest = checked_manifest(data)
        except (StaleIndexError, OSError, pa.ArrowException):
            continue
        if manifest is not None:
            for name, side in manifest.on.items():
                run = found[name].setdefault(side.name, _Run(side))
                run.members.append((data, manifest))
    return {name: list(runs.values()) for name, runs in found.items()}


def _alike(runs: Sequence[_Run], name: str) -> list[list[_Run]]:
    """The runs with values of the same type and with the same columns beside them."""
    found: dict[object, list[_Run]] = defaultdict(list)
    for run in runs:
        try:
            with run.open(name) as opened:
                schema = opened.schema_arrow
        except StaleIndexError:  # which who reads it will say
            continue
        ordered = tuple(sorted((schema.metadata or {}).items()))
        ordered = tuple((key, value) for key, value in ordered if key.startswith(b"at_"))
        found[str(schema.field("value").type), ordered].append(run)
    return list(found.values())


def _smallest(runs: Sequence[_Run]) -> list[_Run]:
    """Those that are merged: from the smallest on, as long as the next is not much larger than all.

    So an entry is merged as often as the logarithm of all entries, and not with each new file.
    """
    taken: list[_Run] = []
    entries = 0
    for run in sorted(runs, key=lambda run: (run.side.rows, run.side.name)):
        if len(taken) > 1 and run.side.rows > 2 * entries:
            break
        if entries + run.side.rows > MOST_ENTRIES:
            break
        taken, entries = [*taken, run], entries + run.side.rows
    return taken


def _merge(folder: Path, name: str, runs: Sequence[_Run]) -> None:
    """Make one run of several, for all data files that go by one of them."""
    if len(runs) < 2:
        return
    members: list[tuple[str, Manifest]] = []
    tables = []
    for run in runs:
        try:
            with run.open(name) as opened:
                table = opened.read()
        except (StaleIndexError, OSError, pa.ArrowException):
            continue
        for data, manifest in run.members:
            own = table
            if "part" in table.column_names:
                own = table.filter(pc.equal(table.column("part"), manifest.on[name].part))
                own = own.drop_columns("part")
            number = pa.array([len(members)] * len(own), pa.int32())
            tables.append(own.append_column("part", number))
            members.append((data, manifest))
    if len(members) < 2:
        return
    merged = pa.concat_tables(tables).combine_chunks()
    merged = with_marks(merged.take(pc.sort_indices(merged.column("value"))))
    footers = [manifest.footer for _, manifest in members]
    side = write_shared(folder, SHARED, merged, footers, run_form(merged))
    for part, (data, manifest) in enumerate(members):
        replace_run(data, manifest.footer, name, replace(side, part=part))
