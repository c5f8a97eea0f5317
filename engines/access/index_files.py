"""Where indexes are kept, and whether they still speak of the events that are there.

The index of `FOLDER/events.parquet` is in `FOLDER/.sheaf-index/`: side files, and a manifest that
names them and is written last, in one step. So a build that is cut off leaves the index as it was,
and two builds at once both come in, each with side files of its own. An index of a file that has
changed since, or a side file that is not the one that was written, is never used.
"""

from __future__ import annotations

import fcntl
import glob
import hashlib
import json
import os
import secrets
import time
import zlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from engines.access.bloom_filters import RowGroupFilters, checksums_of
from engines.input.parquet_footers import ParquetFooter, footer_digest, state_of

VERSION = 3
FOLDER = ".sheaf-index"
SHARED = "shared.run"  # the beginning of names of side files of several data files
_LOCK = "lock"
_STAMP = b"sheaf.index"  # in a side file's schema: which data file, as it was


class StaleIndexError(Exception):
    """Why an index is not used; its text names the file."""


@dataclass(frozen=True)
class SideFile:
    """A file of an index: its name, how long it is, how many rows it has, a digest of its footer.

    Several data files may share one: this one has the `part` of that number. Where it has filters
    of values, `filters` is the checksum of their checksums, which are in a file beside it.
    """

    name: str
    size: int
    rows: int
    footer: str
    part: int = 0
    filters: int | None = None

    @property
    def names(self) -> list[str]:
        """Its name, and that of the checksums."""
        return [self.name] if self.filters is None else [self.name, checksums_name(self.name)]


def checksums_name(side: str) -> str:
    """The file that has the checksums of a side file's filters."""
    return f"{side}.filters"


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
        size, modified, _ = state_of(str(path))
        return DataFileState(size, modified, ParquetFooter(str(path)).parsed.digest)


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
        if found.pop("digest") != _digest(found):
            raise StaleIndexError(f"the index '{path}' is not as it was written")
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


def whole_manifest(data: str | Path) -> Manifest | None:
    """The same, where the side files' footers are as they were written, too."""
    found = checked_manifest(data)
    if found is not None:
        for side in found.side_files:
            open_side(data, side, found.footer).close()
    return found


def open_side(data: str | Path, side: SideFile, footer: str) -> pq.ParquetFile:
    """A side file, checked page by page as it is read."""
    path = folder_of(data) / side.name
    try:
        if footer_digest(path) != side.footer:
            raise StaleIndexError(f"the index file '{path}' is not as it was written")
        opened = pq.ParquetFile(path, page_checksum_verification=True)
    except (pa.ArrowException, OSError) as error:
        raise StaleIndexError(f"the index file '{path}' cannot be read: {error}") from error
    if not is_of(opened, side, footer) or opened.metadata.num_rows != side.rows:
        opened.close()
        raise StaleIndexError(f"the index file '{path}' is of other events")
    return opened


def is_of(opened: pq.ParquetFile, side: SideFile, footer: str) -> bool:
    """Is a part of a side file that of the data file with this digest?"""
    stamp: list[str] = (opened.schema_arrow.metadata or {}).get(_STAMP, b"").decode().split()
    return stamp[:1] == [str(VERSION)] and stamp[side.part + 1 : side.part + 2] == [footer]


def write_side(
    data: str | Path,
    kind: str,
    table: pa.Table,
    state: DataFileState,
    form: Mapping[str, Any],
) -> SideFile:
    """Write a side file, under a name that no other build has; `form` is for the writer."""
    return write_shared(folder_of(data), f"{Path(data).name}.{kind}", table, [state.footer], form)


def write_shared(
    folder: Path, name: str, table: pa.Table, footers: Sequence[str], form: Mapping[str, Any]
) -> SideFile:
    """Write a side file of data files with these digests, a part for each."""
    folder.mkdir(exist_ok=True)
    path = folder / f"{name}-{secrets.token_hex(6)}.parquet"
    stamp = " ".join([str(VERSION), *footers]).encode()
    schema = {**(table.schema.metadata or {}), _STAMP: stamp}
    beside = path.with_name(checksums_name(path.name))
    filters = None
    try:
        table = table.replace_schema_metadata(schema)
        pq.write_table(table, path, write_page_checksum=True, **form)
        _synced(path)
        if form.get("bloom_filter_options"):
            sums = np.array(checksums_of(path), "<u4").tobytes()
            beside.write_bytes(sums)
            _synced(beside)
            filters = zlib.crc32(sums)
    except BaseException:
        for each in (path, beside):
            with suppress(OSError):
                each.unlink()
        raise
    size, digest = path.stat().st_size, footer_digest(path)
    return SideFile(path.name, size, table.num_rows, digest, filters=filters)


def open_filters(
    data: str | Path, side: SideFile, metadata: pq.FileMetaData
) -> RowGroupFilters | None:
    """The filters of a side file; None where it has none, or none that can be trusted."""
    path = folder_of(data) / side.name
    if side.filters is None:
        return None
    try:
        sums = path.with_name(checksums_name(side.name)).read_bytes()
    except OSError:
        return None
    if zlib.crc32(sums) != side.filters:
        return None
    return RowGroupFilters(path, metadata, np.frombuffer(sums, "<u4").tolist())


def write_manifest(data: str | Path, manifest: Manifest) -> Manifest:
    """Make an index the one that is used, in one step, and clear away what it replaces.

    What another build has indexed of the same events in the meantime stays indexed.
    """
    with _locked(data):
        known = _holding(data)
        if known is not None and known.footer == manifest.footer:
            manifest = replace(manifest, on={**manifest.on, **known.on})
        _write(data, manifest)
    clear_unused(data)
    return manifest


def replace_run(data: str | Path, footer: str, name: str, side: SideFile) -> None:
    """Make a side file that of an attribute, if the events are still those with this digest."""
    with _locked(data):
        known = _holding(data)
        if known is not None and known.footer == footer:
            _write(data, replace(known, on={**known.on, name: side}))
    clear_unused(data)


@contextmanager
def _locked(data: str | Path) -> Iterator[None]:
    """Who changes a manifest reads it first; nobody else does in between."""
    with (folder_of(data) / _LOCK).open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # until the file is closed, also by a kill
        yield


def _holding(data: str | Path) -> Manifest | None:
    try:
        return whole_manifest(data)
    except StaleIndexError:
        return None


def _write(data: str | Path, manifest: Manifest) -> None:
    path = manifest_path(data)
    part = path.with_name(f"{path.name}.{secrets.token_hex(6)}.part")
    document = asdict(manifest)
    document["digest"] = _digest(document)
    try:
        part.write_text(json.dumps(document, indent=2), encoding="utf-8")
        _synced(part)
        part.replace(path)
    except BaseException:
        with suppress(OSError):
            part.unlink()
        raise


def _digest(document: Mapping[str, Any]) -> str:
    """A digest of a manifest, without its own."""
    text = json.dumps(document, sort_keys=True)
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def _synced(path: Path) -> None:
    with path.open("rb") as file:
        os.fsync(file.fileno())


UNUSED_SECONDS = 3600.0  # after which what no manifest names is no longer being written


def clear_unused(data: str | Path, seconds: float = UNUSED_SECONDS) -> None:
    """Remove side files of a data file that its manifest does not name, once they are old.

    Those that an index has just replaced may still be read, and another build may be writing.
    """
    try:
        found = read_manifest(data)
    except StaleIndexError:
        return
    used = _names([found] if found is not None else [])
    used.add(manifest_path(data).name)
    _clear(folder_of(data).glob(f"{_escaped(Path(data).name)}.*"), used, seconds)


def clear_shared(folder: Path, seconds: float = UNUSED_SECONDS) -> None:
    """Remove side files of several data files that no manifest names, once they are old."""
    try:
        manifests = [read_manifest(data) for data in indexed_files(folder)]
    except StaleIndexError:
        return
    used = _names([manifest for manifest in manifests if manifest is not None])
    _clear(folder.glob(f"{SHARED}-*"), used, seconds)


def indexed_files(folder: Path) -> list[str]:
    """The data files that have manifests in an index's folder."""
    return sorted(str(folder.parent / path.stem) for path in folder.glob("*.json"))


def _names(manifests: Iterable[Manifest]) -> set[str]:
    return {name for each in manifests for side in each.side_files for name in side.names}


def _clear(paths: Iterable[Path], used: Collection[str], seconds: float) -> None:
    for path in paths:
        with suppress(OSError):
            if path.name not in used and time.time() - path.stat().st_mtime >= seconds:
                path.unlink()


def _escaped(name: str) -> str:
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
    if not indexed_files(folder_of(data)):
        _clear([*folder_of(data).glob(f"{SHARED}-*"), folder_of(data) / _LOCK], (), 0.0)
    with suppress(OSError):
        folder_of(data).rmdir()  # only if it is empty
    return was_there
