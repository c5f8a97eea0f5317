"""Where indexes are kept, and whether they still speak of the events that are there.

The index of `FOLDER/events.parquet` is in `FOLDER/.sheaf-index/`: side files, and a manifest that
names them and is written last, in one step. So a build that is cut off leaves the index as it was,
and of two builds at once the last to end wins, each with side files of its own. An index of a file
that has changed since, or a side file that is not the one that was written, is never used.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

VERSION = 2
FOLDER = ".sheaf-index"
_STAMP = b"sheaf.index"  # in a side file's schema: which data file, as it was
_FOOTER_END = 8  # bytes: the length of the footer, and the mark of Parquet


class StaleIndexError(Exception):
    """Why an index is not used; its text names the file."""


@dataclass(frozen=True)
class SideFile:
    """A file of an index: its name, how long it is, and how many rows it has."""

    name: str
    size: int
    rows: int


@dataclass(frozen=True)
class Manifest:
    """What an index says of one data file, and the side files that it has.

    `light` has a row for each block of rows, `on` a sorted run for each attribute.
    """

    file: str
    size: int
    modified: int  # nanoseconds
    rows: int
    footer: str  # its digest
    light: SideFile
    on: Mapping[str, SideFile] = field(default_factory=dict)
    seconds: float = 0.0  # that it took
    version: int = VERSION

    @property
    def side_files(self) -> list[SideFile]:
        return [self.light, *self.on.values()]

    @property
    def bytes(self) -> int:
        return sum(side.size for side in self.side_files)


@dataclass(frozen=True)
class DataFileState:
    """What tells one state of a data file from another."""

    size: int
    modified: int
    footer: str

    @staticmethod
    def of(path: str | Path) -> DataFileState:
        """The state that a Parquet file is in now."""
        with Path(path).open("rb") as file:
            found = os.fstat(file.fileno())
            file.seek(max(0, found.st_size - _FOOTER_END))
            length = int.from_bytes(file.read(4), "little")
            file.seek(max(0, found.st_size - _FOOTER_END - length))
            digest = hashlib.blake2b(file.read(length + _FOOTER_END), digest_size=16).hexdigest()
        return DataFileState(found.st_size, found.st_mtime_ns, digest)


def folder_of(data: str | Path) -> Path:
    """Where the index of a data file is."""
    return Path(data).parent / FOLDER


def manifest_path(data: str | Path) -> Path:
    return folder_of(data) / f"{Path(data).name}.json"


def read_manifest(data: str | Path) -> Manifest | None:
    """The manifest of a data file's index, whether or not it still holds; None without one."""
    path = manifest_path(data)
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise StaleIndexError(f"the index '{path}' cannot be read: {error}") from error
    try:
        if found["version"] != VERSION:
            raise StaleIndexError(f"the index '{path}' is of another version of Sheaf")
        light = SideFile(**found.pop("light"))
        on = {str(name): SideFile(**side) for name, side in found.pop("on").items()}
        return Manifest(light=light, on=on, **found)
    except (KeyError, TypeError, AttributeError) as error:
        raise StaleIndexError(f"the index '{path}' is no index of Sheaf's") from error


def checked_manifest(data: str | Path) -> Manifest | None:
    """The manifest of an index that holds; raises `StaleIndexError` where it does not any more."""
    found = read_manifest(data)
    if found is None:
        return None
    state = DataFileState.of(data)
    if (found.size, found.modified, found.footer) != (state.size, state.modified, state.footer):
        raise StaleIndexError(f"'{data}' has changed since it was indexed")
    for side in found.side_files:
        path = folder_of(data) / side.name
        try:
            size = path.stat().st_size
        except OSError as error:
            raise StaleIndexError(f"the index file '{path}' is not there") from error
        if size != side.size:
            raise StaleIndexError(f"the index file '{path}' is not as long as it was written")
    return found


def open_side(data: str | Path, side: SideFile, footer: str) -> pq.ParquetFile:
    """A side file, checked page by page as it is read."""
    path = folder_of(data) / side.name
    try:
        opened = pq.ParquetFile(path, page_checksum_verification=True)
    except (pa.ArrowException, OSError) as error:
        raise StaleIndexError(f"the index file '{path}' cannot be read: {error}") from error
    stamp = (opened.schema_arrow.metadata or {}).get(_STAMP)
    if stamp != _stamp(footer) or opened.metadata.num_rows != side.rows:
        opened.close()
        raise StaleIndexError(f"the index file '{path}' is of other events")
    return opened


def _stamp(footer: str) -> bytes:
    return f"{VERSION} {footer}".encode()


def write_side(
    data: str | Path, kind: str, table: pa.Table, state: DataFileState, group_rows: int
) -> SideFile:
    """Write a side file, under a name that no other build has."""
    folder = folder_of(data)
    folder.mkdir(exist_ok=True)
    name = f"{Path(data).name}.{kind}-{secrets.token_hex(6)}.parquet"
    metadata = {**(table.schema.metadata or {}), _STAMP: _stamp(state.footer)}
    path = folder / name
    try:
        pq.write_table(
            table.replace_schema_metadata(metadata),
            path,
            row_group_size=group_rows,
            compression="zstd",
            write_page_checksum=True,
        )
        _synced(path)
    except BaseException:
        with suppress(OSError):
            path.unlink()
        raise
    return SideFile(name, path.stat().st_size, table.num_rows)


def write_manifest(data: str | Path, manifest: Manifest) -> None:
    """Make an index the one that is used, in one step, and clear away what it replaces."""
    path = manifest_path(data)
    part = path.with_name(f"{path.name}.{secrets.token_hex(6)}.part")
    try:
        part.write_text(json.dumps(_plain(manifest), indent=2), encoding="utf-8")
        _synced(part)
        part.replace(path)
    except BaseException:
        with suppress(OSError):
            part.unlink()
        raise
    clear_unused(data)


def _plain(manifest: Manifest) -> dict[str, Any]:
    return asdict(manifest)


def _synced(path: Path) -> None:
    with path.open("rb") as file:
        os.fsync(file.fileno())


UNUSED_SECONDS = 3600.0  # after which what no manifest names is no longer being written


def clear_unused(data: str | Path, seconds: float = UNUSED_SECONDS) -> None:
    """Remove side files of a data file that its manifest does not name, once they are old.

    Those that an index has just replaced may still be read, and another build may be writing.
    """
    import time

    try:
        found = read_manifest(data)
    except StaleIndexError:
        return
    used = {side.name for side in found.side_files} if found is not None else set()
    used.add(manifest_path(data).name)
    for path in folder_of(data).glob(f"{_escaped(Path(data).name)}.*"):
        with suppress(OSError):
            if path.name not in used and time.time() - path.stat().st_mtime >= seconds:
                path.unlink()


def _escaped(name: str) -> str:
    import glob

    return glob.escape(name)


def remove_index(data: str | Path) -> bool:
    """Remove the index of a data file; was there one?"""
    path = manifest_path(data)
    was_there = path.exists()
    with suppress(OSError):
        path.unlink()
    for side in folder_of(data).glob(f"{_escaped(Path(data).name)}.*"):
        with suppress(OSError):
            side.unlink()
    with suppress(OSError):
        folder_of(data).rmdir()  # only if it is empty
    return was_there
