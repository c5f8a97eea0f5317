"""What queries read of events, each column converted once, and the instances of symbols."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from engines.account import Account
from engines.columns.aggregate_inputs import AggregateInput, aggregate_input
from engines.columns.condition_index import ConditionIndex, SearchedPatterns
from engines.columns.layout import KeyOrders
from engines.columns.symbol_sets import SymbolSets, joined
from engines.columns.texts import (
    TextCodes,
    apply,
    base_attribute,
    functions_of,
)
from engines.columns.vectors import ListValues, Mask, Vector, broadcast, evaluate, truth
from engines.input.event_table import Events, is_list
from optimizer.ir import pattern as ir
from optimizer.ir.aggregates import InputColumn
from optimizer.ir.query import BoundWorkload, Construction, Query, ReturnValue
from optimizer.ir.read_columns import constant_attribute
from workloads import expressions as ex
from workloads.errors import UnsupportedError
from workloads.workload import NANOSECONDS

_UNITS = ("s", "ms", "us", "ns")
_BITS = 16  # symbols whose sets are numbered at once


class Columns:
    """What the queries of a workload read of its events, each column converted once.

    All strings share one sorted dictionary (`texts`).
    Testing events against symbols is charged to `operator`.
    """

    def __init__(
        self,
        workload: BoundWorkload,
        events: Events,
        account: Account | None = None,
        operator: str = "conditions",
    ) -> None:
        self.events = events
        self.counts: dict[ir.Symbol, int] = {}  # of instances, as far as they are known
        self.orders = KeyOrders(events)
        self._account, self._operator = account or Account(), operator
        self._wider: tuple[Columns, slice] | None = None
        self._stream = workload.stream
        self._vectors: dict[str, Vector] = {}
        self._inputs: dict[InputColumn, AggregateInput] = {}
        self._masks: dict[ir.Symbol, Mask] = {}
        self.derived: dict[object, Any] = {}  # what engines make of the columns, and read again
        self._found_sets: list[SymbolSets] = []
        static = _static(workload)
        self._named = static.symbols
        with self._account.charge(self._operator):
            self._read_texts(static)
            self._index: ConditionIndex | None = None
            if static.searched is not None:
                self._index = ConditionIndex(events, static.searched, self.texts)

    def part(self, first: int, end: int) -> Columns:
        """The same of the events from a row to before another; what is made of all is theirs."""
        if first == 0 and end == len(self.events):
            return self
        found = copy.copy(self)
        found.events = self.events.part(first, end)
        found.orders = KeyOrders(found.events, (self.orders, first))
        found._wider = (self, slice(first, end))
        found._vectors, found._masks, found.counts = {}, {}, {}
        found._inputs, found.derived = {}, {}
        return found

    def _read_texts(self, static: _Static) -> None:
        events = self.events
        names = sorted(name for name in static.names if events.has(name))
        kinds = {name: events.column(name).type for name in names}
        self._strings = strings = {n for n, kind in kinds.items() if _is_string(kind)}
        self._unit = max(
            (k.unit if pa.types.is_timestamp(k) else "s" for k in kinds.values() if _is_time(k)),
            key=_UNITS.index,
            default="s",
        )
        listed = {n for n, kind in kinds.items() if is_list(kind) and _is_string(kind.value_type)}
        chains = {node for node in static.functions if node.alias in kinds}
        # Not of `self`, which would be let go of only when cycles are looked for.
        self.texts = TextCodes(lambda: _texts_of(events, strings | listed, chains))

    def values(self, vector: Vector) -> pa.Array:
        """A computed vector as values for people: codes as strings, ticks as times."""
        mask = vector.nulls
        match vector.kind:
            case "null":
                return pa.nulls(len(vector.values))
            case "string":
                return self.texts.texts(vector.values, mask)
            case "time":
                return pa.array(vector.values, pa.int64(), mask=mask).cast(pa.timestamp(self._unit))
            case "object":
                return vector.values  # may be beyond 64 bits: written one by one
            case _:
                return pa.array(vector.values, mask=mask)

    def vector(self, name: str) -> Vector:
        """A column, in the order of the table."""
        if name not in self._vectors:
            if self._wider is not None:
                columns, rows = self._wider
                self._vectors[name] = columns.vector(name).between(rows)
            else:
                with self._account.charge(self._operator):
                    self._vectors[name] = self._convert(name)
        return self._vectors[name]

    def input(self, column: InputColumn) -> Vector:
        """A column that engines aggregate, in the order of the table."""
        return self._input(column).numbers

    def decoded(self, column: InputColumn, numbers: Vector) -> Vector:
        """The values that numbers of such a column stand for."""
        return self._input(column).decoded(numbers)

    def _input(self, column: InputColumn) -> AggregateInput:
        if column not in self._inputs:
            if self._wider is not None:
                columns, rows = self._wider
                self._inputs[column] = columns._input(column).between(rows)
            else:
                with self._account.charge(self._operator):
                    value = evaluate(column.value, lambda node: self.vector(node.name), self.texts)
                    if not value.values.ndim:
                        value = broadcast(value, len(self.events))
                    self._inputs[column] = aggregate_input(column.form, value, self.events)
        return self._inputs[column]

    def instances(self, symbol: ir.Symbol) -> Mask:
        """Which events are of a symbol's type and satisfy its predicates."""
        if self._wider is not None:
            columns, rows = self._wider
            return columns.instances(symbol)[rows]
        if symbol not in self._masks:
            with self._account.charge(self._operator):
                found = self._masks[symbol] = self._tested(symbol)
                self.counts[symbol] = int(np.count_nonzero(found))
        return self._masks[symbol]

    def instances_alone(self, symbol: ir.Symbol) -> Mask:
        """The same, testing this symbol's conditions only, where each compares a number.

        That is quicker for who reads symbols one by one than to find the sets of all symbols.
        """
        if self._wider is not None:
            columns, rows = self._wider
            return columns.instances_alone(symbol)[rows]
        if symbol in self._masks or self._index_of(symbol) is not None:
            return self.instances(symbol)
        names = [constant_attribute(p) for p in symbol.predicates]
        if any(n is None or self.is_text(n) or not self._is_number(n) for n in names):
            return self.instances(symbol)
        with self._account.charge(self._operator):
            found = self._of_type(symbol.type)
            for predicate in symbol.predicates:
                vector = evaluate(predicate, lambda node: self.vector(node.name), self.texts)
                holds = truth(vector)
                found = holds if found is None else found & holds
            if found is not None and len(found) != len(self.events):
                found = None if found.all() else np.zeros(len(self.events), bool)
            if found is None:
                found = np.ones(len(self.events), bool)
            self._masks[symbol] = found
            self.counts[symbol] = int(np.count_nonzero(found))
        return found

    def _is_number(self, name: str) -> bool:
        return self.vector(name).kind in ("int", "float", "bool")

    def _of_type(self, name: str) -> Mask | None:
        """The events of a type; None where all are."""
        if self._stream.types.get(name) == ex.Literal(True):
            return None
        symbol = ir.Symbol(name)
        if symbol not in self._masks:
            from engines.columns.symbol_pass import SymbolPass

            self._masks[symbol] = SymbolPass(self, self._stream, [symbol]).sets().instances(symbol)
            self.counts[symbol] = int(np.count_nonzero(self._masks[symbol]))
        return self._masks[symbol]

    def _tested(self, symbol: ir.Symbol) -> Mask:
        index = self._index_of(symbol)
        if index is None:
            return self._found((symbol,)).instances(symbol)
        found = np.zeros(len(self.events), bool)
        found[index.rows(symbol)] = True
        return found

    def _index_of(self, symbol: ir.Symbol) -> ConditionIndex | None:
        """The index that finds a symbol's instances; None where a pass over all events does."""
        if self._wider is not None or self._index is None or not self._index.takes(symbol):
            return None
        return self._index

    def instance_rows(self, symbol: ir.Symbol) -> npt.NDArray[np.int64]:
        """The rows of a symbol's instances, in order."""
        index = self._index_of(symbol)
        if index is None:
            return np.flatnonzero(self.instances(symbol))
        with self._account.charge(self._operator):
            found = index.rows(symbol)
            self.counts[symbol] = len(found)
        return found

    def each_instance_rows(self, symbols: Iterable[ir.Symbol]) -> list[npt.NDArray[np.int64]]:
        """The rows of the instances of each of some symbols; time is charged once for all."""
        with self._account.charge(self._operator):
            found = []
            for symbol in symbols:
                index = self._index_of(symbol)
                if index is None:
                    found.append(np.flatnonzero(self.instances(symbol)))
                else:
                    found.append(index.rows(symbol))
                    self.counts[symbol] = len(found[-1])
        return found

    def number(self, symbol: ir.Symbol) -> int:
        """How many events are instances of a symbol."""
        if symbol not in self.counts:
            if self._index_of(symbol) is not None:
                return len(self.instance_rows(symbol))
            return int(np.count_nonzero(self.instances(symbol)))
        return self.counts[symbol]

    def symbol_sets(
        self, symbols: Sequence[ir.Symbol]
    ) -> tuple[npt.NDArray[np.integer], list[frozenset[ir.Symbol]]]:
        """For each event the number of the set of symbols that it is an instance of, and the sets.

        The symbols of all queries are found together when any are first asked for.
        """
        if self._wider is not None:
            columns, rows = self._wider
            codes, sets = columns.symbol_sets(symbols)
            return codes[rows], sets
        with self._account.charge(self._operator):
            indexed = any(self._index_of(symbol) is not None for symbol in symbols)
            whole = None if indexed else self._found(symbols)
            known = None if whole is None else whole.only(symbols)
            found = known or self._numbered_sets(symbols)
            if whole is not None and known is not None:
                self.counts |= {symbol: whole.number(symbol) for symbol in symbols}
            elif any(symbol not in self.counts for symbol in symbols):
                numbers = [len(found[0])]
                if len(found[1]) != 1:  # none where there are no events
                    numbers = np.bincount(found[0], minlength=len(found[1])).tolist()
                counts = dict.fromkeys(symbols, 0)
                for has, number in zip(found[1], numbers, strict=True):
                    for symbol in has:
                        counts[symbol] += number
                self.counts |= counts
        return found

    def _found(self, symbols: Sequence[ir.Symbol]) -> SymbolSets:
        """The symbols of all events, these among them."""
        for known in self._found_sets:
            if all(symbol in known.places for symbol in symbols):
                return known
        asked: Sequence[ir.Symbol] = symbols
        if not self._found_sets:
            others = (symbol for symbol in self._named if self._index_of(symbol) is None)
            asked = list(dict.fromkeys([*others, *symbols]))
        from engines.columns.symbol_pass import SymbolPass

        try:
            made = SymbolPass(self, self._stream, asked).sets()
        except UnsupportedError:
            if asked is symbols:
                raise
            # Only who asks for the symbol that cannot be tested is to know.
            self._found_sets.append(joined((), (), len(self.events)))
            return self._found(symbols)
        self._found_sets.append(made)
        return made

    def _numbered_sets(
        self, symbols: Sequence[ir.Symbol]
    ) -> tuple[npt.NDArray[np.int64], list[frozenset[ir.Symbol]]]:
        """The same of some symbols, where all symbols together have too many sets."""
        codes = np.zeros(len(self.events), np.int64)
        meanings: list[frozenset[ir.Symbol]] = [frozenset()]
        for start in range(0, len(symbols), _BITS):
            part = symbols[start : start + _BITS]
            mask = np.zeros(len(codes), np.int64)
            for bit, symbol in enumerate(part):
                mask |= self._tested(symbol).astype(np.int64) << bit
            sets, mask = distinct(mask)
            pairs, codes = distinct(codes * len(sets) + mask)
            kinds = [frozenset(s for b, s in enumerate(part) if bits >> b & 1) for bits in sets]
            meanings = [meanings[p // len(sets)] | kinds[p % len(sets)] for p in pairs.tolist()]
        return codes, meanings

    def is_text(self, name: str) -> bool:
        """Is it a column of texts that conditions read?"""
        return name in self._strings

    def text_places(self, name: str) -> npt.NDArray[np.int64]:
        """The codes of the distinct texts of a column, in the order of its numbers."""
        return self.texts.codes(self.events.codes(name).values)

    def test(self, condition: ex.Expression) -> Mask:
        """A condition on single events, for every row of the table."""
        vector = evaluate(condition, lambda node: self.vector(node.name), self.texts)
        return np.broadcast_to(truth(vector), len(self.events))

    def _convert(self, name: str) -> Vector:
        return self._converted(name, self.events.column(name))

    def _converted(self, name: str, column: pa.ChunkedArray) -> Vector:
        kind = column.type
        nulls = None
        if column.null_count:
            nulls = np.asarray(pc.is_null(column))
        if pa.types.is_null(kind):
            return Vector("null", np.zeros(len(column), bool), nulls)
        if name in self._strings:
            return Vector("string", self._string_codes(name), nulls)
        if is_list(kind):
            return self._convert_lists(column, nulls)
        if _is_time(kind):
            target = pa.timestamp(self._unit, getattr(kind, "tz", None))
            ticks = _filled(column.cast(target).cast(pa.int64()), 0)
            return Vector("time", ticks, nulls, tick=NANOSECONDS[self._unit])
        if pa.types.is_boolean(kind):
            return Vector("bool", _filled(column, False), nulls)
        if pa.types.is_integer(kind):
            values = _filled(column.cast(pa.int64()), 0)
            bound = max(abs(int(v)) for v in (values.min(initial=0), values.max(initial=0)))
            return Vector("int", values, nulls, bound)
        if pa.types.is_floating(kind):
            return Vector("float", _filled(column, 0.0), nulls)
        raise UnsupportedError(
            f"the column '{name}' has type {kind}: its values can be returned but not compared"
        )

    def _convert_lists(self, column: pa.ChunkedArray, nulls: Mask | None) -> Vector:
        lists = column.combine_chunks().cast(pa.large_list(column.type.value_type))
        offsets = np.asarray(lists.offsets)
        if _is_string(lists.type.value_type):
            inner = lists.values
            values = Vector("string", self.texts.codes(inner), np.asarray(pc.is_null(inner)))
        else:
            values = self._converted("its lists", pa.chunked_array([lists.values]))
        starts, ends = offsets[:-1].astype(np.int64), offsets[1:].astype(np.int64)
        numbers = np.arange(len(lists))
        return Vector("list", numbers, nulls, 0, ListValues(starts, ends, values))

    def _string_codes(self, name: str) -> npt.NDArray[np.int64]:
        # The last entry is for null.
        return np.append(self.text_places(name), 1)[self.events.codes(name).numbers]


def _filled(column: pa.ChunkedArray, value: Any) -> npt.NDArray[Any]:
    """The values of a column, with one in place of null; it is copied only where there is any."""
    found = np.asarray(pc.fill_null(column, value) if column.null_count else column)
    found.flags.writeable = False  # always, as kernels are compiled for either
    return found


def distinct(
    numbers: npt.NDArray[np.int64],
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """The distinct numbers in order, and the place of each among them; quick for small ones."""
    most = int(numbers.max(initial=0))
    if most >= 1 << 20:
        return np.unique(numbers, return_inverse=True)
    present = np.zeros(most + 1, np.bool_)
    present[numbers] = True
    if present.all():
        return np.arange(most + 1), numbers
    return np.flatnonzero(present), (np.cumsum(present) - 1)[numbers]


def _is_string(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)
    )


def _texts_of(events: Events, names: set[str], chains: Iterable[FunctionChain]) -> Iterable[str]:
    """The texts that conditions can meet: those of columns, and what functions make of them."""
    for name in names:
        yield from (v for v in events.distinct(name).to_pylist() if v is not None)
    for chain in chains:
        values = events.distinct(chain.alias)
        for function in chain.functions:
            if function.name != "text" and not _is_string(values.type):
                break
            values = apply(function.name, function.constants, values)
            if _is_string(values.type):
                yield from (v for v in values.to_pylist() if v is not None)


def _is_time(kind: pa.DataType) -> bool:
    return bool(pa.types.is_timestamp(kind) or pa.types.is_date(kind))


@dataclass(frozen=True)
class _Static:
    """What is known of a workload before any event is read."""

    workload: BoundWorkload
    symbols: tuple[ir.Symbol, ...]
    searched: SearchedPatterns | None  # where conditions speak of texts
    names: frozenset[str]
    functions: frozenset[FunctionChain]


_KNOWN: dict[int, _Static] = {}  # by the workload's identity: to compare workloads takes longer
_MOST_KNOWN = 8


def _static(workload: BoundWorkload) -> _Static:
    known = _KNOWN.get(id(workload))
    if known is None or known.workload is not workload:
        symbols = tuple({e.symbol: 0 for q in workload.queries for e in ir.events(q.pattern)})
        types = (condition for condition in workload.stream.types.values() if condition is not None)
        predicates = (each for symbol in symbols for each in symbol.predicates)
        searched = None
        if ex.speak_of_texts((*types, *predicates)):
            searched = SearchedPatterns(workload.stream, symbols)
        known = _Static(
            workload,
            symbols,
            searched,
            frozenset(_read_names(workload)),
            frozenset(_read_functions(workload)),
        )
        while len(_KNOWN) >= _MOST_KNOWN:
            _KNOWN.pop(next(iter(_KNOWN)), None)
        _KNOWN[id(workload)] = known
    return known


def _read_names(workload: BoundWorkload) -> set[str]:
    """The attributes that any expression of a workload reads."""
    return {name for expression in _all_expressions(workload) for name in ex.attributes(expression)}


def _all_expressions(workload: BoundWorkload) -> Iterable[ex.Expression]:
    yield from (c for c in workload.stream.types.values() if c is not None)
    for query in workload.queries:
        yield from _expressions(query)


@dataclass(frozen=True)
class FunctionChain:
    """Functions of an attribute's values, one of the other; `alias` is the attribute's name."""

    alias: str
    functions: tuple[ex.Function, ...]


def _read_functions(workload: BoundWorkload) -> set[FunctionChain]:
    found: set[FunctionChain] = set()
    for expression in _all_expressions(workload):
        for node in ex.walk(expression):
            base = base_attribute(node) if isinstance(node, ex.Function) else None
            if base is not None:
                bare = (ex.Function(f.name, _NOTHING, f.constants) for f in functions_of(node))
                found.add(FunctionChain(base.name, tuple(bare)))
    return found


_NOTHING = ex.Literal(None)


def _expressions(query: Query) -> Iterable[ex.Expression]:
    yield from query.conditions
    for event in ir.events(query.pattern):
        yield from event.symbol.predicates
    if isinstance(query.output, Construction):
        yield from (i.value for i in query.output.items if isinstance(i, ReturnValue))
    else:
        yield from (i.operand for i in query.output.items if i.operand is not None)
        if query.output.having is not None:
            yield query.output.having
