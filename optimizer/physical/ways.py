"""The way of a query through a plan, and whom it shares its operators with."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

from optimizer.physical.groups import Group
from optimizer.physical.operator import CONSTRUCTING, Operator
from optimizer.physical.plan import Plan


class Ways:
    """For each query the operators that it uses, and for each operator its queries."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.by_id = {operator.id: operator for operator in plan.operators}
        self.outputs = {o.detail["query"]: o for o in plan.operators if o.kind == "output"}
        self.groups: Mapping[str, Group] = {q: g for g in plan.groups for q in g.queries}

    def of(self, query: str) -> list[Operator]:
        """The operators that a query uses, in the plan's order; its sink is the last."""
        output = self.outputs[query]
        symbols = set(output.detail["symbols"])
        found = {output.id}
        waiting = list(output.inputs)
        while waiting:
            operator = self.by_id[waiting.pop()]
            if operator.id in found or not _is_for(operator, query, symbols):
                continue
            found.add(operator.id)
            waiting.extend(operator.inputs)
        sinks = [s for s in self.plan.operators if s.kind == "sink" and output.id in s.inputs]
        return [o for o in self.plan.operators if o.id in found] + sinks

    @cached_property
    def queries(self) -> Mapping[str, tuple[str, ...]]:
        """The queries that use each operator."""
        found: dict[str, list[str]] = {}
        for query in self.plan.queries:
            for operator in self.of(query):
                found.setdefault(operator.id, []).append(query)
        return {operator: tuple(names) for operator, names in found.items()}

    def others(self, operator: Operator, query: str) -> list[str]:
        """With whom a query shares an operator."""
        return [name for name in self.queries[operator.id] if name != query]

    @cached_property
    def shared_joins(self) -> list[Operator]:
        """Joins of several queries, the largest of those that the same queries have."""
        found = [
            o for o in self.plan.operators if o.kind in CONSTRUCTING and len(self.queries[o.id]) > 1
        ]
        inner = {
            source for o in found for source in o.inputs
            if self.queries[source] == self.queries[o.id]
        }  # fmt: skip
        return [operator for operator in found if operator.id not in inner]

    def cost_below(self, operator: Operator) -> float:
        """What an operator and the joins that it reads take, each once."""
        return sum(below.cost for below in self._below(operator) if below.kind in CONSTRUCTING)

    def cost_of(self, group: Group) -> float:
        """What the counter or the joins of a group take, without preparing events and rows."""
        used = {o.id: o for name in group.queries for o in self.of(name)}
        kinds = ("counter", "segment", *CONSTRUCTING)
        return sum(operator.cost for operator in used.values() if operator.kind in kinds)

    def symbols_below(self, operator: Operator) -> list[str]:
        """The symbols of the events that it reads, directly or through others."""
        found = [o.detail["symbol"] for o in self._below(operator) if o.kind == "events"]
        return list(dict.fromkeys(found))

    def _below(self, operator: Operator) -> list[Operator]:
        found: dict[str, Operator] = {}
        open_ = [operator]
        while open_:
            at = open_.pop()
            if at.id not in found:
                found[at.id] = at
                open_ += [self.by_id[source] for source in reversed(at.inputs)]
        return list(found.values())


def _is_for(operator: Operator, query: str, symbols: set[str]) -> bool:
    """A group's engine reads for all of its queries: segments and events of others are not its."""
    match operator.kind:
        case "segment":
            return query in operator.detail["queries"]
        case "events" | "symbol":
            return operator.detail["symbol"] in symbols
        case _:
            return True
