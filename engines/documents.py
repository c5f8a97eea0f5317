"""JSON files that are written whole or not at all, and checked when they are read."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from engines.limits import StateError

_DIGEST = "digest"  # the key that says what the rest must come to


def write_document(path: Path, content: Mapping[str, Any]) -> None:
    """Put a document in the place of the one that is there; a crash leaves one of the two."""
    draft = path.with_name(f".{path.name}.new")
    with draft.open("w") as file:
        json.dump({_DIGEST: _digest(content), **content}, file)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)


def read_document(path: Path) -> dict[str, Any] | None:
    """What was written; None where nothing is. Raises `StateError` where it is something else."""
    try:
        found = json.loads(path.read_bytes())
    except FileNotFoundError:
        return None
    except ValueError as error:  # also bytes that are no UTF-8
        raise _damaged(path) from error
    if not isinstance(found, dict) or found.pop(_DIGEST, None) != _digest(found):
        raise _damaged(path)
    return found


def _damaged(path: Path) -> StateError:
    return StateError(
        f"'{path}' is damaged, or was written by another version of Sheaf; put back a copy of the "
        "folder it is in, or do without it"
    )


def _digest(content: Mapping[str, Any]) -> str:
    text = json.dumps(content, sort_keys=True)
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()
