"""A query in EQL, taken apart: its steps with their conditions, keys and pipes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal as OneOf

from workloads.errors import SheafError
from workloads.expressions import Expression

OPTIONAL = "?"  # the alias of a field that is marked as one that may be missing


class EqlError(SheafError):
    """What is wrong with a query in EQL, or what of it is not taken."""


@dataclass(frozen=True)
class EqlTerm:
    """`[category where condition] by … as name with runs=n`; conditions speak of no alias, but read
    an earlier step by its name: `name.process.pid`.

    `condition` is None where every event of the category will do. What is `missing` is `![…]`.
    """

    category: str
    condition: Expression | None
    by: tuple[Expression, ...] = ()
    missing: bool = False
    runs: int = 1
    name: str | None = None


@dataclass(frozen=True)
class EqlPipe:
    """`| name value, …`"""

    name: str
    values: tuple[Expression, ...] = ()


@dataclass(frozen=True)
class EqlQuery:
    """A sequence, a sample, or a query of single events, which has one term."""

    kind: OneOf["sequence", "sample", "event"]
    terms: tuple[EqlTerm, ...]
    by: tuple[Expression, ...] = ()
    maxspan: str | None = None
    until: EqlTerm | None = None
    pipes: tuple[EqlPipe, ...] = ()

    def piped(self, pipes: tuple[EqlPipe, ...]) -> EqlQuery:
        """The same with pipes behind it."""
        return replace(self, pipes=pipes)
