"""What every event that a workload looks at has in common, as a filter for the scan.

Only what must hold is taken, and only where Spark, Arrow and the engine agree on it to the letter:
a text that equals one of some, a number that is compared with one. So the filter may let events
pass that no query looks at, but never leaves out one that some query does.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as at

from optimizer.ir.pattern import Symbol, events
from optimizer.ir.produced import queries_of_stream
from optimizer.ir.query import Query, is_funnel
from workloads import expressions as ex
from workloads.workload import Stream

if TYPE_CHECKING:
    from pyspark.sql import Column

_SAFE = 2**53  # integers up to here are the same as doubles
_MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "="}
MAX_ALTERNATIVES = 64  # alternatives: testing more would take longer than carrying the events on


@dataclass(frozen=True, order=True)
class ColumnTest:
    """A column is one of some texts (`in`), or compares with a number."""

    column: str
    operator: str
    texts: tuple[str, ...] = ()
    number: float = 0


Tests = frozenset[ColumnTest]  # all of them hold


@dataclass(frozen=True)
class PushedFilter:
    """All tests of one of the alternatives hold."""

    alternatives: tuple[Tests, ...]

    def column(self, places: dict[str, str]) -> Column:
        """For Spark, where the columns are called as `places` says."""
        from pyspark.sql import functions as sf

        def test(one: ColumnTest) -> Column:
            column = sf.col(places[one.column])
            if one.operator == "in":
                return column.isin(*one.texts)
            number = sf.lit(one.number)
            compared = {
                "=": column == number,
                "<": column < number,
                "<=": column <= number,
                ">": column > number,
                ">=": column >= number,
            }
            return compared[one.operator]

        alternatives = (
            reduce(lambda a, b: a & b, map(test, sorted(tests))) for tests in self.alternatives
        )
        return reduce(lambda a, b: a | b, alternatives)

    def mask(self, table: pa.Table) -> npt.NDArray[np.bool_]:
        """Which rows of a table pass."""

        def test(one: ColumnTest) -> pa.ChunkedArray:
            column = table.column(one.column)
            if one.operator == "in":
                return pc.is_in(column, pa.array(one.texts, column.type))
            return pc.call_function(_FUNCTIONS[one.operator], [column, pa.scalar(one.number)])

        alternatives = (reduce(pc.and_kleene, map(test, sorted(a))) for a in self.alternatives)
        return np.asarray(pc.fill_null(reduce(pc.or_kleene, alternatives), False))


_FUNCTIONS = {
    "=": "equal",
    "<": "less",
    "<=": "less_equal",
    ">": "greater",
    ">=": "greater_equal",
}


def filter_for(queries: Iterable[Query], stream: Stream, schema: pa.Schema) -> PushedFilter | None:
    """What passes for some query; None where that may be any event.

    A window counted in events counts those that nothing else looks at too, and a funnel has a level
    for every key.
    """
    wanted = queries_of_stream(queries)
    if not wanted or any(q.window.is_count or q.has_own_clock or is_funnel(q) for q in wanted):
        return None
    symbols = {event.symbol for query in wanted for event in events(query.pattern)}
    found = {tests for symbol in symbols for tests in _necessary_for(symbol, stream, schema)}
    if not all(found):
        return None
    merged = _merged(found)
    return PushedFilter(merged) if len(merged) <= MAX_ALTERNATIVES else None


def filter_of(symbol: Symbol, stream: Stream, schema: pa.Schema) -> PushedFilter | None:
    """What every event of a symbol passes; None where that may be any."""
    found = set(_necessary_for(symbol, stream, schema))
    if not found or not all(found) or len(found) > MAX_ALTERNATIVES:
        return None
    return PushedFilter(tuple(sorted(found, key=sorted)))


def _merged(found: set[Tests]) -> tuple[Tests, ...]:
    """The same, with alternatives that differ in the texts of one column as one."""
    alone: dict[str, set[str]] = {}
    rest: set[Tests] = set()
    for tests in found:
        if len(tests) == 1 and (one := next(iter(tests))).operator == "in":
            alone.setdefault(one.column, set()).update(one.texts)
        else:
            rest.add(tests)
    # What passes by its text alone needs no other test.
    rest = {
        tests
        for tests in rest
        if not any(t.operator == "in" and set(t.texts) <= alone.get(t.column, set()) for t in tests)
    }
    texts = (frozenset({ColumnTest(c, "in", tuple(sorted(t)))}) for c, t in sorted(alone.items()))
    return (*texts, *sorted(rest, key=sorted))


def _necessary_for(symbol: Symbol, stream: Stream, schema: pa.Schema) -> Iterator[Tests]:
    """For each way to be an instance: by the type column, and by the condition of the type."""
    local = frozenset[ColumnTest]().union(*(_necessary(p, schema) for p in symbol.predicates))
    if stream.type is not None:
        is_text = _is_text(schema, stream.type)
        yield local | ({ColumnTest(stream.type, "in", (symbol.type,))} if is_text else set())
    condition = stream.types.get(symbol.type)
    if condition is not None:
        yield local | _necessary(condition, schema)


def _necessary(expression: ex.Expression, schema: pa.Schema) -> Tests:
    match expression:
        case ex.Logical("AND", parts):
            return frozenset[ColumnTest]().union(*(_necessary(part, schema) for part in parts))
        case ex.Comparison(operator, ex.Attribute() as attribute, ex.Literal(value)):
            return _comparison(attribute.name, operator, value, schema)
        case ex.Comparison(operator, ex.Literal(value), ex.Attribute() as attribute):
            return _comparison(attribute.name, _MIRRORED.get(operator, ""), value, schema)
        case ex.Membership(ex.Attribute() as attribute, literals, False):
            values = [part.value if isinstance(part, ex.Literal) else None for part in literals]
            texts = [value for value in values if isinstance(value, str)]
            if len(texts) == len(values) and texts and _is_text(schema, attribute.name):
                return frozenset({ColumnTest(attribute.name, "in", tuple(sorted(set(texts))))})
    return frozenset()


def _comparison(name: str, operator: str, value: ex.Value, schema: pa.Schema) -> Tests:
    if name not in schema.names:
        return frozenset()
    kind = schema.field(name).type
    if isinstance(value, str):
        is_safe = operator == "=" and _is_text(schema, name)
        return frozenset({ColumnTest(name, "in", (value,))}) if is_safe else frozenset()
    if value is None or isinstance(value, bool) or operator not in _MIRRORED:
        return frozenset()
    # Of integers and doubles, Spark and the engine might round one to the other differently.
    whole = isinstance(value, int) and at.is_signed_integer(kind)
    real = abs(value) < _SAFE and (at.is_float64(kind) or at.is_float32(kind))
    if whole and abs(value) < _SAFE:
        return frozenset({ColumnTest(name, operator, number=value)})
    return frozenset({ColumnTest(name, operator, number=float(value))}) if real else frozenset()


def _is_text(schema: pa.Schema, name: str) -> bool:
    if name not in schema.names:
        return False
    kind = schema.field(name).type
    return bool(at.is_string(kind) or at.is_large_string(kind))
