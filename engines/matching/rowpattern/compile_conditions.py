"""DEFINE's conditions that read the match so far, as programs for the kernel.

What the kernel has no instruction for, or no exact number, is left to the search that asks value by
value: `condition_code` gives None then.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from engines.matching.rowpattern.conditions import SplitCondition, is_of_row
from engines.matching.rowpattern.ordered_table import OrderedTable, plain_kind
from engines.sql.columns import column
from kernels.rowconditions import cpu
from kernels.rowconditions.cpu import ConditionCode
from optimizer.ir.recognition import Recognition
from workloads.errors import UnsupportedError
from workloads.sql import expressions as ex

_EXACT = 2**53  # whole numbers below are doubles
_PAIRS = {
    "+": cpu.ADD,
    "-": cpu.SUBTRACT,
    "*": cpu.MULTIPLY,
    "=": cpu.EQUAL,
    "<>": cpu.UNEQUAL,
    "<": cpu.LESS,
    "<=": cpu.LESS_EQUAL,
    ">": cpu.GREATER,
    ">=": cpu.GREATER_EQUAL,
}
_TOTALS = {"SUM": cpu.SUM, "AVG": cpu.SUM, "MIN": cpu.LEAST, "MAX": cpu.GREATEST}


class _NoCodeError(Exception):
    """What the kernel cannot ask."""


@dataclass(frozen=True)
class _Kind:
    """What a value is: a number, a text, a truth value or null; of whole numbers, how large."""

    name: str
    whole: int | None = None

    def __post_init__(self) -> None:
        if self.whole is not None and self.whole >= _EXACT:
            raise _NoCodeError


_NUMBER, _TEXT, _TRUTH, _NULL = _Kind("number"), _Kind("text"), _Kind("truth"), _Kind("null")


def condition_code(
    table: OrderedTable,
    clause: Recognition,
    names: Sequence[str],
    conditions: Sequence[SplitCondition],
) -> ConditionCode | None:
    """The conditions' parts that depend on the match; None where a part has no code."""
    made = _Program(table, clause, names)
    begins = [0]
    try:
        for condition in conditions:
            for place, part in enumerate(condition.by_match):
                if made.add(part).name not in ("truth", "null"):
                    return None
                if place:
                    made.emit(cpu.AND)
            begins.append(len(made.operation))
        return made.code(begins)
    except (_NoCodeError, UnsupportedError):  # what no row may ever ask for is no error
        return None


@dataclass
class _Program:
    table: OrderedTable
    clause: Recognition
    names: Sequence[str]
    operation: list[int] = field(default_factory=list)
    first: list[int] = field(default_factory=list)
    second: list[int] = field(default_factory=list)
    constants: list[float | str] = field(default_factory=list)
    columns: list[pa.Array] = field(default_factory=list)
    kinds: list[_Kind] = field(default_factory=list)
    places: dict[object, int] = field(default_factory=dict)
    pointers: list[tuple[int, int, int, int]] = field(default_factory=list)
    sets: list[frozenset[str]] = field(default_factory=list)
    totals: list[tuple[int, int, int]] = field(default_factory=list)

    def emit(self, operation: int, first: int = 0, second: int = 0) -> None:
        self.operation.append(operation)
        self.first.append(first)
        self.second.append(second)

    def add(self, node: ex.Expression) -> _Kind:
        """The instructions of an expression."""
        if is_of_row(node) and any(isinstance(part, ex.RowValue) for part in ex.walk(node)):
            place = self._column(node, column(node, self.table.own, len(self.table)))
            self.emit(cpu.COLUMN, place)
            return self.kinds[place]
        match node:
            case ex.Literal(constant):
                return self._constant(constant)
            case ex.RowValue(pointer, name):
                place = self._column(name, self.table.column(name))
                self.emit(cpu.ROW, place, self._pointer(pointer))
                return self.kinds[place]
            case ex.Classifier(pointer):
                self.emit(cpu.LABEL, 0, self._pointer(pointer))
                return _TEXT
            case ex.MatchNumber():
                self.emit(cpu.NUMBER)
                return _Kind("number", len(self.table) + 1)
            case ex.Aggregated():
                return self._aggregated(node)
            case ex.Unary(operator, operand):
                kind = self.add(operand)
                negates = operator != "NOT"
                _require(kind, "number" if negates else "truth")
                self.emit(cpu.NEGATE if negates else cpu.NOT)
                return kind
            case ex.IsNull(operand):
                self.add(operand)
                self.emit(cpu.IS_NULL)
                return _TRUTH
            case ex.InList(operand, items):
                for place, item in enumerate(items):
                    self.add(ex.Binary("=", operand, item))
                    if place:
                        self.emit(cpu.OR)
                return _TRUTH
            case ex.Binary(operator, left, right):
                return self._binary(operator, self.add(left), self.add(right))
            case _:
                raise _NoCodeError

    def _binary(self, operator: str, left: _Kind, right: _Kind) -> _Kind:
        if operator in ("AND", "OR"):
            _require(left, "truth")
            _require(right, "truth")
            self.emit(cpu.AND if operator == "AND" else cpu.OR)
            return _TRUTH
        if operator in ex.COMPARISONS:
            if "null" not in (left.name, right.name):
                _require(left, right.name)
            self.emit(_PAIRS[operator])
            return _TRUTH
        _require(left, "number")
        _require(right, "number")
        whole = left.whole is not None and right.whole is not None
        a, b = left.whole or 0, right.whole or 0
        match operator:
            case "+" | "-" | "*":
                self.emit(_PAIRS[operator])
                return _Kind("number", (a * b if operator == "*" else a + b) if whole else None)
            case "/":
                self.emit(cpu.DIVIDE_WHOLE if whole else cpu.DIVIDE)
                return _Kind("number", a if whole else None)
            case "%":
                self.emit(cpu.REST)
                return _Kind("number", a if whole else None)
            case _:
                raise _NoCodeError

    def _constant(self, constant: Any) -> _Kind:
        if constant is None:
            self.emit(cpu.NULL)
            return _NULL
        self.emit(cpu.CONSTANT, len(self.constants))
        if isinstance(constant, str):
            self.constants.append(constant)
            return _TEXT
        kind = _NUMBER
        if isinstance(constant, bool):
            kind = _TRUTH
        elif isinstance(constant, int):
            kind = _Kind("number", abs(constant))
        self.constants.append(float(constant))
        return kind

    def _column(self, key: object, values: pa.Array) -> int:
        if key not in self.places:
            values = plain_kind(values)
            self.places[key] = len(self.columns)
            self.columns.append(values)
            self.kinds.append(_kind_of(values))
        return self.places[key]

    def _set(self, variable: str | None) -> int:
        members = self.clause.variables_of(variable) or frozenset(self.names)
        if members not in self.sets:
            self.sets.append(members)
        return self.sets.index(members)

    def _pointer(self, pointer: ex.Pointer) -> int:
        place = self._set(pointer.variable)
        self.pointers.append((place, int(pointer.from_first), pointer.logical, pointer.physical))
        return len(self.pointers) - 1

    def _aggregated(self, node: ex.Aggregated) -> _Kind:
        place, number = self._set(node.variable), _Kind("number", len(self.table) + 1)
        if node.argument is None:
            self.emit(cpu.COUNT, place)
            return number
        named = any(isinstance(n, ex.Own) and n.column is None for n in ex.walk(node.argument))
        numbered = any(isinstance(n, ex.MatchNumber) for n in ex.walk(node.argument))
        if node.function not in (*_TOTALS, "COUNT") or node.distinct or named or numbered:
            raise _NoCodeError
        values = column(node.argument, self.table.own, len(self.table))
        at = self._column(("of", node.argument), values)
        kind = self.kinds[at]
        self.totals.append((place, at, _TOTALS.get(node.function, cpu.SUM)))
        total = len(self.totals) - 1
        if node.function == "COUNT":
            self.emit(cpu.COUNTED, total)
            return number
        if pa.types.is_floating(self.columns[at].type) and not _is_finite(self.columns[at]):
            raise _NoCodeError
        if node.function in ("MIN", "MAX"):
            self.emit(cpu.TOTAL, total)
            return kind
        _require(kind, "number")
        whole = None if kind.whole is None else kind.whole * max(1, len(self.table))
        summed = _Kind("number", whole)
        self.emit(cpu.TOTAL if node.function == "SUM" else cpu.MEAN, total)
        return summed if node.function == "SUM" else _NUMBER

    def code(self, begins: Sequence[int]) -> ConditionCode:
        """The program as arrays; texts become numbers that are in order as the texts are."""
        texts = {*self.names, *(one for one in self.constants if isinstance(one, str))}
        for values in self.columns:
            if pa.types.is_string(values.type):
                texts.update(one for one in values.unique().to_pylist() if one is not None)
        ranks = {text: float(place) for place, text in enumerate(sorted(texts))}
        size = len(self.table)
        values_of = np.zeros((max(1, len(self.columns)), size))
        nulls = np.zeros(values_of.shape, np.bool_)
        for place, values in enumerate(self.columns):
            nulls[place] = np.asarray(values.is_null())
            values_of[place] = _numbers(values, ranks)
        constants = [ranks[one] if isinstance(one, str) else one for one in self.constants]
        members = [[name in members for name in self.names] for members in self.sets]
        return ConditionCode(
            np.array(begins, np.int64),
            np.array(self.operation, np.int64),
            np.array(self.first, np.int64),
            np.array(self.second, np.int64),
            np.array(constants, np.float64),
            values_of,
            nulls,
            np.array(self.pointers, np.int64).reshape(-1, 4),
            np.array(members, np.bool_).reshape(-1, max(1, len(self.names))),
            np.array(self.totals, np.int64).reshape(-1, 3),
            np.array([ranks[name] for name in self.names], np.float64),
        )


def _require(kind: _Kind, name: str) -> None:
    if kind.name not in (name, "null"):
        raise _NoCodeError


def _kind_of(values: pa.Array) -> _Kind:
    kind = values.type
    if pa.types.is_int64(kind):
        found = pc.min_max(values)
        least, most = found["min"].as_py() or 0, found["max"].as_py() or 0
        return _Kind("number", max(abs(least), abs(most)))
    if pa.types.is_float64(kind):
        return _NUMBER
    if pa.types.is_boolean(kind):
        return _TRUTH
    if pa.types.is_string(kind):
        return _TEXT
    if pa.types.is_null(kind):
        return _NULL
    raise _NoCodeError


def _is_finite(values: pa.Array) -> bool:
    return bool(np.isfinite(np.asarray(pc.fill_null(values, 0.0))).all())


def _numbers(values: pa.Array, ranks: dict[str, float]) -> np.ndarray:
    kind = values.type
    if pa.types.is_null(kind):
        return np.zeros(len(values))
    if pa.types.is_string(kind):
        encoded = values.dictionary_encode()
        known = np.array([ranks[text] for text in encoded.dictionary.to_pylist()] + [0.0])
        return np.asarray(known[np.asarray(pc.fill_null(encoded.indices, len(known) - 1))])
    if pa.types.is_boolean(kind):
        values = values.cast(pa.int8())
    return np.asarray(pc.fill_null(values, 0)).astype(np.float64)
