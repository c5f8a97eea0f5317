"""Which files the service may read and write: those under its roots, wherever a link leads."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from workloads.errors import SheafError

if TYPE_CHECKING:
    from engines.input.event_paths import EventPath

_PATTERN = frozenset("*?[")
_ADDRESS = re.compile(r"[a-zA-Z][\w+.-]*:", re.ASCII)  # what Spark takes for a scheme


class OutsideRootsError(SheafError):
    """A path leads out of the folders that the service may use."""


class NoEventsError(SheafError):
    """A path at which there are no files of events."""


class Roots:
    """Folders under which sources and sinks may be; paths are relative to where we were started."""

    def __init__(self, folders: Iterable[Path | str]) -> None:
        self.folders = tuple(Path(folder).resolve() for folder in folders)

    def check(self, path: str) -> None:
        """Refuse a path, or a glob, that leads out; whether anything is there is not said."""
        if _ADDRESS.match(path):
            raise OutsideRootsError(
                f"{_shown(path)} is an address or a table; the service takes paths under "
                f"{', '.join(map(str, self.folders))} (a file's name with ':' begins with './')"
            )
        try:
            inside = self._has(_fixed_part(path))
        except (OSError, ValueError):  # too long, or with a character that no name has
            raise OutsideRootsError(f"{_shown(path)} cannot be the path of a file") from None
        if not inside:
            raise OutsideRootsError(
                f"{_shown(path)} is not under a folder that the service may use: "
                f"{', '.join(map(str, self.folders))} (set with SHEAF_ROOTS)"
            )

    def check_files(self, path: EventPath) -> None:
        """Refuse a path of which a file of events lies outside the roots: links may lead out."""
        from engines.input.event_paths import each_path
        from engines.input.event_table import list_files

        for one in each_path(path):
            self.check(one)
            for file in list_files(one):
                if not self._has(Path(file)):
                    raise OutsideRootsError(
                        f"{_shown(file)} leads out of the folders that the service may use"
                    )

    def check_source(self, path: EventPath) -> None:
        """`check_files` of a source that is asked for: without any file it is a `NoEventsError`."""
        from engines.limits import EventsError

        try:
            self.check_files(path)
        except EventsError as error:
            raise NoEventsError(str(error)) from error

    def _has(self, path: Path) -> bool:
        found = Path(os.path.realpath(path))
        return any(found.is_relative_to(folder) for folder in self.folders)


def _fixed_part(path: str) -> Path:
    """The path as far as it has no wildcards; `..` behind one could lead anywhere."""
    given = Path(path)
    if given.exists():  # a file's name may well have brackets in it
        return given
    parts = given.parts
    first = next((i for i, part in enumerate(parts) if _PATTERN & set(part)), len(parts))
    if ".." in parts[first:]:
        raise OutsideRootsError(f"{_shown(path)} has '..' behind a wildcard")
    return Path(*parts[:first]) if first else Path()


def _shown(path: str) -> str:
    short = path if len(path) <= 200 else path[:200] + "…"
    return repr(short)
