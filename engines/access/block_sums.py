"""Aggregates from the light index: which blocks of events are summed up and need not be read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np

from engines.access.blocks import Blocks, Bounds, Mask
from engines.access.light_index import BlockTotals, kind_of
from engines.access.possible import PossibleEvents
from engines.access.stored_blocks import StoredEvents, StoredFile
from engines.input.batches import FileSource
from optimizer.access.anchors import NotIndexedError
from optimizer.access.summable import summed_symbol
from optimizer.ir.aggregates import InputColumn, aggregate_parts
from optimizer.ir.pattern import ANY_TYPE, Symbol
from optimizer.ir.query import Aggregation, Query, whole_ticks
from workloads import expressions as ex
from workloads.errors import UnsupportedError
from workloads.workload import Stream

LARGEST = 2**44  # of integers: the sum of as many as are read at once stays below 2^62
LARGEST_DOUBLE = 2.0**900  # sums of as many as that stay finite


@dataclass(frozen=True)
class SummedQuery:
    """A query that blocks can answer: its symbol, and its window and slide in ticks."""

    query: Query
    symbol: Symbol
    width: int
    slide: int

    @property
    def columns(self) -> Mapping[InputColumn, frozenset[str]]:
        """What it aggregates, and to what: sums, minima, maxima."""
        assert isinstance(self.query.output, Aggregation)
        parts = aggregate_parts(self.query.output)
        columns = dict.fromkeys(part.column for part in parts)
        return {c: frozenset(p.kind for p in parts if p.column == c) for c in columns}

    @property
    def names(self) -> frozenset[str]:
        """The columns of events that it aggregates."""
        return frozenset(name for each in self.columns for name in ex.attributes(each.value))


def summed_queries(queries: Iterable[Query], tick: int) -> Iterator[SummedQuery]:
    """Those of the queries that blocks can answer; times are in ticks of so many nanoseconds."""
    for query in queries:
        try:
            symbol = summed_symbol(query)
            assert query.slide is not None
            slide = whole_ticks(query.slide, tick, "slide")
            yield SummedQuery(query, symbol, query.window.ticks(tick), slide)
        except (NotIndexedError, UnsupportedError):  # which the run tells of
            continue


@dataclass(eq=False)
class BlockSums:
    """What is summed up of stored events, and what is read, for each of some queries."""

    stored: StoredEvents
    blocks: Blocks
    possible: PossibleEvents
    source: FileSource
    stream: Stream
    _surely: dict[Symbol, Mask] = field(default_factory=dict)
    _totals: dict[str, Mask] = field(default_factory=dict)

    def is_able(self, one: SummedQuery) -> bool:
        """Can sums of blocks of what it aggregates be added up exactly?"""
        return all(_is_summable(self.blocks.columns.get(name)) for name in one.names)

    def read_units(self, one: SummedQuery) -> Mask:
        """The row groups that a query must read: those with a block that is not summed up."""
        inside = self.possible.symbol(one.symbol)
        whole = self.surely(one.symbol) & self._is_uncut(one.width, one.slide)
        whole &= ~self.blocks.always
        for column in one.columns:
            whole &= self._is_known(column)
        found = np.zeros(self.stored.units, bool)
        found[self.blocks.unit[inside & ~whole]] = True
        found[self.blocks.unit[self.blocks.always]] = True
        return found

    def surely(self, symbol: Symbol) -> Mask:
        """The blocks of which every event is of a symbol."""
        if symbol not in self._surely:
            found = self._surely_typed(symbol.type)
            for predicate in symbol.predicates:
                found = found & ~self.possible.holds(predicate, False)
            self._surely[symbol] = found
        return self._surely[symbol]

    def _surely_typed(self, name: str) -> Mask:
        if name == ANY_TYPE:
            return np.ones(len(self.blocks), bool)
        found = np.zeros(len(self.blocks), bool)
        column, condition = self.stream.type, self.stream.types.get(name)
        bounds = None if column is None else self.blocks.columns.get(column)
        if column is not None and bounds is not None and bounds.kind == "string":
            named = ex.Comparison("=", ex.Attribute("", column), ex.Literal(name))
            found = found | ~self.possible.holds(named, False)
        return found if condition is None else found | ~self.possible.holds(condition, False)

    def _is_uncut(self, width: int, slide: int) -> Mask:
        """The blocks in which no window opens or closes."""
        low, high = self.blocks.low, self.blocks.high
        found = np.ones(len(self.blocks), bool)
        for phase in {0, -width % slide}:
            found &= -((phase - low) // slide) == -((phase - high) // slide)
        return found

    def _is_known(self, column: InputColumn) -> Mask:
        """The blocks whose sums and extremes of a column are known."""
        (name,) = ex.attributes(column.value)
        if name not in self._totals:
            parts = []
            for file in self.stored.files:
                totals = self.totals(file, name)
                known = np.full(len(file.groups), totals is not None)
                if totals is not None and totals.sums is not None:
                    known &= totals.sums.known
                parts.append(known)
            self._totals[name] = np.concatenate(parts)
        return self._totals[name]

    def totals(self, file: StoredFile, name: str) -> BlockTotals | None:
        """What a column of a file comes to in each block, where the index of the file has that."""
        if file.light is None or name not in self.source.schema.names:
            return None
        kind = kind_of(self.source.schema.field(name).type)
        if name not in file.light.about or file.light.about[name]["kind"] != kind:
            return None
        return file.light.totals(name) if kind in ("int", "float") else None


def _is_summable(bounds: Bounds | None) -> bool:
    """Are all values known to be numbers whose sums are exact?"""
    if bounds is None or bounds.kind not in ("int", "float"):
        return False
    if not (bounds.known | bounds.empty).all():
        return False
    least, greatest = bounds.least[bounds.known], bounds.greatest[bounds.known]
    if bounds.kind == "float":
        sizes = np.abs(np.concatenate([least, greatest]))
        return bool(sizes.max(initial=0.0) < LARGEST_DOUBLE)
    return int(least.min(initial=0)) > -LARGEST and int(greatest.max(initial=0)) < LARGEST
