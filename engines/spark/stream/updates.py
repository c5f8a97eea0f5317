"""New queries for a stream that runs, left in its checkpoint: a question, and the job's answer.

```
update.json          what is asked: a number, and the workload
update-answer.json   the same number, and what came of it
```
"""

from __future__ import annotations

import fcntl
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

from engines.limits import StateError

_QUESTION, _ANSWER = "update.json", "update-answer.json"


@dataclass(frozen=True)
class Update:
    """A workload that a stream is to go on with."""

    id: str
    document: Mapping[str, Any]


def ask(checkpoint: str, document: Mapping[str, Any], patience: float = 600) -> dict[str, Any]:
    """Have the job with this checkpoint go on with a workload; gives the job's answer.

    Raises `StateError` where no job runs with it, or none answers in time.
    """
    folder = Path(checkpoint)
    update = Update(uuid4().hex, document)
    if not runs(checkpoint):
        raise StateError(
            f"no stream runs with the checkpoint '{checkpoint}'; start it with the new workload"
        )
    _write(folder / _QUESTION, {"id": update.id, "document": update.document})
    deadline = time.monotonic() + patience
    while time.monotonic() < deadline:
        found = _read(folder / _ANSWER)
        if found is not None and found["id"] == update.id:
            return found
        if not runs(checkpoint):
            (folder / _QUESTION).unlink(missing_ok=True)
            raise StateError(f"the stream with the checkpoint '{checkpoint}' ended before it")
        time.sleep(0.1)
    raise StateError(f"the stream with the checkpoint '{checkpoint}' did not answer in time")


def asked(checkpoint: str) -> Update | None:
    """What is asked of the job with this checkpoint, once."""
    file = Path(checkpoint) / _QUESTION
    found = _read(file)
    if found is None:
        return None
    file.unlink(missing_ok=True)
    return Update(found["id"], found["document"])


def answer(checkpoint: str, update: Update, said: Mapping[str, Any]) -> None:
    """Say what came of an update."""
    _write(Path(checkpoint) / _ANSWER, {**said, "id": update.id})


def runs(checkpoint: str) -> bool:
    """Whether a job holds the checkpoint, as `engines.spark.stream.checkpoint.hold` does."""
    try:
        with (Path(checkpoint) / "lock").open("a") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except FileNotFoundError:
        return False
    return False


def _read(file: Path) -> dict[str, Any] | None:
    try:
        found: dict[str, Any] = json.loads(file.read_bytes())
    except FileNotFoundError:
        return None
    return found


def _write(file: Path, content: Mapping[str, Any]) -> None:
    draft = file.with_name(f".{file.name}.{uuid4().hex}")
    draft.write_text(json.dumps(content))
    draft.replace(file)
