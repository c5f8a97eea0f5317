"""Several Arrow tables as one sequence of bytes, with a version, and checked when read."""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from engines.errors import StateError

_MAGIC = b"sheaf-state-1\n"
_DIGEST = 16


def to_bytes(tables: Mapping[str, pa.Table], about: Mapping[str, Any]) -> bytes:
    """The tables under their names, and what is said about them."""
    out = io.BytesIO()
    parts = []
    for name, table in tables.items():
        with pa.ipc.new_stream(out, table.schema) as writer:
            writer.write_table(table)
        parts.append((name, out.tell()))
    header = json.dumps({"about": about, "parts": parts}).encode()
    body = len(header).to_bytes(4, "big") + header + out.getvalue()
    return _MAGIC + hashlib.blake2b(body, digest_size=_DIGEST).digest() + body


def from_bytes(blob: bytes) -> tuple[dict[str, pa.Table], dict[str, Any]]:
    """What `to_bytes` was given; raises `StateError` where these bytes are something else."""
    if not blob.startswith(_MAGIC):
        raise StateError(
            "the saved state was not written by this version of Sheaf; start afresh, or go on "
            "with the version that wrote it"
        )
    at = len(_MAGIC)
    digest, body = blob[at : at + _DIGEST], blob[at + _DIGEST :]
    if hashlib.blake2b(body, digest_size=_DIGEST).digest() != digest:
        raise StateError("the saved state is damaged; go back to an earlier one, or start afresh")
    size = int.from_bytes(body[:4], "big")
    header = json.loads(body[4 : 4 + size])
    content = body[4 + size :]
    tables, start = {}, 0
    for name, end in header["parts"]:
        tables[name] = pa.ipc.open_stream(content[start:end]).read_all()
        start = end
    return tables, header["about"]
