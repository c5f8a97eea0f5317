"""Files of events that were uploaded: kept in a folder that jobs may read."""

from __future__ import annotations

import hashlib
import os
import re
from pathlib import Path

from workloads.errors import SheafError

MOST_BYTES = 2**30  # of all uploads together
_NAME = re.compile(r"[^\w.-]+")
LONGEST_NAME = 100


class UploadError(SheafError):
    """A file that cannot be taken."""


class Uploads:
    """The folder of uploads; each is named by its content, so that one sent twice is kept once."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder.resolve()
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)

    def add(self, name: str, content: bytes) -> Path:
        """Keep a file of events; its name says its format."""
        from engines.input.event_table import format_of

        plain = _NAME.sub("_", name.replace("\\", "/").rsplit("/", 1)[-1]).lstrip("._")
        if format_of(plain) is None:
            raise UploadError(
                f"'{plain[:LONGEST_NAME]}' does not end in .parquet, .csv, .jsonl or .ndjson "
                "(.gz and .zst too), by which its format is known"
            )
        if not content:
            raise UploadError(f"'{plain[:LONGEST_NAME]}' is empty; choose a file with events")
        digest = hashlib.sha256(content).hexdigest()[:12]
        path = self.folder / f"{digest}-{plain[-LONGEST_NAME:]}"
        if path.exists():
            return path
        if self.size() + len(content) > MOST_BYTES:
            raise UploadError(
                f"uploads may take {MOST_BYTES:,} bytes in all; delete one (DELETE /v1/uploads/…)"
            )
        part = path.with_name(f".{path.name}.{os.getpid()}.partial")
        part.write_bytes(content)
        part.replace(path)
        return path

    def files(self) -> list[Path]:
        """All of them, by their names."""
        return sorted(path for path in self.folder.iterdir() if not path.name.startswith("."))

    def size(self) -> int:
        """Bytes that they take."""
        return sum(path.stat().st_size for path in self.files())

    def delete(self, name: str) -> bool:
        """Remove one; gives whether it was there."""
        found = next((path for path in self.files() if path.name == name), None)
        if found is None:
            return False
        found.unlink(missing_ok=True)
        return True
