"""Ranges of an attribute's values, and about how many entries of a sorted run are in one.

A run has *marks* in its schema: each of its values, where they are few, with how many entries there
are of it; else its value at every so many entries. Between two of these numbers are taken to lie
evenly; of a single value that is no mark there are as many entries as there are of a value on
average. So values that are much more frequent than others are seen as such.
"""

from __future__ import annotations

import json
from bisect import bisect_left, bisect_right
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

MOST_MARKS = 4_096
LEAST_STEP = 64  # entries between two marks
MARKED_LETTERS = 32  # of a text
_MARKS = b"sheaf.marks"


@dataclass(frozen=True)
class ValueRange:
    """Values from `low` to `high`; None is no bound."""

    low: Any = None
    high: Any = None
    has_low: bool = True  # is `low` itself one of them?
    has_high: bool = True

    def meets(self, least: Any, greatest: Any) -> bool:
        """Can a value from least to greatest be in it?"""
        below = self.high is not None and (
            least > self.high or (least == self.high and not self.has_high)
        )
        above = self.low is not None and (
            greatest < self.low or (greatest == self.low and not self.has_low)
        )
        return not below and not above

    @property
    def is_single(self) -> bool:
        """Is it one value?"""
        return self.low is not None and self.low == self.high and self.has_low and self.has_high


def with_marks(run: pa.Table) -> pa.Table:
    """A sorted run with marks in its schema."""
    values = run.column("value")
    number = len(values)
    changes = np.asarray(pc.not_equal(values.slice(1), values.slice(0, max(number - 1, 0))))
    first = np.append(0, np.flatnonzero(changes) + 1)[:number]  # of each value
    step = max(LEAST_STEP, -(-number // MOST_MARKS))
    places = np.append(np.arange(0, max(number - 1, 0), step), number - 1)[: max(number, 1)]
    is_every = len(first) <= MOST_MARKS and _are_short(values.take(pa.array(first)))
    places = first if is_every else places
    marks = values.take(pa.array(places)).to_pylist() if number else []
    found = {
        "step": step,
        "distinct": max(len(first), 1),
        "values": [mark[:MARKED_LETTERS] if isinstance(mark, str) else mark for mark in marks],
        "first": first.tolist() if is_every else None,
    }
    metadata = {**(run.schema.metadata or {}), _MARKS: json.dumps(found)}
    return run.replace_schema_metadata(metadata)


def _are_short(values: pa.ChunkedArray) -> bool:
    """Are marks of these values the values themselves?"""
    if not pa.types.is_string(values.type) and not pa.types.is_large_string(values.type):
        return True
    return (pc.max(pc.utf8_length(values)).as_py() or 0) <= MARKED_LETTERS


@dataclass(frozen=True)
class ValueMarks:
    """Values at every `step` entries and at the last; `each` is how many entries a value has.

    Where `first` is known, they are all values there are, and it is the first entry of each.
    """

    values: list[Any]
    step: int
    number: int
    each: float
    first: list[int] | None = None

    @staticmethod
    def of(metadata: Mapping[bytes, bytes], number: int) -> ValueMarks:
        """Those in the schema of a run of so many entries."""
        found = json.loads(metadata.get(_MARKS, b"{}"))
        distinct = max(found.get("distinct", 1), 1)
        values, step, first = found.get("values", []), found.get("step", 1), found.get("first")
        return ValueMarks(values, step, number, number / distinct, first)

    def entries(self, one: ValueRange) -> float:
        """About how many entries have a value in a range."""
        if not self.values:
            return float(self.number)
        low = 0.0 if one.low is None else self._before(one.low, not one.has_low)
        high = float(self.number) if one.high is None else self._before(one.high, one.has_high)
        if one.is_single and self.first is None:
            return max(high - low, self.each)
        return max(high - low, 0.0)

    def _before(self, value: Any, included: bool) -> float:
        """About how many entries are less than a value, or with it where it is `included`."""
        if isinstance(value, str) and self.first is None:
            value = value[:MARKED_LETTERS]
        place = (bisect_right if included else bisect_left)(self.values, value)
        if self.first is not None:
            return float(self.first[place] if place < len(self.first) else self.number)
        if place == 0:
            return 0.0
        if place == len(self.values):
            return float(self.number)
        least, greatest = self.values[place - 1], self.values[place]
        part = 0.5
        if not isinstance(least, bool | str) and least < value < greatest:
            part = (value - least) / (greatest - least)
        elif value in (least, greatest):  # which begins, or ends, where the mark is
            part = float(value == greatest)
        return min((place - 1 + part) * self.step, float(self.number))
