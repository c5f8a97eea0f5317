"""A job's folder: what the service and the job's process say to each other through files.

```
request.json    what to do; there before the process is started
lock            held by the process for as long as it lives; has its id
settled         the service has written the job off: a process that comes late must not begin
results.*       rows, by kind
measures        what the process measured as it went on, a line of JSON each
counts.json     what it has counted so far, by query
outcome.json    the last thing a process writes, and whole or not at all
log             what the process printed, and the traceback if it failed
tmp/            its temporary files
```

A stream's process may have to be started again, and again from where the one before has ended:

```
attempts/N/     the folder of the N-th process, as above
checkpoint/     how far the stream is, and its state
rows/           its rows, by kind and batch
account.json    what has been done
```
"""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from engines.documents import read_document, write_document
from engines.limits import StateError


class JobFolder:
    """The files of one job."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def log(self) -> Path:
        return self.path / "log"

    @property
    def measures(self) -> Path:
        return self.path / "measures"

    @property
    def counts(self) -> Path:
        return self.path / "counts.json"

    @property
    def tmp(self) -> Path:
        return self.path / "tmp"

    @property
    def results(self) -> Path:
        """What `write_results` is to be told; it puts the kind before the ending."""
        return self.path / "results.parquet"

    def rows(self, kind: str) -> Path:
        return self.path / f"results.{kind}.parquet"

    @property
    def checkpoint(self) -> Path:
        return self.path / "checkpoint"

    @property
    def sink(self) -> Path:
        return self.path / "rows"

    @property
    def account(self) -> Path:
        return self.path / "account.json"

    def attempts(self) -> list[Attempt]:
        """The folders of a stream's processes, in order."""
        found = sorted((self.path / "attempts").glob("*"), key=lambda path: int(path.name))
        return [Attempt(path) for path in found]

    def next_attempt(self) -> Attempt:
        """Where the next process of a stream will work."""
        return Attempt(self.path / "attempts" / str(len(self.attempts()) + 1))

    # --- what the service does -----------------------------------------------------------------

    def create(self, request: Mapping[str, Any]) -> None:
        """Make the folder, with the request in it last."""
        self.tmp.mkdir(parents=True)
        (self.path / "lock").touch()
        write_document(self.path / "request.json", request)

    @property
    def was_created(self) -> bool:
        return (self.path / "request.json").exists()

    def settle(self) -> None:
        """See to it that the job's process is dead, or dies before it does anything.

        For a process of an earlier service. It ends by itself with the service, and what does
        not is killed: whoever holds the lock is the process whose id is in it.
        """
        with (self.path / "lock").open("a+") as lock:  # a backup may have left it out
            while not _locked(lock):
                with suppress(ValueError, ProcessLookupError):
                    os.killpg(int((self.path / "lock").read_text()), signal.SIGKILL)
                time.sleep(0.02)
            (self.path / "settled").touch()

    def outcome(self) -> dict[str, Any] | None:
        """What the process said at its end; None where it did not get there."""
        try:
            return read_document(self.path / "outcome.json")
        except StateError as error:
            return {"status": "failed", "reason": str(error), "again": False}

    def clean(self) -> None:
        """Remove what nobody needs once the job is over."""
        shutil.rmtree(self.tmp, ignore_errors=True)

    def drop_results(self) -> None:
        for path in self.path.glob("*results*"):
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)

    def remove(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)

    # --- what the process does -----------------------------------------------------------------

    def enter(self) -> IO[str] | None:
        """The lock, which is held until the process ends; None if the job was written off."""
        lock = (self.path / "lock").open("r+")
        if not _locked(lock) or (self.path / "settled").exists():
            return None
        lock.write(str(os.getpid()))
        lock.flush()
        return lock

    def request(self) -> dict[str, Any]:
        found = read_document(self.path / "request.json")
        if found is None:
            raise StateError(f"'{self.path}' has lost its file request.json; post the job again")
        return found

    def end(self, outcome: Mapping[str, Any]) -> None:
        write_document(self.path / "outcome.json", outcome)


class Attempt(JobFolder):
    """The folder of one process of a stream; all of them have one log."""

    @property
    def job(self) -> JobFolder:
        return JobFolder(self.path.parent.parent)

    @property
    def log(self) -> Path:
        return self.job.log


# --- the sink ------------------------------------------------------------------------------------


def hidden_sink(sink: Path, job: str) -> Path:
    """Where rows for a sink are written first: beside it, so that a rename makes them appear."""
    return sink.with_name(f".{sink.stem}.{job}{sink.suffix}")


def shown_sink(written: Path, job: str) -> Path:
    """The name that a file gets when the job has succeeded."""
    return written.with_name(written.name.replace(f".{job}", "", 1)[1:])


def show(written: list[str], job: str) -> tuple[str, ...]:
    """Give all files their names; done again after an interruption, it goes on where it was."""
    found = []
    for name in written:
        hidden = Path(name)
        shown = shown_sink(hidden, job) if f".{job}" in hidden.name else hidden
        if hidden.exists():
            hidden.replace(shown)
        found.append(str(shown))
    return tuple(found)


def sweep_sink(sink: str, job: str) -> None:
    """Remove what a job left beside its sink; its id is in all the names."""
    parent = Path(sink).parent
    for path in [*parent.glob(f".*.{job}.*")]:
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


def _locked(file: IO[str]) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
