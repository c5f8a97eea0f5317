"""The folder of a workload and its rules as one archive, zip or tar.gz, read into memory.

Nothing is written to a disk. What an archive could do harm by is refused: links, paths that lead
out of it, more files or bytes than `limits` allow, whatever its headers say.
"""

from __future__ import annotations

import gzip
import io
import re
import stat
import tarfile
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import PurePosixPath

from workloads.errors import SheafError, shown
from workloads.limits import MAX_ARCHIVE_BYTES, MAX_ARCHIVE_FILES

_DOCUMENTS = (".yaml", ".yml", ".json")
_NAME = "workload"  # of the document, where several could be it
_MOST_CHARACTERS = 500  # of a path
_ZIP_ENTRY = b"PK\x01\x02"  # what each entry of a zip's directory begins with
_HEADERS = 4096  # bytes of a tar for each file: what stands before and fills up behind it
_END = 2**14  # bytes that fill up a tar
_TAKEN = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)


class ArchiveError(SheafError):
    """What is wrong with an archive, and what to do about it."""


@dataclass(frozen=True)
class ArchivedFile:
    """A file of an archive; of a path it has what readers of rules ask for."""

    name: str
    data: bytes

    @property
    def suffix(self) -> str:
        return PurePosixPath(self.name).suffix

    @property
    def stem(self) -> str:
        return PurePosixPath(self.name).stem

    def read_text(self, encoding: str = "utf-8") -> str:
        return self.data.decode(encoding)

    def __str__(self) -> str:
        return self.name


def read_archive(body: bytes) -> tuple[ArchivedFile, ...]:
    """The files of a zip or a tar.gz, by name; raises `ArchiveError`."""
    is_zip = body.startswith(b"PK")
    if not is_zip and not body.startswith(b"\x1f\x8b"):
        raise ArchiveError("it is neither a zip nor a tar.gz; make one of the workload's folder")
    found: dict[str, ArchivedFile] = {}
    size = 0
    try:
        for name, data in _zipped(body) if is_zip else _tarred(body):
            size += len(data)
            if size > MAX_ARCHIVE_BYTES or len(found) >= MAX_ARCHIVE_FILES:
                raise _too_large()
            known = _inner_name(name)
            if known in found:
                raise ArchiveError(f"{shown(known)} is twice in the archive; leave one of them out")
            found[known] = ArchivedFile(known, data)
    except (ArchiveError, MemoryError):
        raise
    except Exception as error:  # of a damaged archive the libraries raise whatever they meet
        said = " ".join(str(error).split())[:200] or type(error).__name__
        raise ArchiveError(
            f"the archive cannot be read: {said}; make it anew, as a plain zip or tar.gz"
        ) from error
    return tuple(found[name] for name in sorted(found))


def workload_file(
    files: Sequence[ArchivedFile],
) -> tuple[ArchivedFile, tuple[ArchivedFile, ...]]:
    """The workload's document, and all files by their paths from its folder.

    It is the document that is nearest to the top, the one named workload if there are several.
    """
    documents = [f for f in files if f.suffix.lower() in _DOCUMENTS and not _is_hidden(f.name)]
    top = min((f.name.count("/") for f in documents), default=0)
    nearest = [f for f in documents if f.name.count("/") == top]
    if len(nearest) > 1:
        nearest = [f for f in nearest if f.stem == _NAME]
    if len(nearest) != 1:
        raise ArchiveError(
            "the archive does not say which of its files is the workload; put one workload.yaml "
            "at its top, and rules into folders"
        )
    folder = nearest[0].name.rpartition("/")[0]
    start = f"{folder}/" if folder else ""
    inside = (f for f in files if f.name.startswith(start))
    return nearest[0], tuple(ArchivedFile(f.name.removeprefix(start), f.data) for f in inside)


def matching(files: Sequence[ArchivedFile], pattern: str) -> tuple[list[ArchivedFile], bool]:
    """The files that a path, a folder or a glob names, and whether it is the path of one."""
    wanted = [part for part in pattern.split("/") if part not in ("", ".")]
    path = "/".join(wanted)
    exact = [file for file in files if file.name == path]
    if exact:
        return exact, True
    if not path or any(file.name.startswith(f"{path}/") for file in files):
        wanted.append("**")
    return [file for file in files if _fits(file.name.split("/"), wanted)], False


def _fits(parts: list[str], pattern: list[str]) -> bool:
    """Does a glob fit a path? All places in the glob are followed at once."""
    places = _reached({0}, pattern)
    for part in parts:
        is_hidden = part.startswith(".")
        after: set[int] = set()
        for place in places:
            if place == len(pattern):
                continue
            wanted = pattern[place]
            if is_hidden and not wanted.startswith("."):
                continue
            if wanted == "**":
                after.add(place)
            elif fnmatchcase(part, wanted):
                after.add(place + 1)
        places = _reached(after, pattern)
    return len(pattern) in places


def _reached(places: set[int], pattern: list[str]) -> set[int]:
    """The places with those behind a `**`, which may stand for nothing."""
    found = set(places)
    for place in range(len(pattern)):
        if place in found and pattern[place] == "**":
            found.add(place + 1)
    return found


def _is_hidden(name: str) -> bool:
    return any(part.startswith((".", "__MACOSX")) for part in name.split("/"))


def _inner_name(name: str) -> str:
    """The path of a file inside the archive."""
    parts = name.split("/")
    leads_out = name.startswith("/") or ".." in parts or re.match("[A-Za-z]:", name)
    is_text = all(c.isprintable() for c in name)  # surrogates, of bytes that are no UTF-8, are not
    inner = "/".join(part for part in parts if part not in ("", "."))
    if leads_out or not is_text or not inner or "\\" in name or len(name) > _MOST_CHARACTERS:
        raise ArchiveError(
            f"the archive has a file {shown(name)}, which is no path inside it; pack the folder "
            "of the workload, with relative paths"
        )
    return inner


def _zipped(body: bytes) -> Iterator[tuple[str, bytes]]:
    if body.count(_ZIP_ENTRY) > 2 * MAX_ARCHIVE_FILES:  # before a list of them is made
        raise _too_large()
    left = MAX_ARCHIVE_BYTES
    with zipfile.ZipFile(io.BytesIO(body)) as archive:
        for entry in archive.infolist():
            kind = stat.S_IFMT(entry.external_attr >> 16)
            if entry.filename.endswith("/") and kind in (0, stat.S_IFDIR):
                continue
            if kind not in (0, stat.S_IFREG):
                raise _no_file(entry.filename)
            if entry.compress_type not in _TAKEN:
                raise ArchiveError("the zip is not packed by deflate; make a plain zip")
            with archive.open(entry) as file:
                data = file.read(left + 1)
            left -= len(data)
            if left < 0:
                raise _too_large()
            yield entry.filename, data


def _tarred(body: bytes) -> Iterator[tuple[str, bytes]]:
    most = MAX_ARCHIVE_BYTES + _HEADERS * MAX_ARCHIVE_FILES + _END
    with gzip.GzipFile(fileobj=io.BytesIO(body)) as packed:
        plain = packed.read(most + 1)
    if len(plain) > most:
        raise _too_large()
    with tarfile.open(fileobj=io.BytesIO(plain), mode="r:") as archive:
        for number, entry in enumerate(archive):
            if number > 2 * MAX_ARCHIVE_FILES:
                raise _too_large()
            if entry.isdir():
                continue
            file = archive.extractfile(entry) if entry.isreg() and not entry.issparse() else None
            if file is None:
                raise _no_file(entry.name)
            yield entry.name, file.read()


def _no_file(name: str) -> ArchiveError:
    return ArchiveError(
        f"{shown(name)} in the archive is a link or a device, no file; pack what it leads to"
    )


def _too_large() -> ArchiveError:
    return ArchiveError(
        f"the archive has more than {MAX_ARCHIVE_FILES:,} files or {MAX_ARCHIVE_BYTES // 2**20} "
        "MiB unpacked; split it into several workloads"
    )
