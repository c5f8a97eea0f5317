"""Queries as sharing sees them: a sequence of steps, and the setting that it is counted in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from optimizer.ir.pattern import Symbol
from optimizer.ir.query import Window

Symbols: TypeAlias = frozenset[Symbol]


class Step(NamedTuple):
    """One event of a sequence, and what must not occur between it and the next one.

    A negation belongs to the step before it, as in the segments that Chop-Connect runs: stretches
    of equal steps count the same wherever they stand.
    """

    symbol: Symbol
    negated: Symbols = frozenset()

    def __str__(self) -> str:
        return " ".join([str(self.symbol), *sorted(f"!{symbol}" for symbol in self.negated)])


class Setting(NamedTuple):
    """What queries must have in common, besides steps, to share anything."""

    key: tuple[str, ...]
    window: Window
    slide: int | None = None
    order: tuple[str, ...] = ()  # the columns that say which event is before which


# How people call the parts of a setting, in their order.
SETTING_NAMES = ("partition key", "window", "slide", "order")


@dataclass(frozen=True)
class QuerySteps:
    """A query that can be chopped: its name, its steps from first to last, its setting."""

    name: str
    steps: tuple[Step, ...]
    setting: Setting
