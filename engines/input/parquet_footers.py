"""Footers of Parquet files: parsed once in a process, for as long as a file stays as it is."""

from __future__ import annotations

import hashlib
import os
import threading
import time
from collections import OrderedDict
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

Int64s = npt.NDArray[np.int64]
State = tuple[int, ...]  # of a file: another one where it has changed

MOST_CHUNKS = 2**17  # columns of row groups whose footers are kept, some 100 MB
SETTLED_NANOSECONDS = 50 * 10**6  # a file that changed later may change again and not show it
CUT_TEXT = 32  # characters: some writers keep only the beginning of longer texts
_FOOTER_END = 8  # bytes: the length of the footer, and the mark of Parquet


@dataclass(frozen=True, eq=False)
class FooterColumn:
    """The statistics of one column in the row groups of a file, None where there are none."""

    least: Sequence[Any]
    greatest: Sequence[Any]
    nulls: Sequence[int]  # -1 where nobody counted them
    empty: Sequence[bool]

    @cached_property
    def are_integers(self) -> npt.NDArray[np.bool_]:
        """Where the least and the greatest are known as integers."""
        ends = zip(self.least, self.greatest, strict=True)
        return np.array([isinstance(a, int) and isinstance(b, int) for a, b in ends], bool)


def footer_digest(name: str | Path) -> str:
    """A digest of a file's footer as it is stored."""
    with Path(name).open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        file.seek(max(0, size - _FOOTER_END))
        length = int.from_bytes(file.read(4), "little")
        file.seek(max(0, size - _FOOTER_END - length))
        return hashlib.blake2b(file.read(length + _FOOTER_END), digest_size=16).hexdigest()


class ParsedFooter:
    """What a footer says; what is made of it is made once."""

    def __init__(self, name: str) -> None:
        self.digest = footer_digest(name)
        self.metadata = pq.read_metadata(name)
        self._sizes: dict[int, Int64s] = {}
        self._columns: dict[tuple[int, bool], FooterColumn] = {}

    @cached_property
    def paths(self) -> list[str]:
        """The paths of columns, those in structs with dots."""
        schema = self.metadata.schema
        return [schema.column(place).path for place in range(len(schema))]

    @cached_property
    def rows(self) -> list[int]:
        """Of each row group."""
        groups = range(self.metadata.num_row_groups)
        return [self.metadata.row_group(group).num_rows for group in groups]

    def places(self, columns: Collection[str]) -> list[int]:
        """The places that columns have, with all that is inside of them."""
        return [
            place
            for place, path in enumerate(self.paths)
            if path in columns or path.split(".")[0] in columns
        ]

    def sizes(self, columns: Collection[str]) -> Int64s:
        """The bytes that columns have in each row group."""
        found = np.zeros(len(self.rows), np.int64)
        for place in self.places(columns):
            if place not in self._sizes:
                groups = range(len(self.rows))
                chunks = (self.metadata.row_group(group).column(place) for group in groups)
                self._sizes[place] = np.array([c.total_compressed_size for c in chunks], np.int64)
            found += self._sizes[place]
        return found

    def column(self, place: int, raw: bool = False) -> FooterColumn:
        """The statistics of a column, as they are stored where `raw`."""
        if (place, raw) not in self._columns:
            least, greatest, nulls = [], [], []
            for group in range(len(self.rows)):
                found = _statistics(self.metadata, group, place, raw)
                least.append(found[0])
                greatest.append(found[1])
                nulls.append(found[2])
            empty = [none == rows for none, rows in zip(nulls, self.rows, strict=True)]
            self._columns[place, raw] = FooterColumn(least, greatest, nulls, empty)
        return self._columns[place, raw]

    def only_text(self, place: int, groups: Sequence[int]) -> str | None:
        """The text that a column has in every row of these row groups; None where it has others."""
        found = self.column(place)
        ends = {found.least[group] for group in groups} | {
            found.greatest[group] for group in groups
        }
        text = next(iter(ends), None)
        if len(ends) != 1 or not isinstance(text, str) or len(text) >= CUT_TEXT:
            return None
        return None if any(found.nulls[group] != 0 for group in groups) else text


def _statistics(metadata: Any, group: int, place: int, raw: bool) -> tuple[Any, Any, int]:
    found = metadata.row_group(group).column(place).statistics
    if found is None:
        return None, None, -1
    nulls = found.null_count if found.has_null_count and found.null_count is not None else -1
    if not found.has_min_max:
        return None, None, nulls
    try:
        if raw:
            return found.min_raw, found.max_raw, nulls
        return found.min, found.max, nulls
    except (pa.ArrowException, ValueError, OverflowError, NotImplementedError):
        return None, None, nulls


class ParquetFooter:
    """The footer of a file, parsed again only where the file has changed."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._state: State | None = None
        self._parsed: ParsedFooter | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {"_name": self._name, "_state": None, "_parsed": None}

    @property
    def parsed(self) -> ParsedFooter:
        state = state_of(self._name)
        if self._parsed is None or state != self._state:
            self._parsed, self._state = _KNOWN.get(self._name, state), state
        return self._parsed

    @property
    def metadata(self) -> pq.FileMetaData:
        return self.parsed.metadata


def state_of(name: str) -> State:
    """What differs where a file has changed: its size, its time of change, and which file it is."""
    found = Path(name).stat()
    return found.st_size, found.st_mtime_ns, found.st_ino


class _Footers:
    """Those that were asked for last, whoever asked."""

    def __init__(self) -> None:
        self._known: OrderedDict[str, tuple[State, ParsedFooter]] = OrderedDict()
        self._chunks = 0
        self._lock = threading.Lock()

    def get(self, name: str, state: State) -> ParsedFooter:
        """The footer of a file that is in this state."""
        name = str(Path(name).absolute())
        with self._lock:
            known = self._known.get(name)
            if known is not None and known[0] == state:
                self._known.move_to_end(name)
                return known[1]
        found = ParsedFooter(name)
        if time.time_ns() - state[1] < SETTLED_NANOSECONDS:
            return found
        with self._lock:
            self._drop(name)
            self._known[name] = (state, found)
            self._chunks += _chunks(found)
            while self._chunks > MOST_CHUNKS:
                self._drop(next(iter(self._known)))
        return found

    def _drop(self, name: str) -> None:
        if (known := self._known.pop(name, None)) is not None:
            self._chunks -= _chunks(known[1])


def _chunks(footer: ParsedFooter) -> int:
    return int(footer.metadata.num_row_groups * footer.metadata.num_columns)


_KNOWN = _Footers()
