"""A SELECT around MATCH_RECOGNIZE, as parsed."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal as OneOf

from workloads.errors import NOWHERE, Span
from workloads.sql.expressions import Column, Expression, Literal
from workloads.sql.rowpattern import RowPattern

Unmapped = OneOf["show", "omit", "unmatched"]  # what ALL ROWS PER MATCH gives besides mapped rows
SkipTo = OneOf["past", "next", "first", "last"]


@dataclass(frozen=True, slots=True)
class Named:
    """A value under a name, which an item of SELECT may lack; `text` is how it was written."""

    value: Expression
    name: str | None
    text: str = field(default="", compare=False)
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Source:
    """What stands behind FROM: a name, or rows that the text itself has.

    With WHERE it is some of them, with `items` what a SELECT makes of each.
    """

    name: str | None
    alias: str | None = None
    columns: tuple[str, ...] = ()
    rows: tuple[tuple[Literal, ...], ...] = ()
    where: Expression | None = None
    items: tuple[Named, ...] = ()
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Order:
    """One item of ORDER BY; without a word about nulls they come last, descending or not."""

    value: Expression
    descending: bool = False
    nulls_first: bool = False


@dataclass(frozen=True, slots=True)
class Skip:
    """Where the search goes on behind a match; `first` and `last` are rows of a variable."""

    to: SkipTo = "past"
    variable: str | None = None
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Definition:
    """`DEFINE name AS condition`, or `SUBSET name = (parts)`."""

    name: str
    condition: Expression | None = None
    parts: tuple[str, ...] = ()
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Statement:
    """One SELECT; `within` is in nanoseconds, and strictly more than a match may take."""

    source: Source
    pattern: RowPattern
    partition_by: tuple[Column, ...] = ()
    order_by: tuple[Order, ...] = ()
    measures: tuple[Named, ...] = ()
    all_rows: bool = False
    unmapped: Unmapped = "show"
    skip: Skip = Skip()
    subsets: tuple[Definition, ...] = ()
    definitions: tuple[Definition, ...] = ()
    within: int | None = None
    alias: str | None = None
    names: tuple[str, ...] = ()  # that the alias gives to the columns
    select: tuple[Named, ...] = ()
    distinct: bool = False
    where: Expression | None = None
    group_by: tuple[Expression, ...] = ()
    having: Expression | None = None
    order: tuple[Order, ...] = ()
    limit: int | None = None
    offset: int = 0
    pattern_span: Span = field(default=NOWHERE, compare=False, repr=False)
