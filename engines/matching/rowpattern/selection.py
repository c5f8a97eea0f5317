"""The SELECT around MATCH_RECOGNIZE, over the rows that the clause gives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cmp_to_key
from typing import Any

import numpy as np
import pyarrow as pa

from engines.matching.rowpattern.ordered_table import Rows
from engines.sql.columns import column, plain_array, truth
from engines.sql.scalars import aggregate, value
from optimizer.ir.recognition import Recognition, Selection
from workloads.sql import expressions as ex


@dataclass(frozen=True, eq=False)
class SelectedRows:
    """Columns by name, and of each row those of the clause's rows that it comes from: the first
    number of `bounds` for it up to the next in `sources`."""

    columns: Mapping[str, pa.Array]
    sources: Rows
    bounds: Rows

    def __len__(self) -> int:
        return len(self.bounds) - 1


def selected(
    clause: Recognition, given: Mapping[str, pa.Array], names: Sequence[str], size: int
) -> SelectedRows:
    """The rows of the SELECT; `given` are the clause's columns, `names` those of the table."""
    selection, items = clause.selection, list(clause.items(names))

    def leaf(node: ex.Expression) -> pa.Array:
        assert isinstance(node, ex.Given)
        return given[node.name]

    kept = np.arange(size)
    if selection.where is not None:
        kept = np.flatnonzero(truth(selection.where, leaf, size))
    if selection.is_by_row:

        def taken(node: ex.Expression) -> pa.Array:
            found = leaf(node)
            return found if len(kept) == size else found.take(pa.array(kept))

        columns = {name: column(item, taken, len(kept)) for name, item in items}
        return SelectedRows(columns, kept, np.arange(len(kept) + 1))
    return _put_together(selection, items, given, kept)


def _put_together(
    selection: Selection,
    items: Sequence[tuple[str, ex.Expression]],
    given: Mapping[str, pa.Array],
    kept: Rows,
) -> SelectedRows:
    """Rows that depend on several rows of the clause: grouped, distinct or limited."""
    plain = {name: values.to_pylist() for name, values in given.items()}

    def of(group: list[int], node: ex.Expression) -> Any:
        def leaf(inner: ex.Expression) -> Any:
            if isinstance(inner, ex.Given):
                return plain[inner.name][group[0]]
            assert isinstance(inner, ex.Aggregated)
            argument = inner.argument
            if argument is None:
                return len(group)
            values = [of([row], argument) for row in group]
            second = inner.second
            others = [] if second is None else [of([row], second) for row in group]
            return aggregate(inner.function, values, inner.distinct, others)

        return value(node, leaf)

    groups: list[list[int]] = [[row] for row in kept.tolist()]
    if selection.groups:
        by_value: dict[str, list[int]] = {}
        for (row,) in groups:
            place = repr([of([row], group) for group in selection.groups])
            by_value.setdefault(place, []).append(row)
        groups = list(by_value.values())
    elif selection.is_grouped:
        groups = [kept.tolist()]
    if selection.having is not None:
        having = selection.having
        groups = [group for group in groups if of(group, having) is True]
    for item, descending, nulls_first in reversed(selection.order):
        asked = {id(group): of(group, item) for group in groups}
        groups.sort(
            key=cmp_to_key(
                lambda a, b: _compared(asked[id(a)], asked[id(b)], descending, nulls_first)  # noqa: B023
            )
        )
    rows = [[of(group, item) for _, item in items] for group in groups]
    if selection.distinct:
        seen: dict[str, int] = {}
        for number, values in enumerate(rows):
            seen.setdefault(repr(values), number)
        places = list(seen.values())
        groups, rows = [groups[p] for p in places], [rows[p] for p in places]
    groups, rows = groups[selection.kept], rows[selection.kept]
    columns = {
        name: plain_array([row[place] for row in rows]) for place, (name, _) in enumerate(items)
    }
    sources = np.array([row for group in groups for row in group], np.int64)
    bounds = np.concatenate([[0], np.cumsum([len(group) for group in groups])])
    return SelectedRows(columns, sources, bounds.astype(np.int64))


def _compared(first: Any, second: Any, descending: bool, nulls_first: bool) -> int:
    if first is None or second is None:
        if first is second:
            return 0
        return -1 if (first is None) == nulls_first else 1
    if first == second:
        return 0
    return -1 if (first < second) != descending else 1
