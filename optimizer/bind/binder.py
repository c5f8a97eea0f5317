"""Parsed workload to bound workload: names resolved, defaults filled, everything checked.

All findings of all queries are collected before anything is raised.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from optimizer.bind.conditions import (
    KindChecker,
    canonical,
    check_condition,
    key_span,
    ordered_unique,
    tied_attributes,
)
from optimizer.ir import query as ir
from optimizer.ir.query import (
    Aggregate,
    AggregateFunction,
    Aggregation,
    BoundWorkload,
    Construction,
    MatchLimit,
    Query,
    ReturnAlias,
    ReturnAttribute,
    ReturnItem,
    ReturnValue,
    Window,
    innermost,
    scopes,
)
from workloads import syntax as ex
from workloads import syntax as sx
from workloads.errors import Diagnostic, QueryError, Span, WorkloadError, did_you_mean, in_file
from workloads.loading import read_workload
from workloads.workload import AttributeKind, Stream, Workload

# A suggestion is looked for among all names there are, which takes time where these are many.
MAX_SUGGESTIONS, MAX_SUGGESTIONS_OF_QUERY = 100, 10
AGGREGATES = ("count", "sum", "avg", "min", "max")


def load_bound(
    source: str | Path | Mapping[str, Any], columns: Mapping[str, AttributeKind] | None = None
) -> BoundWorkload:
    """Read and bind a workload; raises `WorkloadError` with every finding of both passes.

    `columns` are those of the events, where they are at hand: attributes are checked against them.
    """
    workload, findings = read_workload(source)
    if workload is None:
        raise WorkloadError(findings)
    return bind(workload, columns, findings)


def bind(
    workload: Workload,
    columns: Mapping[str, AttributeKind] | None = None,
    findings: list[Diagnostic] | None = None,
) -> BoundWorkload:
    """Bind every query of a workload; raises `WorkloadError` with all findings."""
    found = list(findings or [])
    bound: list[Query] = []
    places = workload.places or (None,) * len(workload.queries)
    for query, place in zip(workload.queries, places, strict=True):
        binder = _Binder(workload.stream, columns, query, len(found) < MAX_SUGGESTIONS)
        try:
            result = binder.bind()
        except QueryError as error:
            binder.report(error)
            result = None
        if result is not None and not binder.errors:
            bound.append(result)
        found += [
            in_file(error.diagnostic(query.text, query.name, query.number), workload.file, place)
            for error in binder.errors
        ]
    if found:
        raise WorkloadError(found)
    return BoundWorkload(workload.name, workload.stream, tuple(bound), workload.statistics)


@dataclass
class _Binder:
    """Binds one query, collecting what is wrong with it."""

    stream: Stream
    columns: Mapping[str, AttributeKind] | None
    query: sx.Query
    suggests: bool = True
    errors: list[QueryError] = field(default_factory=list)
    components: dict[str, sx.Component] = field(default_factory=dict)

    def report(self, error: QueryError) -> None:
        self.errors.append(error)

    def _suggestion(self, name: str, known: Iterable[str]) -> str | None:
        suggests = self.suggests and len(self.errors) < MAX_SUGGESTIONS_OF_QUERY
        return did_you_mean(name, known) if suggests else None

    def bind(self) -> Query | None:
        query = self.query
        self._collect_components(query.pattern)
        self._check_places(query.pattern)
        if self.errors:
            # Conditions would only repeat what is wrong with the pattern's names.
            return None
        bare = _build(query.pattern, {})
        self.scopes = scopes(bare)
        declared = dict(self.stream.attributes)
        declared.update(self.columns or {})
        self.kinds = KindChecker(declared)
        key, conditions = self._where()
        window = self._window()
        slide = self._slide(window)
        output = self._output()
        if self.errors:
            return None
        local, general = self._split(conditions)
        return Query(
            name=cast(str, query.name),
            pattern=_build(query.pattern, local),
            conditions=general,
            key=key,
            window=window,
            output=output,
            slide=slide,
        )

    # --- the pattern ---------------------------------------------------------------------------

    def _collect_components(self, pattern: sx.Pattern) -> None:
        found = _components(pattern)
        uses = Counter(component.type for component in found)
        for component in found:
            self._check_type(component)
            if component.alias is None and uses[component.type] > 1:
                self.report(
                    QueryError(
                        f"type {component.type} occurs {uses[component.type]} times and has no "
                        "alias here",
                        component.span,
                        f"name each, as in '{component.type} x'",
                    )
                )
            elif component.name in self.components:
                self.report(
                    QueryError(
                        f"the alias '{component.name}' is used twice",
                        component.span,
                        "give each component an alias of its own",
                    )
                )
            else:
                self.components[component.name] = component

    def _check_type(self, component: sx.Component) -> None:
        if component.type not in self.stream.types and self.stream.closed:
            self.report(
                QueryError(
                    f"unknown type '{component.type}'",
                    component.span,
                    self._suggestion(component.type, self.stream.types)
                    or f"the stream declares {_some(self.stream.types)}",
                )
            )

    def _check_places(self, pattern: sx.Pattern) -> None:
        """Negations stand in SEQ and AND only, beside at least one positive part."""
        if isinstance(pattern, sx.Negation):
            self.report(
                QueryError(
                    "a negation alone never matches",
                    pattern.span,
                    "put it in a SEQ or AND beside what shall occur",
                )
            )
        else:
            self._check_parts(pattern, inside=None)

    def _check_parts(self, pattern: sx.Pattern, inside: str | None) -> None:
        if not isinstance(pattern, sx.Operation):
            return
        positive = [p for p in pattern.parts if not _is_negative(p)]
        only_negations = pattern.operator == "AND" and inside in ("SEQ", "AND") and not positive
        if not positive and not only_negations:
            self.report(
                QueryError(
                    f"{pattern.operator} has no positive part",
                    pattern.span,
                    "at least one part must be something that occurs",
                )
            )
            return
        for part in pattern.parts:
            if isinstance(part, sx.Negation):
                if pattern.operator == "OR":
                    self.report(
                        QueryError(
                            "a negation stands in an OR",
                            part.span,
                            "negations stand in SEQ and AND; write OR(SEQ(…, !X, …), …)",
                        )
                    )
                elif _is_negative(part.part):
                    self.report(
                        QueryError(
                            "a negation of a negation", part.span, "negate something that occurs"
                        )
                    )
                else:
                    self._check_parts(part.part, inside=None)
            else:
                self._check_parts(part, inside=pattern.operator)

    # --- conditions ----------------------------------------------------------------------------

    def _where(self) -> tuple[tuple[str, ...], list[ex.Expression]]:
        """The partition key, and the conjuncts that remain."""
        key = list(dict.fromkeys(self.query.partition_by))
        kept: list[ex.Expression] = []
        parts = ex.conjuncts(self.query.where) if self.query.where is not None else ()
        for part in parts:
            if isinstance(part, ex.Equivalence):
                key += [name for name in part.attributes if name not in key]
                continue
            try:
                self._check_names(part)
                check_condition(part, self.kinds)
                kept.append(part)
            except QueryError as error:
                self.report(error)
        if not self.errors:
            tied, kept = tied_attributes(_build(self.query.pattern, {}), kept)
            key += [name for name in tied if name not in key]
        for part in kept:
            try:
                self._check_conjunct(part)
            except QueryError as error:
                self.report(error)
        for name in key:
            try:
                self._check_attribute(ex.Attribute("", name, key_span(self.query, name)))
            except QueryError as error:
                self.report(error)
        return tuple(key), kept

    def _check_names(self, expression: ex.Expression) -> None:
        for node in ex.walk(expression):
            match node:
                case ex.Attribute("", name):
                    raise QueryError(
                        f"'{name}' has no alias",
                        node.span,
                        f"write {_some(f'{a}.{name}' for a in self.components)}",
                    )
                case ex.Attribute(alias, _) if alias not in self.components:
                    raise QueryError(f"unknown alias '{alias}'", node.span, self._alias_hint(alias))
                case ex.Attribute():
                    self._check_attribute(node)
                case ex.Equivalence():
                    raise QueryError(
                        "'[…]' stands inside another condition",
                        node.span,
                        "it partitions the whole query: join it with AND at the top",
                    )
                case _:
                    pass

    def _alias_hint(self, alias: str) -> str:
        for component in self.components.values():
            if component.type == alias and component.alias is not None:
                return f"that is a type; its alias is '{component.alias}'"
        suggestion = self._suggestion(alias, self.components)
        return suggestion or f"the pattern has {_some(self.components)}"

    def _check_attribute(self, node: ex.Attribute) -> None:
        known: set[str] | None = None
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
                self._suggestion(node.name, known) or f"the events have {_some(sorted(known))}",
            )

    def _check_conjunct(self, condition: ex.Expression) -> None:
        """Group functions over groups; no tie between negations that exclude each other."""
        groups = [
            alias
            for alias in sorted(ex.aliases(condition))
            if not isinstance(self.components[alias].quantifier, sx.One)
        ]
        self._check_calls(condition)
        if ex.has_group_call(condition):
            self._check_group_values(condition, condition.span)
        elif len(groups) > 1:
            filtered = [g for g in groups if not isinstance(self.components[g].quantifier, sx.Plus)]
            if filtered:
                raise QueryError(
                    f"the groups {groups[0]} and {groups[1]} are tied event by event",
                    condition.span,
                    f"which events belong to {filtered[0]} would depend on another group; "
                    "compare aggregates of them, such as max(a.x) < min(b.x)",
                )
        paths = [self.scopes[a] for a in ex.aliases(condition)]
        if paths and innermost(paths) is None:
            raise QueryError(
                "a condition ties components of two different negations",
                condition.span,
                "each is about the absence of its own: tie them to a positive component",
            )

    def _check_calls(self, expression: ex.Expression) -> None:
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

    def _split(
        self, conditions: list[ex.Expression]
    ) -> tuple[dict[str, tuple[ex.Expression, ...]], tuple[ex.Expression, ...]]:
        """Local predicates by alias, and the rest, all canonical."""
        local: dict[str, list[ex.Expression]] = {}
        general: list[ex.Expression] = []
        for condition in conditions:
            named = ex.aliases(condition)
            if len(named) == 1 and not ex.has_group_call(condition):
                (alias,) = named
                local.setdefault(alias, []).append(canonical(ex.rename(condition, {alias: ""})))
            else:
                general.append(canonical(condition))
        return {a: ordered_unique(c) for a, c in local.items()}, ordered_unique(general)

    # --- window and output ---------------------------------------------------------------------

    def _window(self) -> Window:
        within = self.query.within
        self._check_duration(within, "window")
        if within.is_count and self.stream.sequence is None:
            self.report(
                QueryError(
                    "a window counted in events needs an order of the events",
                    within.span,
                    "declare the stream's 'sequence' column",
                )
            )
        return Window(int(within.size), within.is_count)

    def _slide(self, window: Window) -> int | None:
        slide = self.query.slide
        if slide is None:
            return None
        self._check_duration(slide, "slide")
        if slide.is_count != window.is_count:
            self.report(
                QueryError("window and slide are of different kinds", slide.span, "use one unit")
            )
        if isinstance(self.query.output, sx.Return):
            self.report(
                QueryError(
                    "SLIDE goes with AGG: matches are returned as they occur",
                    slide.span,
                    "leave SLIDE out",
                )
            )
        return int(slide.size)

    def _check_duration(self, duration: sx.Duration, what: str) -> None:
        amount = f"{duration.amount:.30}"
        if duration.size <= 0:
            self.report(
                QueryError(
                    f"a {what} of {amount} {duration.unit} holds no event",
                    duration.span,
                    "give a positive amount",
                )
            )
        elif duration.size != int(duration.size):
            self.report(
                QueryError(
                    f"a {what} of {amount} {duration.unit} is not a whole number of "
                    + ("events" if duration.is_count else "nanoseconds"),
                    duration.span,
                    "round it",
                )
            )
        elif duration.size >= 2**62:
            self.report(QueryError(f"a {what} this long overflows", duration.span, "shorten it"))

    def _output(self) -> Aggregation | Construction:
        match self.query.output:
            case sx.Aggregates(items, having, texts):
                bound = [
                    self._aggregate(item, texts[i] if i < len(texts) else "")
                    for i, item in enumerate(items)
                ]
                if having is not None:
                    self._having(having)
                return Aggregation(
                    tuple(b for b in bound if b is not None),
                    None if having is None else canonical(having),
                )
            case sx.Return(returned, limit):
                return self._construction(returned, limit)

    def _aggregate(self, item: ex.Expression, text: str) -> Aggregate | None:
        try:
            return self._checked_aggregate(item, text)
        except QueryError as error:
            self.report(error)
            return None

    def _checked_aggregate(self, item: ex.Expression, text: str) -> Aggregate:
        if not isinstance(item, ex.Call):
            raise QueryError(
                "AGG takes aggregates", item.span, "such as COUNT(*), SUM(a.x) or AVG(a.x)"
            )
        if item.function not in AGGREGATES:
            raise QueryError(
                f"unknown aggregate '{item.function}'; known are COUNT, SUM, AVG, MIN, MAX",
                item.span,
                did_you_mean(item.function, AGGREGATES, alike=0.75)
                or "RETURN what it is computed from, and compute it from the matches",
            )
        function = cast(AggregateFunction, item.function)
        if item.function == "count":
            if item.argument is not None:
                raise QueryError("COUNT counts matches", item.span, "write COUNT(*)")
            return Aggregate(function, None, text or "COUNT(*)")
        if not isinstance(item.argument, ex.Attribute):
            raise QueryError(f"{item.function.upper()} takes alias.attribute", item.span)
        self._check_names(item.argument)
        self._check_returnable(item.argument.alias, item.argument.span, "aggregated")
        self.kinds.check(item if function in ("sum", "avg") else item.argument)
        operand = ex.Attribute(item.argument.alias, item.argument.name)
        default = f"{function.upper()}({operand.alias}.{operand.name})"
        return Aggregate(function, operand, text or default)

    def _having(self, having: ex.Expression) -> None:
        try:
            check_condition(having, self.kinds)
            inside: set[int] = set()
            for node in ex.walk(having):
                if isinstance(node, ex.Call):
                    self._checked_aggregate(node, "")
                    inside.update(map(id, ex.walk(node)))
                elif isinstance(node, (ex.Attribute, ex.Equivalence)) and id(node) not in inside:
                    raise QueryError(
                        "HAVING compares aggregates", node.span, "such as COUNT(*) > 10"
                    )
        except QueryError as error:
            self.report(error)

    def _construction(self, items: tuple[sx.Item, ...], limit: int | None) -> Construction:
        bound: list[ReturnItem] = []
        taken: dict[str, bool] = {}  # top-level names; True where an alias' fields stand there
        for item in items:
            try:
                result = self._item(item)
                name, fields = _place(result)
                if name in taken and not (fields and taken[name]):
                    raise QueryError(f"'{name}' is returned twice", item.span, "use AS")
            except QueryError as error:
                self.report(error)
                continue
            taken[name] = fields
            bound.append(result)
        # A whole event goes before single fields of it, which then add its time at most.
        order = {name: i for i, name in enumerate(taken)}
        bound.sort(key=lambda item: (order[_place(item)[0]], isinstance(item, ReturnAttribute)))
        first = None if limit is None else MatchLimit(limit, tuple(self.components))
        return Construction(tuple(dict.fromkeys(bound)), first)

    def _item(self, item: sx.Item) -> ReturnItem:
        value = item.value
        if isinstance(value, str):
            if value not in self.components:
                raise QueryError(f"unknown alias '{value}'", item.span, self._alias_hint(value))
            self._check_returnable(value, item.span, "returned")
            return ReturnAlias(value, item.name)
        self._check_names(value)
        for alias in ex.aliases(value):
            self._check_returnable(alias, item.span, "returned")
        if isinstance(value, ex.Attribute) and item.name is None:
            return ReturnAttribute(value.alias, value.name)
        if isinstance(value, (*ex.CONDITIONS, ex.Literal)):
            raise QueryError("RETURN takes values of events", item.span)
        self._check_calls(value)
        self._check_group_values(value, item.span)
        self.kinds.check(value)
        if item.name is None:
            raise QueryError("a computed value needs a name", item.span, "add AS and a name for it")
        return ReturnValue(canonical(value), item.name)

    def _check_group_values(self, value: ex.Expression, span: Span) -> None:
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

    def _check_returnable(self, alias: str, span: Span, verb: str) -> None:
        if self.scopes[alias]:
            raise QueryError(
                f"'{alias}' is negated: there is no event to be {verb}",
                span,
                "use a positive component",
            )


def _build(pattern: sx.Pattern, local: dict[str, tuple[ex.Expression, ...]]) -> ir.Pattern:
    match pattern:
        case sx.Component():
            symbol = ir.Symbol(pattern.type, local.get(pattern.name, ()))
            return ir.Event(symbol, pattern.name, pattern.quantifier)
        case sx.Negation(part):
            return ir.Neg(_build(part, local))
        case sx.Operation(operator, parts):
            built = tuple(_build(part, local) for part in parts)
            if operator == "SEQ":
                return ir.Seq(built)
            return ir.And(built) if operator == "AND" else ir.Or(built)


def _components(pattern: sx.Pattern) -> list[sx.Component]:
    match pattern:
        case sx.Component():
            return [pattern]
        case sx.Negation(part):
            return _components(part)
        case sx.Operation(_, parts):
            return [found for part in parts for found in _components(part)]


def _place(item: ReturnItem) -> tuple[str, bool]:
    """The name that an item stands under, and whether fields of an event do so there."""
    match item:
        case ReturnAttribute(alias, _):
            return alias, True
        case ReturnAlias(alias, name):
            return name or alias, name is None
        case ReturnValue(_, name):
            return name, False


def _is_negative(pattern: sx.Pattern) -> bool:
    """A negation, or an AND of nothing but negations, which stands for its parts."""
    if isinstance(pattern, sx.Operation) and pattern.operator == "AND":
        return all(_is_negative(part) for part in pattern.parts)
    return isinstance(pattern, sx.Negation)


def _some(names: Any) -> str:
    listed = list(names)
    return ", ".join(listed[:8]) + (", …" if len(listed) > 8 else "")
