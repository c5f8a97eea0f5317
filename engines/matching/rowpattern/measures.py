"""What MEASURES say of matches, column by column."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from engines.matching.rowpattern.ordered_table import OrderedTable, Rows
from engines.matching.rowpattern.search import FoundMatches
from engines.sql.columns import column, plain_array
from engines.sql.scalars import aggregate
from kernels.rowpattern.cpu import running_totals
from optimizer.ir.recognition import Recognition
from workloads.sql import expressions as ex

_TOTALS = {"SUM": 0, "AVG": 0, "MIN": 1, "MAX": 2}
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class GivenRows:
    """The rows that a clause gives: of each its match, its row in the table, and how much of the
    match's rows it has seen, as their end among the rows of all matches. Rows of no match come
    last: they have no `match` and no `seen`."""

    match: Rows
    row: Rows
    seen: Rows

    def __len__(self) -> int:
        return len(self.row)


def given_rows(clause: Recognition, found: FoundMatches) -> GivenRows:
    """The rows of matches: one of each, or all but those that are left out."""
    numbers = np.arange(len(found.first))
    if not clause.all_rows:
        last = found.first + np.maximum(found.length - 1, 0)
        return GivenRows(numbers, last, found.begin + found.length)
    match = np.repeat(numbers, found.length)
    place = np.arange(len(match))
    row = found.first[match] + place - found.begin[match]
    kept = np.flatnonzero(~found.excluded)
    empty = np.flatnonzero(found.length == 0) if clause.show_empty else numbers[:0]
    alone = found.unmatched if clause.show_unmatched else numbers[:0]
    return GivenRows(
        np.concatenate([match[kept], empty]),
        np.concatenate([row[kept], found.first[empty], alone]),
        np.concatenate([place[kept] + 1, found.begin[empty]]),
    )


class MatchColumns:
    """Values of expressions in the rows that belong to a match."""

    def __init__(
        self, table: OrderedTable, clause: Recognition, found: FoundMatches, rows: GivenRows
    ) -> None:
        self._table, self._clause, self._found = table, clause, found
        self._match, self._seen = rows.match, rows.seen
        self._members: dict[str | None, tuple[Mask, Rows, Rows]] = {}

    def values(self, measure: ex.Expression) -> pa.Array:
        return column(measure, self._leaf, len(self._match))

    def _leaf(self, node: ex.Expression) -> pa.Array:
        match node:
            case ex.RowValue(pointer, name):
                at, missing = self._rows(pointer)
                return self._table.column(name).take(pa.array(at, mask=missing))
            case ex.Classifier(pointer):
                at, missing = self._rows(pointer)
                place = at - self._found.first[self._match]
                missing |= (place < 0) | (place >= self._found.length[self._match])
                flat = np.where(missing, 0, self._found.begin[self._match] + place)
                labels = np.append(self._found.labels, 0)[flat]
                return self._names.take(pa.array(labels, mask=missing))
            case ex.MatchNumber():
                return pa.array(self._found.number[self._match])
            case _:
                assert isinstance(node, ex.Aggregated)
                return self._aggregated(node)

    @cached_property
    def _names(self) -> pa.Array:
        return pa.array([*self._found.names, ""], pa.string())

    def _mapped(self, variable: str | None) -> tuple[Mask, Rows, Rows]:
        """Which rows are mapped to a variable, how many before each, and where they are."""
        if variable not in self._members:
            labels = self._found.labels
            wanted = self._clause.variables_of(variable)
            if wanted is None:
                mapped = np.ones(len(labels), np.bool_)
            else:
                codes = [place for place, name in enumerate(self._found.names) if name in wanted]
                mapped = np.isin(labels, codes)
            before = np.concatenate([[0], np.cumsum(mapped)]).astype(np.int64)
            self._members[variable] = (mapped, before, np.flatnonzero(mapped))
        return self._members[variable]

    def _range(self, final: bool) -> tuple[Rows, Rows]:
        """The rows that each given row may look at, among those of all matches."""
        start = self._found.begin[self._match]
        return start, start + self._found.length[self._match] if final else self._seen

    def _rows(self, pointer: ex.Pointer) -> tuple[Rows, Mask]:
        """The table's row that a pointer leads to, and where it leads to none."""
        _, before, where = self._mapped(pointer.variable)
        start, end = self._range(pointer.final)
        low, high = before[start], before[end]
        place = low + pointer.logical if pointer.from_first else high - 1 - pointer.logical
        missing = (place < low) | (place >= high)
        flat = np.append(where, 0)[np.where(missing, len(where), place)]
        first = self._found.first[self._match]
        at = first + flat - start + pointer.physical
        begin, stop = self._partition
        missing |= (at < begin) | (at >= stop)
        return np.where(missing, 0, at), missing

    @cached_property
    def _partition(self) -> tuple[Rows, Rows]:
        first = self._found.first[self._match]
        return self._table.first_of[first], self._table.end_of[first]

    # --- aggregates ------------------------------------------------------------------------------

    @cached_property
    def _flat_match(self) -> Rows:
        return np.repeat(np.arange(len(self._found.first)), self._found.length)

    @cached_property
    def _flat_row(self) -> Rows:
        found, match = self._found, self._flat_match
        return found.first[match] + np.arange(len(match)) - found.begin[match]

    def _own(self, leaf: ex.Expression) -> pa.Array:
        if isinstance(leaf, ex.MatchNumber):
            return pa.array(self._found.number[self._flat_match])
        assert isinstance(leaf, ex.Own)
        if leaf.column is None:
            return self._names.take(pa.array(self._found.labels))
        return self._table.column(leaf.column).take(pa.array(self._flat_row))

    def _aggregated(self, node: ex.Aggregated) -> pa.Array:
        mapped, before, _ = self._mapped(node.variable)
        start, end = self._range(node.final)
        if node.argument is None:
            return pa.array(before[end] - before[start])
        values = column(node.argument, self._own, len(self._found.labels))
        if node.function in (*_TOTALS, "COUNT") and not node.distinct:
            counts = mapped & np.asarray(pc.is_valid(values))
            number = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
            numbers = number[end] - number[start]
            if node.function == "COUNT":
                return pa.array(numbers)
            found = self._total(node.function, values, counts, numbers, end)
            if found is not None:
                return found
        return self._listed(node, values, mapped, start, end)

    def _total(
        self, function: str, values: pa.Array, counts: Mask, numbers: Rows, end: Rows
    ) -> pa.Array | None:
        """A sum, a mean, the least or the greatest value; None for what are no plain numbers."""
        if not (pa.types.is_int64(values.type) or pa.types.is_float64(values.type)):
            return None
        plain = np.asarray(pc.fill_null(values, 0))
        if pa.types.is_float64(values.type):
            if not np.isfinite(plain).all():
                return None
        elif _TOTALS[function] == 0 and len(plain):
            most = max(abs(int(plain.min())), abs(int(plain.max())))
            if most * int(self._found.length.max(initial=0)) >= 2**62:
                return None
        totals = np.zeros(len(plain), plain.dtype)
        begins = np.zeros(len(plain), np.bool_)
        begins[self._found.begin[self._found.length > 0]] = True
        running_totals(np.ascontiguousarray(plain), counts, begins, _TOTALS[function], totals)
        missing = numbers == 0
        chosen = np.append(totals, 0)[np.where(missing, len(totals), end - 1)]
        if function == "AVG":
            chosen = chosen.astype(np.float64) / np.maximum(numbers, 1)
        return pa.array(chosen, mask=missing)

    def _listed(
        self, node: ex.Aggregated, values: pa.Array, mapped: Mask, start: Rows, end: Rows
    ) -> pa.Array:
        """Any aggregate, row by row."""
        plain: list[Any] = values.to_pylist()
        size = len(plain)
        second = None if node.second is None else column(node.second, self._own, size).to_pylist()
        chosen = mapped.tolist()
        found = []
        for low, high in zip(start.tolist(), end.tolist(), strict=True):
            places = [place for place in range(low, high) if chosen[place]]
            others = [] if second is None else [second[place] for place in places]
            mine = [plain[place] for place in places]
            found.append(aggregate(node.function, mine, node.distinct, others))
        return plain_array(found)
