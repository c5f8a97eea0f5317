"""MATCH_RECOGNIZE, bound: every leaf of its conditions and measures says which row it reads."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from workloads.sql.expressions import (
    Aggregated,
    AllColumns,
    Classifier,
    Expression,
    Given,
    MatchNumber,
    RowValue,
    walk,
)
from workloads.sql.rowpattern import Anchor, RowPattern
from workloads.sql.rowpattern import walk as parts_of_pattern
from workloads.sql.statement import Skip


@dataclass(frozen=True, slots=True)
class OrderColumn:
    """One column of ORDER BY."""

    column: str
    descending: bool = False
    nulls_first: bool = False


@dataclass(frozen=True, slots=True)
class Selection:
    """The SELECT around the clause, over the columns that it gives.

    `items` are names and values; an `AllColumns` stands for all columns. With `groups`, or with
    aggregates among the items, rows are put together (`is_grouped`).
    """

    items: tuple[tuple[str, Expression], ...]
    distinct: bool = False
    where: Expression | None = None
    groups: tuple[Expression, ...] = ()
    having: Expression | None = None
    order: tuple[tuple[Expression, bool, bool], ...] = ()  # descending, nulls first
    limit: int | None = None
    offset: int = 0

    @property
    def kept(self) -> slice:
        """Which of its rows are given, by OFFSET and LIMIT."""
        return slice(self.offset, None if self.limit is None else self.offset + self.limit)

    @property
    def is_grouped(self) -> bool:
        values = [value for _, value in self.items]
        return bool(self.groups) or any(
            isinstance(node, Aggregated) for value in values for node in walk(value)
        )

    @property
    def is_by_row(self) -> bool:
        """Does each row that it gives come from one row of the clause?"""
        return not (self.is_grouped or self.distinct or self.kept != slice(0, None))


@dataclass(frozen=True, slots=True)
class Recognition:
    """One clause MATCH_RECOGNIZE and the SELECT around it.

    `unions` are the variables of the pattern that each name of a variable stands for: itself, or
    those of a SUBSET. A variable without a condition takes any row. `within` is in nanoseconds.
    `rows` are those that FROM has itself: the events must be the same.
    """

    pattern: RowPattern
    partition: tuple[str, ...]
    order: tuple[OrderColumn, ...]
    conditions: tuple[tuple[str, Expression], ...]
    unions: tuple[tuple[str, tuple[str, ...]], ...]
    measures: tuple[tuple[str, Expression], ...]
    all_rows: bool
    show_empty: bool
    show_unmatched: bool
    skip: Skip
    within: int | None
    filter: Expression | None
    rows: tuple[tuple[object, ...], ...]
    row_columns: tuple[str, ...]
    selection: Selection
    columns: tuple[str, ...]  # of the input, that are read

    def variables_of(self, name: str | None) -> frozenset[str] | None:
        """The variables of the pattern that a name stands for; None for any."""
        return None if name is None else frozenset(dict(self.unions)[name])

    def needs_end(self, time: str) -> str | None:
        """Why no row of it is certain before all rows have come; None where it can be.

        `time` is the column by which rows come.
        """
        if self.order and (self.order[0].column != time or self.order[0].descending):
            return f"its ORDER BY does not begin with '{time}', by which rows come; begin with it"
        if any(isinstance(p, Anchor) and not p.at_start for p in parts_of_pattern(self.pattern)):
            return "its pattern has $, and no row is the last of a stream; leave $ out"
        if not self.selection.is_by_row:
            return (
                "its SELECT puts rows of many matches together (GROUP BY, aggregates, DISTINCT or "
                "LIMIT); select the rows of matches"
            )
        return "its rows stand in FROM" if self.rows else None

    @property
    def ahead(self) -> int:
        """How many rows behind the row that is mapped its conditions read."""
        return max([0, *_offsets(condition for _, condition in self.conditions)])

    @property
    def after(self) -> int:
        """How many rows behind a match its measures read."""
        return max([0, *_offsets(measure for _, measure in self.measures)])

    @property
    def back(self) -> int:
        """How many rows before a match are read, or tell that it is not the first of all."""
        values = [value for _, value in (*self.conditions, *self.measures)]
        is_numbered = any(isinstance(node, MatchNumber) for v in values for node in walk(v))
        is_anchored = any(isinstance(part, Anchor) for part in parts_of_pattern(self.pattern))
        return -min([-int(is_numbered or is_anchored), *_offsets(values)])

    def given_columns(self, table: Sequence[str]) -> list[str]:
        """The columns that the clause gives of a table, in order; measures go before others."""
        measures = [name for name, _ in self.measures]
        given = [*self.partition]
        if self.all_rows:
            given += [o.column for o in self.order if o.column not in given]
        found = [name for name in given if name not in measures] + measures
        if self.all_rows:
            found += [name for name in table if name not in found]
        return found

    def items(self, table: Sequence[str]) -> Iterator[tuple[str, Expression]]:
        """The items of SELECT, with all columns in the place of `*`."""
        used: set[str] = set()
        for name, value in self.selection.items:
            many = isinstance(value, AllColumns)
            for one in self.given_columns(table) if many else [name]:
                unique, number = one, 2
                while unique in used:
                    unique, number = f"{one}_{number}", number + 1
                used.add(unique)
                yield unique, Given(one) if many else value


def _offsets(values: Iterable[Expression]) -> Iterator[int]:
    """How many rows further on from rows of a match values are read."""
    for value in values:
        for node in walk(value):
            if isinstance(node, RowValue | Classifier):
                yield node.pointer.physical
