"""Finding the candidates that an equality asks for, instead of trying all in reach."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from engines.columns.layout import Rows
from engines.columns.vectors import Vector

_INDEXED = ("int", "string", "time", "bool")


@dataclass(frozen=True)
class Equality:
    """`new.attribute = bound.bound_attribute`, where `bound` is a single event."""

    attribute: str
    bound: str
    bound_attribute: str


@dataclass(frozen=True, eq=False)
class Index:
    """The candidates of a symbol by an attribute's value, and then in order.

    `keys` are sorted: the value's number times `span`, plus the row. `codes` gives the number of
    the value that each row asks for; -1 for one that no candidate has.
    """

    rows: Rows
    keys: Rows
    codes: Rows
    span: int

    def find(self, bound: Rows, low: Rows, high: Rows) -> tuple[Rows, Rows]:
        """The range of places of the candidates between two rows with a bound row's value."""
        code = self.codes[bound]
        start = np.searchsorted(self.keys, code * self.span + low)
        stop = np.searchsorted(self.keys, code * self.span + np.maximum(low, high))
        return start, np.where(code < 0, start, stop)


def index_of(candidates: Rows, values: Vector, asked: Vector) -> Index | None:
    """The index, where both columns hold values that can be looked up."""
    if values.kind != asked.kind or values.kind not in _INDEXED:
        return None
    span = len(values.values) + 1
    rows = candidates[values.present()[candidates]]
    distinct, code = np.unique(values.values[rows], return_inverse=True)
    keys = code * span + rows
    order = np.argsort(keys, kind="stable")
    place = np.searchsorted(distinct, asked.values)
    known = np.append(distinct, distinct[:1])[place] == asked.values if len(distinct) else False
    codes = np.where(known & asked.present(), place, -1)
    return Index(rows[order], keys[order], codes, span)
