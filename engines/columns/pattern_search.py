"""Texts searched for many patterns at once: where each is contained, begins, ends, or is all of it.

One automaton (Aho-Corasick) for all patterns reads each distinct text once.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Places = npt.NDArray[np.int64]

_SHORTEST = 3  # bytes; shorter patterns occur all over, and are searched for one by one
_PIECE = 1 << 22  # bytes of texts that are searched at once


def is_long(pattern: str) -> bool:
    """Is a pattern long enough to be searched for together with others?"""
    return len(pattern.encode()) >= _SHORTEST


class PatternPlaces:
    """Which of some texts have each of some patterns, and where in the text."""

    def __init__(self, texts: pa.Array, patterns: Sequence[str]) -> None:
        self._texts = texts.cast(pa.large_string())
        coded = tuple(pattern.encode() for pattern in patterns)
        long = tuple(code for code in coded if len(code) >= _SHORTEST)
        self._numbers = {code: number for number, code in enumerate(long)}
        found = _found(self._texts, long)
        order = np.argsort(found[:, 0], kind="stable")
        self._found = found[order]
        self._starts = np.searchsorted(self._found[:, 0], np.arange(len(long) + 1))

    def having(self, operator: str, pattern: str) -> Places:
        """The numbers of the texts that contain, start with, end with or are (`=`) a pattern."""
        number = self._numbers.get(pattern.encode())
        if number is None:
            return self._one(operator, pattern)
        found = self._found[self._starts[number] : self._starts[number + 1]]
        if not len(found):  # as most
            return found[:, 1]
        if operator in ("STARTS WITH", "="):
            found = found[found[:, 2] == 1]
        if operator in ("ENDS WITH", "="):
            found = found[found[:, 3] == 1]
        return np.unique(found[:, 1])

    def _one(self, operator: str, pattern: str) -> Places:
        test: Any = {
            "CONTAINS": pc.match_substring,
            "STARTS WITH": pc.starts_with,
            "ENDS WITH": pc.ends_with,
            "=": pc.equal,
        }[operator]
        given = pa.scalar(pattern, pa.large_string()) if operator == "=" else pattern
        return np.flatnonzero(np.asarray(pc.fill_null(test(self._texts, given), False)))


@lru_cache(256)
def _automaton(patterns: tuple[bytes, ...]) -> Any:
    from ahocorasick_rs import BytesAhoCorasick

    return BytesAhoCorasick(list(patterns))


def _found(texts: pa.LargeStringArray, patterns: tuple[bytes, ...]) -> Places:
    """Rows of a pattern, a text that has it, and whether this begins and ends with it."""
    none = np.zeros((0, 4), np.int64)
    if not len(texts) or not patterns:
        return none
    _, offsets, data = texts.buffers()
    if data is None:
        return none
    ends = np.frombuffer(offsets, np.int64)[texts.offset : texts.offset + len(texts) + 1]
    bytes_ = np.frombuffer(data, np.uint8)
    search = _automaton(patterns).find_matches_as_indexes
    parts = [none]
    first = 0
    while first < len(texts):
        # Whole texts, as many as a piece has room for.
        last = int(np.searchsorted(ends, ends[first] + _PIECE, "right")) - 1
        last = min(max(last, first + 1), len(texts))
        piece = bytes_[int(ends[first]) : int(ends[last])]
        matches = search(piece, overlapping=True)
        if matches:
            flat = np.fromiter(chain.from_iterable(matches), np.int64, 3 * len(matches))
            parts.append(_inside(flat.reshape(-1, 3), ends[first : last + 1], first))
        first = last
    return np.concatenate(parts)


def _inside(matches: Places, ends: Places, first: int) -> Places:
    """The matches that lie in one text, and where; two texts stand side by side."""
    start, end = matches[:, 1] + ends[0], matches[:, 2] + ends[0]
    text = np.searchsorted(ends, start, "right") - 1
    inside = end <= ends[text + 1]
    text, start, end = text[inside], start[inside], end[inside]
    begins, finishes = start == ends[text], end == ends[text + 1]
    found = np.stack([matches[inside, 0], text + first, begins, finishes], 1)
    return np.unique(found, axis=0) if len(found) > 1 << 16 else found
