"""What the names of a query stand for while it is bound, and what is wrong with it so far."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from optimizer.bind.conditions import KindChecker, key_span
from optimizer.bind.durations import without_durations
from optimizer.ir.pattern import Scope
from optimizer.ir.produced import START, ProducedType
from workloads import expressions as ex
from workloads import syntax as sx
from workloads.errors import QueryError, Span, did_you_mean
from workloads.printing import print_name
from workloads.workload import NANOSECONDS, AttributeKind, Stream

MAX_SUGGESTIONS_OF_QUERY = 10


@dataclass(frozen=True)
class ProducedEvents:
    """The events that a query makes, and the kinds of their fields as far as they are known."""

    type: ProducedType
    kinds: Mapping[str, AttributeKind]


@dataclass
class QueryScope:
    """The components of a query by alias, with their scopes and the kinds of their attributes.

    `produced` are the events that other queries make, by type. Findings are collected in `errors`.
    """

    stream: Stream
    columns: Mapping[str, AttributeKind] | None
    query: sx.Query
    suggests: bool = True
    errors: list[QueryError] = field(default_factory=list)
    components: dict[str, sx.Component] = field(default_factory=dict)
    scopes: dict[str, Scope] = field(default_factory=dict)
    produced: Mapping[str, ProducedEvents] = field(default_factory=dict)

    def __post_init__(self) -> None:
        kinds = {**self.stream.attributes, **(self.columns or {})}
        for made in self.produced.values():
            kinds |= {name: kind for name, kind in made.kinds.items() if name not in kinds}
        if self.produced:
            kinds.setdefault(START, kinds.get(self.stream.time, "int"))
        if self.stream.time in kinds:
            kinds.setdefault("time", kinds[self.stream.time])
        self._times = frozenset(name for name, kind in kinds.items() if kind == "time")
        self._names = frozenset(self.columns or self.stream.attributes)
        self.kinds = KindChecker(kinds)

    @property
    def reads(self) -> tuple[str, ...]:
        """The types that other queries make and this one names."""
        named = {component.type for component in self.components.values()}
        return tuple(sorted(named & self.produced.keys()))

    def report(self, error: QueryError) -> None:
        self.errors.append(error)

    def suggestion(self, name: str, known: Iterable[str]) -> str | None:
        suggests = self.suggests and len(self.errors) < MAX_SUGGESTIONS_OF_QUERY
        return did_you_mean(name, known) if suggests else None

    def check_names(self, expression: ex.Expression) -> None:
        for node in ex.walk(expression):
            match node:
                case ex.Attribute("", name):
                    of = some_names(f"{a}.{print_name(name)}" for a in self.components)
                    text = "'{}'".format(name.replace("'", "''"))
                    raise QueryError(
                        f"'{name}' has no alias",
                        node.span,
                        f"write {of}; a text takes single quotes: {text}",
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

    def without_durations(self, expression: ex.Expression) -> ex.Expression:
        """An expression with durations, and the times beside them, in nanoseconds."""
        if not ex.has_duration(expression):
            return expression
        return without_durations(expression, self._is_time, NANOSECONDS[self.stream.unit])

    def _is_time(self, attribute: ex.Attribute) -> bool:
        """Is it the event's time, or another timestamp?"""
        name = attribute.name
        own = name == self.stream.time or (name == "time" and name not in self._names)
        component = self.components.get(attribute.alias)
        made = component is not None and component.type in self.produced
        return own or name in self._times or (made and name == START)

    def alias_hint(self, alias: str) -> str:
        for component in self.components.values():
            if component.type == alias and component.alias is not None:
                return f"that is a type; its alias is '{component.alias}'"
        suggestion = self.suggestion(alias, self.components)
        return suggestion or f"the pattern has {some_names(self.components)}"

    def check_attribute(self, node: ex.Attribute) -> None:
        component = self.components.get(node.alias)
        if component is not None and (made := self.produced.get(component.type)) is not None:
            fields = {*made.type.names, "time", START}
            if node.name not in fields:
                raise QueryError(
                    f"'{component.type}' has no field '{node.name}'",
                    node.span,
                    self.suggestion(node.name, fields)
                    or f"query {made.type.query} gives it {some_names(sorted(fields))}",
                )
            return
        known = self._known_names()
        if known is None or self.stream.missing_columns == "ignore":
            return
        if node.name not in known and node.name != "time":
            raise QueryError(
                f"unknown attribute '{node.name}'",
                node.span,
                self.suggestion(node.name, known) or f"the events have {some_names(sorted(known))}",
            )

    def _known_names(self) -> set[str] | None:
        """The columns of the stream, where they are known."""
        if self.columns is None and not self.stream.declares_columns:
            return None
        own = {c for c in (self.stream.time, self.stream.type, self.stream.sequence) if c}
        return own | set(self.stream.attributes if self.columns is None else self.columns)

    def made_alone(self, key: Sequence[str]) -> dict[str, sx.TiedKey]:
        """The attributes of a key that rows of other queries have, and events of the stream not.

        They are keys of which each component, all of them such rows, has that field as its column.
        """
        made = [self.produced.get(component.type) for component in self.components.values()]
        known = self._known_names()
        if known is None:
            return {}
        found: dict[str, sx.TiedKey] = {}
        for name in key:
            if name not in known and all(of and name in of.type.names for of in made):
                span = key_span(self.query, name)
                columns = tuple(ex.Attribute(alias, name, span) for alias in self.components)
                found[name] = sx.TiedKey(columns, name, span=span)
        return found

    def check_calls(self, expression: ex.Expression) -> None:
        for node in ex.walk(expression):
            if not isinstance(node, ex.Call):
                continue
            if node.function == ex.PREV:
                raise QueryError(
                    "prev stands in conditions only: it is of each event of a group",
                    node.span,
                    "use it in WHERE; return the group to see its events in order",
                )
            if node.function not in ex.GROUP_FUNCTIONS:
                of_values = dict.fromkeys((*ex.VALUE_FUNCTIONS, *ex.JOINT_FUNCTIONS))
                known = (*ex.GROUP_FUNCTIONS, *of_values)
                raise QueryError(
                    f"unknown function '{node.function}'; known are "
                    f"{', '.join(ex.GROUP_FUNCTIONS)} over groups, and {', '.join(of_values)}",
                    node.span,
                    did_you_mean(node.function, known, alike=0.75)
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
