"""What the names of a query stand for while it is bound, and what is wrong with it so far."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from optimizer.bind.conditions import KindChecker
from optimizer.ir.pattern import Scope
from workloads import expressions as ex
from workloads import syntax as sx
from workloads.errors import QueryError, Span, did_you_mean
from workloads.workload import AttributeKind, Stream

MAX_SUGGESTIONS_OF_QUERY = 10


@dataclass
class QueryScope:
    """The components of a query by alias, with their scopes and the kinds of their attributes.

    Findings are collected in `errors`.
    """

    stream: Stream
    columns: Mapping[str, AttributeKind] | None
    query: sx.Query
    suggests: bool = True
    errors: list[QueryError] = field(default_factory=list)
    components: dict[str, sx.Component] = field(default_factory=dict)
    scopes: dict[str, Scope] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.kinds = KindChecker({**self.stream.attributes, **(self.columns or {})})

    def report(self, error: QueryError) -> None:
        self.errors.append(error)

    def suggestion(self, name: str, known: Iterable[str]) -> str | None:
        suggests = self.suggests and len(self.errors) < MAX_SUGGESTIONS_OF_QUERY
        return did_you_mean(name, known) if suggests else None

    def check_names(self, expression: ex.Expression) -> None:
        for node in ex.walk(expression):
            match node:
                case ex.Attribute("", name):
                    raise QueryError(
                        f"'{name}' has no alias",
                        node.span,
                        f"write {some_names(f'{a}.{name}' for a in self.components)}",
                    )
                case ex.Attribute(alias, _) if alias not in self.components:
                    raise QueryError(f"unknown alias '{alias}'", node.span, self.alias_hint(alias))
                case ex.Attribute():
                    self.check_attribute(node)
                case ex.Equivalence():
                    raise QueryError(
                        "'[…]' stands inside another condition",
                        node.span,
                        "it partitions the whole query: join it with AND at the top",
                    )
                case _:
                    pass

    def alias_hint(self, alias: str) -> str:
        for component in self.components.values():
            if component.type == alias and component.alias is not None:
                return f"that is a type; its alias is '{component.alias}'"
        suggestion = self.suggestion(alias, self.components)
        return suggestion or f"the pattern has {some_names(self.components)}"

    def check_attribute(self, node: ex.Attribute) -> None:
        known: set[str] | None = None
        if self.stream.missing_columns == "ignore":
            return
        if self.columns is not None:
            known = set(self.columns)
        elif self.stream.attributes:
            known = set(self.stream.attributes)
        if known is None:
            return
        known |= {c for c in (self.stream.time, self.stream.type, self.stream.sequence) if c}
        if node.name not in known and node.name != "time":
            raise QueryError(
                f"unknown attribute '{node.name}'",
                node.span,
                self.suggestion(node.name, known) or f"the events have {some_names(sorted(known))}",
            )

    def check_calls(self, expression: ex.Expression) -> None:
        for node in ex.walk(expression):
            if not isinstance(node, ex.Call):
                continue
            if node.function not in ex.GROUP_FUNCTIONS:
                raise QueryError(
                    f"unknown function '{node.function}'; known are "
                    f"{', '.join(ex.GROUP_FUNCTIONS)}, over groups",
                    node.span,
                    did_you_mean(node.function, ex.GROUP_FUNCTIONS, alike=0.75)
                    or "write arithmetic of these, or a column with that value into the events",
                )
            argument = node.argument
            if not isinstance(argument, ex.Attribute):
                raise QueryError(f"{node.function} takes alias.attribute", node.span)
            component = self.components.get(argument.alias)
            if component is not None and isinstance(component.quantifier, sx.One):
                raise QueryError(
                    f"{node.function} aggregates over a group, and '{argument.alias}' is a "
                    "single event",
                    node.span,
                    f"write {argument.alias}.{argument.name}, or make it a group: "
                    f"'{component.type}+ {argument.alias}'",
                )

    def check_group_values(self, value: ex.Expression, span: Span) -> None:
        """Outside sum(…) and its like, a group has many values and no single one."""
        inside: set[int] = set()
        for node in ex.walk(value):
            if isinstance(node, ex.Call):
                inside.update(map(id, ex.walk(node)))
            elif (
                isinstance(node, ex.Attribute)
                and id(node) not in inside
                and not isinstance(self.components[node.alias].quantifier, sx.One)
            ):
                raise QueryError(
                    f"'{node.alias}' is a group with a value for each of its events",
                    span,
                    f"aggregate it, as in avg({node.alias}.{node.name})",
                )

    def check_returnable(self, alias: str, span: Span, verb: str) -> None:
        if self.scopes[alias]:
            raise QueryError(
                f"'{alias}' is negated: there is no event to be {verb}",
                span,
                "use a positive component",
            )


def some_names(names: Any) -> str:
    """The first of some names, for a hint."""
    listed = list(names)
    return ", ".join(listed[:8]) + (", …" if len(listed) > 8 else "")
