"""Blocks of all files of a source: of the light index where a file has one, else its row groups."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from engines.access.blocks import Blocks, Bounds, Int64s, bounds_of, joined_bounds
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

    def bounds(self, name: str) -> Bounds | None:
        """What is known of a column in each block."""
        if self.light is not None and name in self.light.about:
            return None if self.light.about[name]["kind"] == "time" else self.light.bounds(name)
        column = self.footer.column(name)
        if column is None:
            return None
        nulls, empty = np.array(column.nulls, np.int64), np.array(column.empty, bool)
        found = bounds_of(column.least, column.greatest, nulls, empty, True)
        if found is None or self.light is None:
            return found
        groups = self.groups
        return Bounds(
            found.kind,
            found.least[groups],
            found.greatest[groups],
            found.known[groups],
            # Of a block it is only known whether its row group has nulls.
            np.where(nulls == 0, 0, -1)[groups],
            empty[groups],
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
            begins, ends = times.low[groups], times.high[groups]
            kept = times.always[groups]
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
        parts = []
        for file in self.files:
            own = file.bounds(name)
            if own is None:
                return None
            parts.append(own)
        found = joined_bounds(parts)
        if found is None:
            return None
        kind = source.schema.field(name).type if name in source.schema.names else None
        is_exact = kind is not None and pa.types.is_signed_integer(kind)
        return self._with_sets(replace(found, is_exact=is_exact), name)

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
        return replace(bounds, values=values, sets=np.concatenate(parts))

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
    found = file.light.bounds(stream.time)
    assert found is not None
    shared = math.gcd(unit, source.tick)
    up, down = unit // shared, source.tick // shared
    own = found.known & ~always
    low[own] = found.least[own] * up // down
    high[own] = -(-found.greatest[own] * up // down)


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
