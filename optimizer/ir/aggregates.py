"""What aggregates are made from: numbers of single events that engines add up or compare.

`AVG(a.x)` is a sum and a number of values, `COUNT(a.x)` a sum of ones, `FIRST(a.x)` the least place
of an event in the order of its moment and value, `VAR(a.x)` two sums. So an engine that has sums,
minima and maxima has all of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal as OneOf

from optimizer.ir.query import Aggregation
from workloads import expressions as ex
from workloads.printing import print_expression

# What a number of an event is, made of a value of it: the value, 1 where there is one, its place in
# the order of moments (of simultaneous ones the least value is the one that counts), the distance
# from a number near all of them, the square of that, or a number for each distinct value.
Form = OneOf["value", "present", "first", "last", "centered", "squared", "code"]
PartKind = OneOf["sum", "min", "max", "distinct"]

COUNTS = ("count", "count distinct")
SPREADS = ("var", "stddev", "var_pop", "stddev_pop")


@dataclass(frozen=True, slots=True)
class InputColumn:
    """A column of numbers; the attributes of its value have no alias."""

    form: Form
    value: ex.Expression

    def __str__(self) -> str:
        text = print_expression(self.value)
        return text if self.form == "value" else f"{self.form} {text}"

    @property
    def is_lasting(self) -> bool:
        """Does it depend on nothing but the event itself, whatever other events there are?"""
        return self.form in ("value", "present")


@dataclass(frozen=True, slots=True)
class AggregatePart:
    """A sum (which comes with the number of its terms), a minimum, a maximum, or how many distinct
    values there are, of a form of a value.
    """

    kind: PartKind
    form: Form
    operand: ex.Expression

    @property
    def alias(self) -> str:
        """The component that the value is of; of several components it is none's."""
        (found,) = ex.aliases(self.operand)
        return found

    @property
    def column(self) -> InputColumn:
        return InputColumn(self.form, ex.rename(self.operand, {self.alias: ""}))


def parts_of(function: str, operand: ex.Expression) -> tuple[AggregatePart, ...]:
    """What an aggregate of a value is made from."""
    match function:
        case "sum" | "avg":
            return (AggregatePart("sum", "value", operand),)
        case "min":
            return (AggregatePart("min", "value", operand),)
        case "max":
            return (AggregatePart("max", "value", operand),)
        case "count":
            return (AggregatePart("sum", "present", operand),)
        case "count distinct":
            return (AggregatePart("distinct", "code", operand),)
        case "first":
            return (AggregatePart("min", "first", operand),)
        case "last":
            return (AggregatePart("max", "last", operand),)
        case _:
            assert function in SPREADS, function
            sums = (AggregatePart("sum", "centered", operand),)
            return (*sums, AggregatePart("sum", "squared", operand))


def aggregated_values(output: Aggregation) -> Iterator[tuple[str, ex.Expression]]:
    """The functions of values that an output and its HAVING ask for, `COUNT(*)` apart."""
    for item in output.items:
        if item.operand is not None:
            yield item.function, item.operand
    for node in ex.walk(output.having) if output.having is not None else ():
        if isinstance(node, ex.Call) and node.argument is not None:
            yield node.function, node.argument


def aggregate_parts(output: Aggregation) -> list[AggregatePart]:
    """The distinct parts that an output and its HAVING are made from."""
    found = (parts_of(*asked) for asked in aggregated_values(output))
    return list(dict.fromkeys(part for parts in found for part in parts))
