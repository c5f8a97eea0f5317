"""Builds of indexes that the service was asked for: one after the other, each in a process.

What is known of a build is a file in the folder of the service, so that it outlives it. One that
was not over when the service ended is begun again; files that it was done with stay as they are.
"""

from __future__ import annotations

import json
import os
import queue
import secrets
import subprocess
import sys
import threading
import time
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any
from typing import Literal as OneOf

from api.jobs.process import SECRETS, why_it_ended
from api.store import UnknownIdError
from api.store.jobs import QueueFullError

BuildStatus = OneOf["queued", "running", "succeeded", "failed", "cancelled"]
COMMAND = (sys.executable, "-P", "-m", "api.jobs.index_worker")
MAX_WAITING = 100  # builds


@dataclass(frozen=True)
class IndexBuild:
    """A build: of which files, on which attributes, how far it is, and what came of it."""

    id: str
    source: str
    on: tuple[str, ...] = ()
    status: BuildStatus = "queued"
    progress: float = 0.0
    created: float = 0.0  # seconds since 1970
    ended: float | None = None
    reason: str | None = None
    files: tuple[dict[str, Any], ...] = field(default=())

    @property
    def is_over(self) -> bool:
        return self.status not in ("queued", "running")


class IndexBuilds:
    """All builds, by id; a thread does them one after the other."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock = threading.Lock()
        self._builds: dict[str, IndexBuild] = {}
        self._waiting: queue.Queue[str | None] = queue.Queue()
        self._process: tuple[str, subprocess.Popen[str]] | None = None
        self._thread: threading.Thread | None = None
        self._is_closing = False

    def start(self) -> None:
        """Read what is known, and go on with what is not over."""
        self._folder.mkdir(exist_ok=True)
        for path in sorted(self._folder.glob("*.json")):
            with suppress(OSError, ValueError, TypeError):
                found = IndexBuild(**json.loads(path.read_text(encoding="utf-8")))
                self._builds[found.id] = replace(
                    found, on=tuple(found.on), files=tuple(found.files)
                )
        for build in sorted(self._builds.values(), key=lambda build: build.created):
            if not build.is_over:
                self._builds[build.id] = replace(build, status="queued", progress=0.0)
                self._waiting.put(build.id)
        self._thread = threading.Thread(target=self._work, name="index builds", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End what runs; it is begun again when the service is."""
        self._is_closing = True
        with self._lock:
            if self._process is not None:
                self._process[1].kill()
        self._waiting.put(None)
        if self._thread is not None:
            self._thread.join(timeout=10)

    def submit(self, source: str, on: tuple[str, ...]) -> IndexBuild:
        """Put a build in the queue."""
        with self._lock:
            if sum(not build.is_over for build in self._builds.values()) >= MAX_WAITING:
                raise QueueFullError(f"{MAX_WAITING} builds of indexes wait; try again later")
            build = IndexBuild(f"index-{secrets.token_hex(6)}", source, on, created=time.time())
            self._keep(build)
        self._waiting.put(build.id)
        return build

    def get(self, id: str) -> IndexBuild:
        with self._lock:
            if id not in self._builds:
                raise UnknownIdError(f"there is no index {id}")
            return self._builds[id]

    def all(self) -> list[IndexBuild]:
        """All builds, the newest first."""
        with self._lock:
            return sorted(self._builds.values(), key=lambda build: -build.created)

    def delete(self, id: str) -> IndexBuild:
        """Cancel a build that is not over; forget one that is, and remove its index."""
        from engines.access.index_files import remove_index

        build = self.get(id)
        if not build.is_over:
            with self._lock:
                self._keep(replace(build, status="cancelled", ended=time.time()))
                if self._process is not None and self._process[0] == id:
                    self._process[1].kill()
            return self.get(id)
        for file in build.files:
            remove_index(file["file"])
        with self._lock:
            self._builds.pop(id, None)
            with suppress(OSError):
                self._path(id).unlink()
        return build

    # --- one after the other -------------------------------------------------------------------

    def _work(self) -> None:
        while (id := self._waiting.get()) is not None and not self._is_closing:
            with self._lock:
                build = self._builds.get(id)
                if build is None or build.is_over:
                    continue
                build = replace(build, status="running")
                self._keep(build)
                process = self._begun(build)
                self._process = (id, process)
            said = self._heard(id, process)
            with self._lock:
                self._process = None
                # One that was cancelled may be forgotten before its process has ended.
                ending = self._builds.get(id)
                if self._is_closing or ending is None or ending.is_over:
                    continue
                self._keep(self._ended(ending, process, said))

    def _begun(self, build: IndexBuild) -> subprocess.Popen[str]:
        environment = {k: v for k, v in os.environ.items() if k not in SECRETS}
        return subprocess.Popen(
            [*COMMAND, build.source, *build.on],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            stdin=subprocess.DEVNULL,
            env=environment,
            text=True,
        )

    def _heard(self, id: str, process: subprocess.Popen[str]) -> dict[str, Any]:
        """What a process says until it ends, the last of each."""
        said: dict[str, Any] = {}
        assert process.stdout is not None
        with process.stdout:
            for line in process.stdout:
                with suppress(ValueError):
                    said.update(json.loads(line))
                with self._lock:
                    build = self._builds.get(id)
                    if build is not None and not build.is_over:
                        part = float(said.get("progress", 0.0))
                        self._builds[id] = replace(build, progress=part)
        process.wait()
        return said

    def _ended(
        self, build: IndexBuild, process: subprocess.Popen[str], said: dict[str, Any]
    ) -> IndexBuild:
        now = time.time()
        if process.returncode == 0 and "files" in said:
            return replace(
                build, status="succeeded", progress=1.0, ended=now, files=tuple(said["files"])
            )
        reason = said.get("reason") or why_it_ended(process.returncode)
        return replace(build, status="failed", ended=now, reason=reason)

    def _keep(self, build: IndexBuild) -> None:
        self._builds[build.id] = build
        path = self._path(build.id)
        part = path.with_suffix(".part")
        part.write_text(json.dumps(asdict(build)), encoding="utf-8")
        part.replace(path)

    def _path(self, id: str) -> Path:
        return self._folder / f"{id}.json"
