"""Queries about situations as parsed."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal as OneOf

from workloads.errors import NOWHERE, Span
from workloads.expressions import Expression
from workloads.syntax import Duration, Item

# When a match is given; a query that stands for `start(S)` or `end(S)` gives the moments of these.
Emit = OneOf["early", "complete", "start", "end"]
EMITS: tuple[Emit, ...] = ("early", "complete")  # that are written


@dataclass(frozen=True, slots=True)
class Definition:
    """`Name OF Type AS condition BETWEEN 4 s AND 30 s GAP 1 min`"""

    name: str
    type: str | None
    condition: Expression
    at_least: Duration | None = None
    at_most: Duration | None = None
    gap: Duration | None = None
    span: Span = field(default=NOWHERE, compare=False, repr=False)
    type_span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Constraint:
    """`A before;meets B`: one of the relations holds; `mask` has their bits."""

    left: str
    right: str
    mask: int
    span: Span = field(default=NOWHERE, compare=False, repr=False)
    left_span: Span = field(default=NOWHERE, compare=False, repr=False)
    right_span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Situations:
    """What a query with `DEFINE` looks for and gives of each match.

    `single` is the name of the one situation of a pattern without constraints.
    """

    definitions: tuple[Definition, ...]
    constraints: tuple[Constraint, ...]
    items: tuple[Item, ...]
    emit: Emit = "early"
    single: str | None = None
    source: str | None = None  # the workload that FROM names
    span: Span = field(default=NOWHERE, compare=False, repr=False)
    pattern_span: Span = field(default=NOWHERE, compare=False, repr=False)
    source_span: Span = field(default=NOWHERE, compare=False, repr=False)
