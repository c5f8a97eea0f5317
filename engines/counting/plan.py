"""Aggregate queries that are counted together: their machines, and the values they ask for."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from engines.counting.compile import Term, Value
from kernels.values import MAX, MIN, NUMBER, SUM
from optimizer.automaton import Machine
from optimizer.ir.alternatives import alternatives
from optimizer.ir.pattern import Pattern, Symbol
from optimizer.ir.query import Aggregation, Query
from optimizer.places import last_events
from workloads import expressions as ex
from workloads.expressions import Attribute

_KINDS = {
    "sum": (SUM, NUMBER),
    "avg": (SUM, NUMBER),
    "min": (MIN,),
    "max": (MAX,),
}


class Plan:
    """The machines of queries that share key, window and slide."""

    def __init__(self, queries: Sequence[Query]) -> None:
        self.queries = tuple(queries)
        self.choices = [alternatives(query.pattern) for query in self.queries]
        shared: dict[Pattern, Machine] = {}
        for choice in itertools.chain.from_iterable(self.choices):
            if choice not in shared:
                shared[choice] = Machine(choice)
        self.machines = [tuple(shared[choice] for choice in choices) for choices in self.choices]
        self.inputs: dict[str, int] = {}
        self.terms = [
            Term(machines, self._values(query), _triggers(query))
            for query, machines in zip(self.queries, self.machines, strict=True)
        ]
        self.most_values = max(len(term.values) for term in self.terms)
        self.symbols = sorted({s for ms in self.machines for m in ms for s in m.symbols}, key=str)

    def _values(self, query: Query) -> tuple[Value, ...]:
        return tuple(
            Value(kind, operand.alias, self.inputs.setdefault(operand.name, len(self.inputs)))
            for function, operand in wanted_values(query)
            for kind in _KINDS[function]
        )


def wanted_values(query: Query) -> list[tuple[str, Attribute]]:
    """The distinct values that a query's aggregates and its HAVING need, counts apart."""
    assert isinstance(query.output, Aggregation)
    found = [(a.function, a.operand) for a in query.output.items if a.operand is not None]
    if query.output.having is not None:
        found += [
            (node.function, node.argument)  # type: ignore[misc]
            for node in ex.walk(query.output.having)
            if isinstance(node, ex.Call) and isinstance(node.argument, Attribute)
        ]
    distinct: dict[tuple[str, str, str], tuple[str, Attribute]] = {}
    for function, operand in found:
        kind = "sum" if function == "avg" else function
        distinct[kind, operand.alias, operand.name] = (kind, operand)
    return list(distinct.values())


def value_columns(query: Query) -> dict[tuple[str, str, str], int]:
    """Where a wanted value stands in a row: its first column, by kind, alias and attribute."""
    found: dict[tuple[str, str, str], int] = {}
    column = 0
    for function, operand in wanted_values(query):
        found[function, operand.alias, operand.name] = column
        column += len(_KINDS[function])
    return found


def _triggers(query: Query) -> frozenset[Symbol]:
    return frozenset(
        event.symbol
        for choice in alternatives(query.pattern)
        for event in last_events(choice, frozenset())
    )
