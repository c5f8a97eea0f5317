"""Several Arrow tables as one sequence of bytes, with a version, and checked when read."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from engines.limits import StateError

_MAGIC = b"sheaf-state-5\n"
_JOINED = b"sheaf-states-2\n"
_DIGEST = 16  # bytes
LARGE_BYTES = 1 << 20  # of a table
_LENGTH = 4  # bytes that say how long the header is


def write_table(out: pa.NativeFile, table: pa.Table) -> None:
    """Write a table, compressed where it is large: Spark's JVM holds its bytes several times."""
    compression = "lz4" if table.nbytes > LARGE_BYTES else None
    options = pa.ipc.IpcWriteOptions(compression=compression)
    with pa.ipc.new_stream(out, table.schema, options=options) as writer:
        writer.write_table(table)


def to_bytes(
    tables: Mapping[str, pa.Table], about: Mapping[str, Any]
) -> tuple[bytes, dict[str, int]]:
    """The tables under their names, with what is said about them; and the bytes of each."""
    out = pa.BufferOutputStream()
    parts, sizes = [], {}
    for name, table in tables.items():
        before = out.tell()
        write_table(out, table)
        parts.append((name, out.tell()))
        sizes[name] = out.tell() - before
    header = json.dumps({"about": about, "parts": parts}).encode()
    pieces = (len(header).to_bytes(_LENGTH, "big"), header, out.getvalue())
    return b"".join([_MAGIC, _digest(*pieces), *pieces]), sizes


def from_bytes(blob: bytes | memoryview) -> tuple[dict[str, pa.Table], dict[str, Any]]:
    """What `to_bytes` was given; raises `StateError` where these bytes are something else."""
    given = memoryview(blob)
    at = len(_MAGIC)
    if given[:at] != _MAGIC:
        raise _foreign()
    digest, body = given[at : at + _DIGEST], given[at + _DIGEST :]
    if _digest(body) != digest:
        raise _damaged()
    size = _LENGTH + int.from_bytes(body[:_LENGTH], "big")
    header = json.loads(bytes(body[_LENGTH:size]))
    content = pa.py_buffer(body[size:])
    tables, start = {}, 0
    for name, end in header["parts"]:
        tables[name] = pa.ipc.open_stream(content.slice(start, end - start)).read_all()
        start = end
    return tables, header["about"]


def digest_of(blob: bytes | memoryview) -> bytes:
    """What tells one of `to_bytes` from another, without reading it."""
    return bytes(blob[: len(_MAGIC) + _DIGEST])


def joined(parts: Mapping[str, bytes | memoryview]) -> bytes:
    """Several sequences of bytes as one; each has to tell by itself whether it is damaged."""
    header = json.dumps({name: len(part) for name, part in parts.items()}).encode()
    size = len(header).to_bytes(_LENGTH, "big")
    return b"".join([_JOINED, _digest(header), size, header, *parts.values()])


def parted(blob: bytes) -> dict[str, memoryview]:
    """What `joined` was given."""
    given = memoryview(blob)
    at = len(_JOINED)
    if given[:at] != _JOINED:
        raise _foreign()
    digest, given = given[at : at + _DIGEST], given[at + _DIGEST :]
    at = _LENGTH + int.from_bytes(given[:_LENGTH], "big")
    header = bytes(given[_LENGTH:at])
    if _digest(header) != digest:
        raise _damaged()
    found = {}
    for name, length in json.loads(header).items():
        found[name] = given[at : at + length]
        at += length
    if at != len(given):
        raise _damaged()
    return found


def _foreign() -> StateError:
    return StateError(
        "the saved state was not written by this version of Sheaf; start afresh, or go on "
        "with the version that wrote it"
    )


def _damaged() -> StateError:
    return StateError("the saved state is damaged; go back to an earlier one, or start afresh")


def _digest(*pieces: bytes | memoryview | pa.Buffer) -> bytes:
    found = hashlib.blake2b(digest_size=_DIGEST)
    for piece in pieces:
        found.update(piece)
    return found.digest()
