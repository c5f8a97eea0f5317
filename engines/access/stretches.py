"""Stretches of events by what their columns come to: what an index has of blocks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from engines.access.blocks import Int64s
from engines.access.exact_parts import joined_parts
from optimizer.ir.aggregates import InputColumn

Float64s = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class ColumnStretches:
    """A column in each stretch: how many values, parts that add up to their sum, extremes.

    Without minima and maxima `low` and `high` are empty, and without sums there are no parts.
    """

    number: Int64s
    parts: npt.NDArray[Any]  # (part, stretch), of integers or doubles
    low: Float64s
    high: Float64s


@dataclass(frozen=True, eq=False)
class Stretches:
    """Stretches of a symbol's events between two cuts: times that they lie between, and rows."""

    first: Int64s
    last: Int64s
    rows: Int64s
    columns: Mapping[InputColumn, ColumnStretches]


def joined_columns(several: Sequence[ColumnStretches]) -> ColumnStretches:
    """A column in all stretches of several."""
    if not several:
        none = np.zeros(0)
        return ColumnStretches(np.zeros(0, np.int64), np.zeros((0, 0)), none, none)
    return ColumnStretches(
        np.concatenate([each.number for each in several]),
        joined_parts([each.parts for each in several]),
        np.concatenate([each.low for each in several]),
        np.concatenate([each.high for each in several]),
    )


def joined_stretches(several: Sequence[Stretches]) -> Stretches:
    """All of several stretches, which have the same columns."""
    return Stretches(
        np.concatenate([each.first for each in several]),
        np.concatenate([each.last for each in several]),
        np.concatenate([each.rows for each in several]),
        {
            column: joined_columns([stretches.columns[column] for stretches in several])
            for column in several[0].columns
        },
    )
