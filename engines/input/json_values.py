"""Which JSON Arrow can be given: some of it takes Arrow hours, or ends the process."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from engines.input.text_bytes import bad_byte

MAX_DEPTH = 64  # of lists and objects in one another

_INDENTED_NULL = re.compile(rb"[\r\n][ \t]+null")
_STEPS = np.zeros(256, np.int8)
_STEPS[[ord("{"), ord("[")]], _STEPS[[ord("}"), ord("]")]] = 1, -1


def arrow_takes(block: bytes) -> bool:
    """Is it UTF-8, without lines that are null, and not nested too deep, as far as can be seen?"""
    if not (block.isascii() or bad_byte(block) is None) or _has_null_line(block):
        return False
    opened = block.count(b"{") + block.count(b"[")
    if opened - block.count(b"\n") < MAX_DEPTH:  # which is so of flat objects, one a line
        return True
    steps = _STEPS[np.frombuffer(block, np.uint8)]
    # Also counts brackets in texts: what is taken for too deep is looked at row by row.
    return int(np.cumsum(steps, dtype=np.int32).max(initial=0)) <= MAX_DEPTH


def _has_null_line(block: bytes) -> bool:
    """Is a line null? Where it is the first one that Arrow 26 parses, that ends the process."""
    if b"null" not in block:
        return False
    if block.lstrip().startswith(b"null") or b"\nnull" in block or b"\rnull" in block:
        return True
    indented = any(mark in block for mark in (b"\n ", b"\n\t", b"\r ", b"\r\t"))
    return indented and _INDENTED_NULL.search(block) is not None


def is_deep(value: Any) -> bool:
    """Is a value nested deeper than Arrow should be given it?"""
    layer = [value]
    for _ in range(MAX_DEPTH + 1):
        layer = [
            inner
            for outer in layer
            if isinstance(outer, (dict, list))
            for inner in (outer.values() if isinstance(outer, dict) else outer)
        ]
        if not layer:
            return False
    return True
