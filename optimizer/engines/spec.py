"""What the planner knows of an engine, and how it asks for it.

An engine is a module of this folder that has these names: `NAME` as plans write it, `LABEL` as
people read it, and the devices that it has kernels for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal as OneOf
from typing import Protocol, TypeAlias

from optimizer.automaton import Symbols
from optimizer.cost.counting import Counting, Lengths
from optimizer.cost.operations import Operations
from optimizer.ir.pattern import Symbol
from optimizer.ir.query import Query

Device = OneOf["cpu", "opencl"]
Steps: TypeAlias = tuple[str, ...]  # of a stretch of pattern, as texts
Segments: TypeAlias = Mapping[str, Sequence[Steps]]  # of each query, in order
Stretch: TypeAlias = Sequence[tuple[Symbol, Symbols]]  # symbols, and what is negated after each


class Engine(Protocol):
    """What every engine says of itself."""

    NAME: str
    LABEL: str
    DEVICES: tuple[Device, ...]

    def refusal(self, query: Query) -> str | None:
        """Why it cannot run a query; None where it can."""

    def refusal_together(self, queries: Sequence[Query]) -> str | None:
        """Why it cannot run queries as one group, each of which it can; None where it can."""


class CountingEngine(Engine, Protocol):
    """What engines that count matches say besides.

    `TOGETHER` is why queries are counted together by it, and `FEWEST` how many a group has at least
    for which it is looked at. `CHOPPED`: it takes queries in segments that were chosen before, and
    is of no use without any. `ANY_WINDOW`: its queries may differ in window and slide.
    `ANY_PIECE`: it counts every piece that queries have in common once. `ROBUST`: its cost hardly
    depends on rates and keys, so that it may rest on assumed ones.
    """

    TOGETHER: str
    FEWEST: int
    CHOPPED: bool
    ANY_WINDOW: bool
    ANY_PIECE: bool
    ROBUST: bool

    def operations(self, group: Counting, lengths: Lengths | None) -> Operations:
        """What it does in a second of stream; `lengths` are those of Chop-Connect's segments."""

    def computed_once(self, segments: Segments) -> dict[Steps, tuple[str, ...]]:
        """The pieces that it counts once for several queries, and for which; shorter ones first."""

    def counts_once(self, piece: Steps, words: Mapping[str, Steps]) -> tuple[str, ...]:
        """For which of these queries, all of which have the piece, it can count it once."""

    def has_counter(self, start: int, end: int) -> bool:
        """Does it keep a counter for that stretch of a piece, for this alone?"""

    def counter(self, stretch: Stretch, group: Counting, each: Operations) -> float:
        """What one counter takes, in nanoseconds for a second of stream; `each` are unit costs."""


def one_setting(queries: Sequence[Query]) -> str | None:
    """Why queries cannot run as a group that has one key, window and slide."""
    differ = [
        name
        for name, values in (
            ("key", {query.key for query in queries}),
            ("window", {query.window for query in queries}),
            ("slide", {query.slide for query in queries}),
        )
        if len(values) > 1
    ]
    return f"its queries differ in {' and '.join(differ)}" if differ else None
