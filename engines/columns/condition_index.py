"""Conditions on texts of many symbols, each atomic one tested once on each distinct value.

A condition on one attribute is a table over the attribute's distinct values. Of texts that
conditions contain, begin with, end with or equal, one search over all values of the attribute
finds all (`pattern_search`); other patterns are tested when they are needed, on those values that
are left. A symbol looks first where its rarest condition holds: most look nowhere.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from engines.columns.condition_tables import Atom, Codes, Rows, Scope
from engines.columns.pattern_search import PatternPlaces, is_long
from engines.columns.texts import TextCodes, apply, hold, pair_holds
from engines.columns.vectors import Mask, Vector, evaluate, truth
from engines.input.event_table import Events
from optimizer.ir.pattern import Symbol
from workloads import expressions as ex
from workloads.workload import Stream

_SEARCHED = ("CONTAINS", "STARTS WITH", "ENDS WITH")
_WILD = re.compile("[%_]")


@dataclass(frozen=True, slots=True)
class Reading:
    """A text made of an attribute by functions, the innermost first."""

    name: str
    functions: tuple[tuple[str, tuple[int, ...]], ...] = ()


def reading_of(operand: ex.Expression) -> Reading | None:
    """The attribute and the functions that a value is made of; None for any other value."""
    functions: list[tuple[str, tuple[int, ...]]] = []
    while isinstance(operand, ex.Function):
        functions.append((operand.name, operand.constants))
        operand = operand.operand
    if not isinstance(operand, ex.Attribute):
        return None
    return Reading(operand.name, tuple(functions[::-1]))


@dataclass(frozen=True, slots=True)
class _Asked:
    """What a symbol asks for: conditions, of which attributes, and whether texts are tested."""

    conditions: tuple[ex.Expression, ...]  # interned: equal parts are one object
    names: frozenset[str]  # without those that are only asked to be null or not
    of_texts: bool


class SearchedPatterns:
    """What the conditions of a workload look for in texts, by what the texts are made of.

    It is made once for a workload, and read for each slice of events.
    """

    def __init__(self, stream: Stream, symbols: Iterable[Symbol]) -> None:
        self._stream = stream
        self._asked: dict[Symbol, _Asked] = {}
        self._types: dict[str, ex.Expression] = {}
        self._interned: dict[ex.Expression, ex.Expression] = {}
        self._names: dict[int, str | None] = {}
        found: dict[Reading, dict[str, None]] = {}
        types = (condition for condition in stream.types.values() if condition is not None)
        conditions = (*types, *(each for symbol in symbols for each in symbol.predicates))
        for condition in conditions:
            for node in ex.walk(condition):
                operand, patterns = _searched(node)
                reading = None if operand is None else reading_of(operand)
                if reading is not None:
                    found.setdefault(reading, {}).update(dict.fromkeys(patterns))
                if isinstance(node, ex.TextTest) and (pieces := _pieces(node)):
                    reading = reading_of(node.operand)
                    if reading is not None:
                        needed = dict.fromkeys(piece for part in pieces for piece in part)
                        found.setdefault(reading, {}).update(needed)
        self.by_reading: Mapping[Reading, tuple[str, ...]] = {
            reading: tuple(patterns) for reading, patterns in found.items()
        }

    def asked(self, symbol: Symbol) -> _Asked:
        """The conditions of a symbol, without that of its type; names are those of both."""
        known = self._asked.get(symbol)
        if known is None:
            parts = tuple(
                self._one(part) for each in symbol.predicates for part in ex.conjuncts(each)
            )
            every = (*parts, self.type_condition(symbol.type))
            names = frozenset(name for each in every for name in _compared(each))
            known = self._asked[symbol] = _Asked(parts, names, ex.speak_of_texts(every))
        return known

    def _one(self, condition: ex.Expression) -> ex.Expression:
        """An equal condition that is always the same object, down to the atomic ones.

        Slices of events know what they found by the identity of conditions: to compare these takes
        longer than to test most of them.
        """
        match condition:
            case ex.Logical(operator, parts, span):
                return ex.Logical(operator, tuple(map(self._one, parts)), span)
            case ex.Not(operand, span):
                return ex.Not(self._one(operand), span)
            case _:
                return self._interned.setdefault(condition, condition)

    def attribute(self, condition: ex.Expression) -> str | None:
        """The one attribute that an atomic condition, as `asked` gives it, speaks of."""
        key = id(condition)
        if key not in self._names:
            names = ex.attributes(condition)
            self._names[key] = next(iter(names)) if len(names) == 1 else None
        return self._names[key]

    def type_condition(self, name: str) -> ex.Expression:
        """What makes an event one of a type, as a condition."""
        if name not in self._types:
            self._types[name] = self._one(self._type_condition(name))
        return self._types[name]

    def _type_condition(self, name: str) -> ex.Expression:
        condition = self._stream.types.get(name)
        if self._stream.type is None:
            return ex.Literal(False) if condition is None else condition
        named = ex.Comparison("=", ex.Attribute("", self._stream.type), ex.Literal(name))
        return named if condition is None else ex.Logical("OR", (named, condition))


def _compared(condition: ex.Expression) -> Iterator[str]:
    """The attributes whose values a condition asks for."""
    match condition:
        case ex.IsNull(ex.Attribute()):
            return
        case ex.Attribute(_, name):
            yield name
        case _:
            for part in ex.children(condition):
                yield from _compared(part)


def _searched(node: ex.Expression) -> tuple[ex.Expression | None, list[str]]:
    match node:
        case ex.TextTest(operator, operand, patterns) if operator in _SEARCHED:
            values = [p.value for p in patterns if isinstance(p, ex.Literal)]
        case ex.Comparison("=" | "!=", operand, ex.Literal(value)):
            values = [value]
        case ex.Membership(operand, listed):
            values = [literal.value for literal in listed]
        case _:
            return None, []
    return operand, [value for value in values if isinstance(value, str)]


def _pieces(test: ex.TextTest) -> list[list[str]]:
    """For each pattern of a LIKE what a text must contain to fit it; none where one says nothing.

    Pieces between wildcards are found by the search for all patterns, and the test itself is
    left for the few texts that have them.
    """
    if test.operator != "LIKE" or test.negated:
        return []
    found = []
    for pattern in test.patterns:
        if not isinstance(pattern, ex.Literal) or not isinstance(pattern.value, str):
            return []
        pieces = [piece for piece in _WILD.split(pattern.value) if is_long(piece)]
        if not pieces:
            return []
        found.append(pieces)
    return found


class ConditionIndex:
    """Which of some events are instances of symbols whose conditions speak of texts."""

    def __init__(self, events: Events, searched: SearchedPatterns, codes: TextCodes) -> None:
        self._events, self._searched = events, searched
        self._text_codes = codes
        self._texts: dict[Reading, pa.Array] = {}
        self._places: dict[Reading, PatternPlaces] = {}
        self._atoms: dict[int, Atom] = {}  # by the identity of conditions
        self._absent: dict[Reading, Mask] = {}
        self._scopes: dict[str, Scope] = {}
        self._plain: dict[str, bool] = {}

    def takes(self, symbol: Symbol) -> bool:
        """Can it tell the instances of a symbol?"""
        asked = self._searched.asked(symbol)
        return asked.of_texts and all(map(self._is_plain, asked.names))

    def _is_plain(self, name: str) -> bool:
        known = self._plain.get(name)
        if known is None:
            known = self._plain[name] = _is_plain(self._events.column(name).type)
        return known

    def rows(self, symbol: Symbol) -> Rows:
        """The rows of a symbol's instances, in order."""
        scope = self._scope(symbol.type)
        conditions = self._searched.asked(symbol).conditions
        if not len(scope.rows) or not conditions:
            return scope.rows
        bounds = [self._most(part, scope) for part in conditions]
        if not min(bounds):
            return scope.rows[:0]
        picked: Rows | None = None
        for place in np.argsort(bounds, kind="stable").tolist():
            holds = self._test(conditions[place], scope, picked)
            picked = np.flatnonzero(holds) if picked is None else picked[holds]
            if not len(picked):
                break
        assert picked is not None
        return scope.rows[picked]

    def _scope(self, name: str) -> Scope:
        """The events of a type."""
        if name not in self._scopes:
            every = Scope(np.arange(len(self._events)), self._events)
            condition = self._searched.type_condition(name)
            rows = np.flatnonzero(self._test(condition, every, None))
            self._scopes[name] = Scope(rows, self._events)
        return self._scopes[name]

    # --- conditions -------------------------------------------------------------------------------

    def _most(self, condition: ex.Expression, scope: Scope) -> int:
        """At how many events of a scope a condition can hold; no fewer than those where it does."""
        size = len(scope.rows)
        match condition:
            case ex.Logical("AND", parts):
                return min(self._most(part, scope) for part in parts)
            case ex.Logical(_, parts):
                total = 0
                for part in parts:
                    total += self._most(part, scope)
                    if total >= size:
                        return size
                return total
            case ex.IsNull(ex.Attribute(_, name), negated):
                nulls = scope.nulls(name)
                return size - nulls if negated else nulls
            case ex.Not() | ex.Literal():
                return size
            case _:
                atom = self._atom(condition)
                return size if atom is None else atom.most(scope)

    def _test(self, condition: ex.Expression, scope: Scope, picked: Rows | None) -> Mask:
        """Where a condition holds, of the events of a scope or of some of them."""
        size = len(scope.rows) if picked is None else len(picked)
        match condition:
            case ex.Literal(value):
                return np.full(size, value is True)
            case ex.Not(operand):
                return ~self._test(operand, scope, picked)
            case ex.IsNull(ex.Attribute(_, name), negated):
                nulls = scope.is_null(name, picked)
                return ~nulls if negated else nulls.copy()
            case ex.Logical(operator, parts):
                # Each part only where those before it leave the answer open.
                open_ = operator == "AND"
                found = self._test(parts[0], scope, picked)
                for part in parts[1:]:
                    left = np.flatnonzero(found == open_)
                    if not len(left):
                        break
                    inner = left if picked is None else picked[left]
                    found[left] = self._test(part, scope, inner)
                return found
            case _:
                atom = self._atom(condition)
                if atom is None:
                    return self._compared_fields(condition, scope, picked)
                return atom.test(scope.codes(atom.name, picked))

    def _atom(self, condition: ex.Expression) -> Atom | None:
        """The table of a condition on one attribute; None where it speaks of several."""
        key = id(condition)
        if key not in self._atoms:
            name = self._searched.attribute(condition)
            if name is None:
                return None
            self._atoms[key] = self._made(condition, name)
        return self._atoms[key]

    def _made(self, condition: ex.Expression, name: str) -> Atom:
        size = len(self._events.codes(name).values)
        atom = Atom(name, size)
        patterns = _searched(condition)[1]
        reading = _tested(condition)
        texts = None if reading is None else self._distinct(reading)
        if reading is None or texts is None:
            atom.fill(self._evaluated(condition, lambda: self._vector(name), size))
            return atom
        if isinstance(condition, ex.IsNull):
            absent = np.append(np.asarray(pc.is_null(texts)), True)
            atom.fill(absent != condition.negated)
            return atom
        if not pa.types.is_large_string(texts.type):
            plain = _of_value(condition)
            atom.fill(self._evaluated(plain, lambda: _numbers(texts, self._text_codes), size))
            return atom
        match condition:
            case ex.TextTest(operator, _, given, every, negated) if operator in _SEARCHED and (
                len(patterns) == len(given)
            ):
                found = [self._having(reading, operator, pattern) for pattern in patterns]
                atom.fill_having(found, every, self._absent_if(negated, reading))
            case ex.Comparison(operator, _, ex.Literal(str())) if operator in ("=", "!="):
                found = [self._having(reading, "=", patterns[0])]
                atom.fill_having(found, False, self._absent_if(operator == "!=", reading))
            case ex.Membership(_, given, negated) if len(patterns) == len(given):
                found = [self._having(reading, "=", pattern) for pattern in patterns]
                atom.fill_having(found, False, self._absent_if(negated, reading))
            case ex.TextTest() if pieces := _pieces(condition):
                fit = [
                    self._fitting(reading, replace(condition, patterns=(pattern,)), needed)
                    for pattern, needed in zip(condition.patterns, pieces, strict=True)
                ]
                atom.fill_having(fit, condition.every, None)
            case ex.TextTest():
                test, distinct = condition, texts
                atom.later = lambda numbers: hold(
                    test,
                    distinct if len(numbers) == len(distinct) else distinct.take(pa.array(numbers)),
                )
            case _:
                atom.fill(self._evaluated(condition, lambda: self._vector(name), size))
        return atom

    def _absent_if(self, negated: bool, reading: Reading) -> Mask | None:
        """Which values are null, where a condition is negated: it does not hold for these."""
        if not negated:
            return None
        if reading not in self._absent:
            self._absent[reading] = np.asarray(pc.is_null(self._distinct(reading)))
        return self._absent[reading]

    def _fitting(self, reading: Reading, test: ex.TextTest, pieces: Sequence[str]) -> Rows:
        """The values that fit a test, of those that contain all of some texts."""
        found = self._having(reading, "CONTAINS", pieces[0])
        for piece in pieces[1:]:
            if not len(found):
                break
            other = self._having(reading, "CONTAINS", piece)
            found = np.intersect1d(found, other, assume_unique=True)
        if not len(found):
            return found
        texts = self._distinct(reading)
        some = texts if len(found) == len(texts) else texts.take(pa.array(found))
        return found[hold(test, some)]

    def _having(self, reading: Reading, operator: str, pattern: str) -> Rows:
        if reading not in self._places:
            patterns = self._searched.by_reading.get(reading, ())
            texts = self._distinct(reading)
            self._places[reading] = PatternPlaces(texts, [p for p in patterns if p])
        return self._places[reading].having(operator, pattern)

    def _distinct(self, reading: Reading) -> pa.Array:
        """The distinct values of an attribute after some functions; texts are large ones."""
        if reading not in self._texts:
            if reading.functions:
                values = self._distinct(Reading(reading.name, reading.functions[:-1]))
                name, constants = reading.functions[-1]
                if not _is_text(values) and name not in ("text", "number"):
                    values = pa.nulls(len(values))
                values = apply(name, constants, values)
            else:
                values = self._events.codes(reading.name).values
                if pa.types.is_null(values.type):
                    values = values.cast(pa.large_string())
            self._texts[reading] = values.cast(pa.large_string()) if _is_text(values) else values
        return self._texts[reading]

    def _evaluated(self, condition: ex.Expression, vector: Callable[[], Vector], size: int) -> Mask:
        """A condition on each distinct value of an attribute, and on null."""
        found = truth(evaluate(condition, lambda node: vector(), self._text_codes))
        return np.broadcast_to(found, size + 1)

    def _vector(self, name: str) -> Vector:
        """The distinct values of an attribute, and null behind them."""
        return _numbers(self._events.codes(name).values, self._text_codes)

    def _compared_fields(self, condition: ex.Expression, scope: Scope, picked: Rows | None) -> Mask:
        """A condition on several attributes: once for each combination of values that there is."""
        names = sorted(ex.attributes(condition))
        if not names:
            found = truth(evaluate(condition, lambda node: self._vector(node.name), _NO_TEXTS))
            return np.broadcast_to(found, len(scope.rows) if picked is None else len(picked)).copy()
        codes = np.stack([scope.codes(name, picked) for name in names], 1)
        combinations, numbers = np.unique(codes, axis=0, return_inverse=True)
        by_name = {name: combinations[:, place] for place, name in enumerate(names)}
        compared = self._texts_compared(condition, by_name)
        if compared is None:
            compared = truth(
                evaluate(
                    condition,
                    lambda node: self._vector(node.name).take(by_name[node.name].astype(np.int64)),
                    self._text_codes,
                )
            )
        return np.asarray(compared)[numbers.reshape(-1)]

    def _texts_compared(
        self, condition: ex.Expression, by_name: Mapping[str, Codes]
    ) -> Mask | None:
        """Equality of two texts, or one inside the other; None for any other condition."""
        match condition:
            case ex.Comparison("=", left, right):
                operator = "="
            case ex.TextTest(operator, left, (right,), _, False) if operator in _SEARCHED:
                pass
            case _:
                return None
        sides = []
        for side in (left, right):
            reading = reading_of(side)
            texts = None if reading is None else self._distinct(reading)
            if reading is None or texts is None or not pa.types.is_large_string(texts.type):
                return None
            numbers = by_name[reading.name]
            sides.append(texts.take(pa.array(numbers, pa.int64(), mask=numbers < 0)).to_pylist())
        return np.array(
            [
                a is not None
                and b is not None
                and (a == b if operator == "=" else pair_holds(operator, a, b))
                for a, b in zip(*sides, strict=True)
            ],
            bool,
        )


_NO_TEXTS = TextCodes(lambda: ())


def _numbers(values: pa.Array, codes: TextCodes) -> Vector:
    """Values, and null behind them."""
    nulls = np.append(np.asarray(pc.is_null(values)), True)
    if pa.types.is_null(values.type):
        return Vector("null", np.zeros(len(nulls), bool), nulls)
    if _is_text(values):
        return Vector("string", np.append(codes.codes(values), 1), nulls)
    if pa.types.is_boolean(values.type):
        return Vector("bool", np.append(np.asarray(pc.fill_null(values, False)), False), nulls)
    if pa.types.is_floating(values.type):
        real = np.asarray(pc.fill_null(values.cast(pa.float64()), 0.0))
        return Vector("float", np.append(real, 0.0), nulls)
    whole = np.append(np.asarray(pc.fill_null(values.cast(pa.int64()), 0)), 0)
    bound = max(abs(int(v)) for v in (whole.min(initial=0), whole.max(initial=0)))
    return Vector("int", whole, nulls, bound)


def _tested(condition: ex.Expression) -> Reading | None:
    """What a condition tests, where that is made of an attribute by functions or is a text."""
    match condition:
        case ex.TextTest(_, operand) | ex.Membership(operand) | ex.IsNull(operand):
            return reading_of(operand)
        case ex.Comparison(_, operand, ex.Literal()):
            return reading_of(operand)
        case _:
            return None


def _of_value(condition: ex.Expression) -> ex.Expression:
    """The condition with an attribute in place of what it tests."""
    value = ex.Attribute("", "value")
    match condition:
        case ex.Comparison(operator, _, right):
            return ex.Comparison(operator, value, right)
        case ex.Membership(_, values, negated):
            return ex.Membership(value, values, negated)
        case ex.TextTest(test, _, patterns, every, negated):
            return ex.TextTest(test, value, patterns, every, negated)
        case _:
            raise AssertionError(f"no test of one value: {condition}")


def _is_plain(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_string(kind)
        or pa.types.is_large_string(kind)
        or pa.types.is_integer(kind)
        or pa.types.is_boolean(kind)
        or pa.types.is_floating(kind)
        or pa.types.is_null(kind)
    )


def _is_text(values: pa.Array) -> bool:
    return bool(pa.types.is_string(values.type) or pa.types.is_large_string(values.type))
