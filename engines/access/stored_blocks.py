"""Blocks of all files of a source: of the light index where a file has one, else its row groups."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from engines.access.blocks import Blocks, Bounds, Int64s, bounds_of
from engines.access.footers import FileFooter, Footers, group_times
from engines.access.index_files import Manifest, StaleIndexError, checked_manifest
from engines.access.light_index import MAX_VALUES, LightIndex
from engines.input.batches import FileSource
from workloads.workload import Stream


@dataclass(eq=False)
class StoredFile:
    """A file with what is known of it; its blocks are those of all files from `begin` on."""

    footer: FileFooter
    manifest: Manifest | None = None
    light: LightIndex | None = None
    begin: int = 0
    first_unit: int = 0

    @property
    def name(self) -> str:
        return self.footer.file.name

    @property
    def groups(self) -> Int64s:
        """The row group of each block, in this file."""
        if self.light is not None:
            return self.light.group
        return np.arange(self.footer.groups, dtype=np.int64)

    @property
    def sizes(self) -> Int64s:
        return np.array(self.footer.rows, np.int64) if self.light is None else self.light.rows

    def column(self, name: str) -> tuple[list[Any], list[Any], list[int], list[bool]] | None:
        """The least, the greatest, how many nulls, and whether there is nothing else."""
        if self.light is not None and name in self.light.about:
            if self.light.about[name]["kind"] == "time":
                return None
            found = self.light.values(name)
            assert found is not None
            least, greatest, nulls = found
            empty = [n == rows for n, rows in zip(nulls, self.light.rows.tolist(), strict=True)]
            return least, greatest, nulls, empty
        column = self.footer.column(name)
        if column is None:
            return None
        groups = self.groups.tolist()
        return (
            [column.least[g] for g in groups],
            [column.greatest[g] for g in groups],
            # Of a block it is only known whether its row group has nulls.
            [column.nulls[g] if self.light is None or column.nulls[g] == 0 else -1 for g in groups],
            [column.empty[g] for g in groups],
        )


@dataclass(eq=False)
class StoredEvents:
    """The files of a source and their blocks; `warnings` are of indexes that cannot be used."""

    files: Sequence[StoredFile]
    warnings: list[str] = field(default_factory=list)
    is_indexed: bool = False  # are there indexes that hold, whether or not they are gone by?

    @property
    def units(self) -> int:
        return sum(file.footer.groups for file in self.files)

    @property
    def has_light(self) -> bool:
        return any(file.light is not None for file in self.files)

    def blocks(self, source: FileSource, stream: Stream, columns: Iterable[str]) -> Blocks:
        """All blocks, with the bounds of some columns."""
        low: list[Int64s] = []
        high: list[Int64s] = []
        always: list[npt.NDArray[np.bool_]] = []
        unit: list[Int64s] = []
        begin = first = 0
        for file in self.files:
            file.begin, file.first_unit = begin, first
            times = group_times(file.footer, source, stream)
            groups = file.groups
            begins = np.array([each[0] for each in times], np.int64)[groups]
            ends = np.array([each[1] for each in times], np.int64)[groups]
            kept = np.array([each[2] for each in times], bool)[groups]
            _refine(file, source, stream, begins, ends, kept)
            low.append(begins)
            high.append(ends)
            always.append(kept)
            unit.append(groups + first)
            begin += len(groups)
            first += file.footer.groups
        found: dict[str, Bounds] = {}
        for name in columns:
            if name == "time" and name not in source.schema.names:
                continue  # the time of an event, whatever its column is called
            bounds = self._bounds(source, name)
            if bounds is not None:
                found[name] = bounds
        rows = [file.sizes for file in self.files]
        return Blocks(
            np.concatenate(low),
            np.concatenate(high),
            np.concatenate(rows),
            np.concatenate(unit),
            np.concatenate(always),
            found,
        )

    def _bounds(self, source: FileSource, name: str) -> Bounds | None:
        least: list[Any] = []
        greatest: list[Any] = []
        nulls: list[int] = []
        empty: list[bool] = []
        lists: tuple[list[Any], ...] = (least, greatest, nulls, empty)
        for file in self.files:
            column = file.column(name)
            if column is None:
                return None
            stored: Iterable[Any] = column
            for into, values in zip(lists, stored, strict=True):
                into.extend(values)
        kind = source.schema.field(name).type if name in source.schema.names else None
        is_exact = kind is not None and pa.types.is_signed_integer(kind)
        found = bounds_of(
            least, greatest, np.array(nulls, np.int64), np.array(empty, bool), is_exact
        )
        return None if found is None else self._with_sets(found, name)

    def _with_sets(self, bounds: Bounds, name: str) -> Bounds:
        """With the values that blocks have, where all files know them and they are few."""
        if bounds.kind != "string":
            return bounds
        each = [None if file.light is None else file.light.sets(name) for file in self.files]
        known = [found for found in each if found is not None]
        values = tuple(sorted(set().union(*(found[0] for found in known)))) if known else ()
        if len(known) < len(each) or not known or len(values) > MAX_VALUES:
            return bounds
        place = {value: number for number, value in enumerate(values)}
        parts = []
        for own, bits in known:
            moved = np.zeros(len(bits), np.uint64)
            for number, value in enumerate(own):
                has = (bits >> np.uint64(number)) & np.uint64(1)
                moved |= has << np.uint64(place[value])
            parts.append(moved)
        return Bounds(
            bounds.kind, bounds.least, bounds.greatest, bounds.known, bounds.nulls, bounds.empty,
            bounds.is_exact, values, np.concatenate(parts),
        )  # fmt: skip

    def close(self) -> None:
        for file in self.files:
            if file.light is not None:
                file.light.close()


def _refine(
    file: StoredFile,
    source: FileSource,
    stream: Stream,
    low: Int64s,
    high: Int64s,
    always: npt.NDArray[np.bool_],
) -> None:
    """The times of blocks, where the light index knows them."""
    unit = file.footer.time_unit(stream)
    if file.light is None or unit is None or stream.time not in file.light.about:
        return
    unit = file.light.about[stream.time]["unit"] or unit
    found = file.light.values(stream.time)
    assert found is not None
    tick = source.tick
    for place, (least, greatest) in enumerate(zip(*found[:2], strict=True)):
        if least is not None and not always[place]:
            low[place] = least * unit // tick
            high[place] = -(-greatest * unit // tick)


def open_stored(footers: Footers, with_indexes: bool = True) -> StoredEvents:
    """The files of a source with their indexes, as far as these hold.

    Whether they do is looked at in any case, and only `with_indexes` are they gone by.
    """
    files, warnings, is_indexed = [], [], False
    for footer in footers.files:
        file = StoredFile(footer)
        try:
            manifest = checked_manifest(file.name)
            if manifest is not None and with_indexes:
                file.light = LightIndex(file.name, manifest)
                file.manifest = manifest
            is_indexed = is_indexed or manifest is not None
        except StaleIndexError as error:
            warnings.append(
                f"{error}: it is read without its index; make it anew with "
                f"'sheaf index {file.name}'"
            )
        files.append(file)
    return StoredEvents(files, warnings, is_indexed)
