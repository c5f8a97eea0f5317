"""Fields of JSON lines that come up behind the lines by which types are guessed."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from pathlib import Path

import pyarrow as pa

from engines.input import text_bytes

LINES = 20  # of a field, by which its type is guessed
_KEY = re.compile(rb'"((?:[^"\\]|\\.)*)"\s*:')


def lines_of_late_fields(file: str, schema: pa.Schema, words: frozenset[str] | None) -> bytes:
    """Lines of the file with fields that the schema has not, of those that the words name.

    All fields count where there are no words. Most files are gone through by looking for the names.
    """
    if words is not None and not words:
        return b""
    status = Path(file).stat()
    known = frozenset(json.dumps(name).encode()[1:-1] for name in _names(schema))
    return _found(file, status.st_size, status.st_mtime_ns, known, words)


def _names(fields: Iterable[pa.Field]) -> Iterator[str]:
    """All names of columns, and of fields of structs."""
    for field in fields:
        yield field.name
        kind = field.type.value_type if pa.types.is_list(field.type) else field.type
        if pa.types.is_struct(kind):
            yield from _names(kind)


@lru_cache(maxsize=16)
def _found(
    file: str, size: int, changed: int, known: frozenset[bytes], words: frozenset[str] | None
) -> bytes:
    counts: dict[bytes, int] = {}
    lines: dict[bytes, None] = {}
    for block, keys in _new_keys(file, known, words):
        for key in keys:
            for line in _lines_with(block, key, LINES - counts.get(key, 0)):
                counts[key] = counts.get(key, 0) + 1
                lines[line] = None
    return b"\n".join(lines)


def _new_keys(
    file: str, known: frozenset[bytes], words: frozenset[str] | None
) -> Iterator[tuple[bytes, set[bytes]]]:
    """The blocks of a file, each with the keys in it that are not known."""
    if words is None:
        for block in text_bytes.blocks(file):
            yield block, set(_KEY.findall(block)) - known
        return
    from ahocorasick_rs import BytesAhoCorasick

    names = [name for word in words if (name := json.dumps(word).encode()[1:-1]) not in known]
    marks = [b'"' + name + end for name in names for end in (b'":', b'" :')]
    if not marks:
        return
    search = BytesAhoCorasick(marks)
    for block in text_bytes.blocks(file):
        found = {names[number // 2] for number, *_ in search.find_matches_as_indexes(block)}
        yield block, found


def _lines_with(block: bytes, key: bytes, most: int) -> Iterator[bytes]:
    """The first lines with a key."""
    at, mark = 0, b'"' + key + b'"'
    while most > 0 and (at := block.find(mark, at)) >= 0:
        end = block.find(b"\n", at)
        end = len(block) if end < 0 else end
        yield block[block.rfind(b"\n", 0, at) + 1 : end]
        at, most = end, most - 1
