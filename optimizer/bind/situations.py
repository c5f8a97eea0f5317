"""A query about situations, checked: definitions, durations, constraints, and what it returns."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import cast

from optimizer.bind.conditions import canonical, check_condition, key_span, ordered_unique
from optimizer.bind.outputs import with_every
from optimizer.bind.path_consistency import Contradiction, possible_relations
from optimizer.bind.patterns import check_type
from optimizer.bind.scope import QueryScope, some_names
from optimizer.bind.windows import bound_window, check_duration
from optimizer.ir.pattern import ANY_TYPE, And, Event, Symbol
from optimizer.ir.query import Query, ReturnValue, SituationPattern, Window
from optimizer.ir.situations import (
    Constraint,
    Definition,
    Edge,
    ReturnAggregate,
    ReturnEdge,
    ReturnedItem,
    Situation,
    Temporal,
)
from workloads import expressions as ex
from workloads import syntax as sx
from workloads.errors import QueryError
from workloads.situations import syntax as situations
from workloads.situations.relations import ALL, print_relations
from workloads.syntax import All, Plus

EDGES = ("start", "end")
MAX_SITUATIONS = 12  # names of one query


def bound_situations(scope: QueryScope, found: situations.Situations) -> Query | None:
    """The bound query; None where `scope` has errors."""
    query = scope.query
    found = replace(found, definitions=tuple(_resolved(scope, d) for d in found.definitions))
    places = _places(scope, found)
    if scope.errors:
        return None
    defined = [_situation(scope, definition) for definition in found.definitions]
    constraints = _constraints(scope, found, places)
    window = bound_window(scope)
    if window.is_count:
        scope.report(
            QueryError(
                "situations have lengths in time, and this window is counted in events",
                query.within.span if query.within is not None else found.span,
                "write it as a time, such as WITHIN 10 min",
            )
        )
    key = tuple(dict.fromkeys(query.partition_by))
    for name in key:
        _try(scope, lambda name=name: _check_key(scope, name))
    conditions = _conditions(scope)
    returned, values = _returned(scope, found, places)
    if scope.errors:
        return None
    kept = [situation for situation in defined if situation is not None]
    implied = _implied(scope, found, constraints)
    if scope.errors or implied is None:
        return None
    temporal = Temporal(tuple(kept), constraints, implied, found.emit, tuple(returned))
    ordered = _reads_order(values, conditions, key)
    return Query(
        name=cast(str, query.name),
        pattern=_pattern(temporal, ordered),
        conditions=conditions,
        key=key,
        window=window if temporal.edge is None else Window(1),
        output=SituationPattern(tuple(values), clause=temporal),
    )


def _try(scope: QueryScope, check: object) -> None:
    try:
        check()  # type: ignore[operator]
    except QueryError as error:
        scope.report(error)


def _check_key(scope: QueryScope, name: str) -> None:
    scope.check_attribute(ex.Attribute("", name, key_span(scope.query, name)))


def check_source(scope: QueryScope, workload: str) -> None:
    """FROM names the workload, if anything."""
    found = scope.query.output
    if isinstance(found, situations.Situations) and found.source not in (None, workload):
        scope.report(
            QueryError(
                f"FROM names '{found.source}', and the stream is that of the workload '{workload}'",
                found.source_span,
                "leave FROM out",
            )
        )


# --- names and definitions -----------------------------------------------------------------------


def _places(scope: QueryScope, found: situations.Situations) -> dict[str, int]:
    """The place of each name, with a component for each, which functions speak of as a group."""
    places: dict[str, int] = {}
    if len(found.definitions) > MAX_SITUATIONS:
        scope.report(
            QueryError(
                f"{len(found.definitions)} situations; a query relates at most {MAX_SITUATIONS}",
                found.span,
                "split it into several queries; Sheaf shares what they have in common",
            )
        )
    for definition in found.definitions:
        if definition.name in places:
            scope.report(
                QueryError(
                    f"the situation '{definition.name}' is defined twice",
                    definition.span,
                    "give one of them another name",
                )
            )
        places[definition.name] = len(places)
        kind = definition.type
        component = sx.Component(kind or ANY_TYPE, definition.name, Plus(), definition.type_span)
        scope.components[definition.name] = component
        scope.scopes[definition.name] = ()
        if kind is not None:
            check_type(scope, component)
    return places


def _resolved(scope: QueryScope, definition: situations.Definition) -> situations.Definition:
    """With what the stream has under the name that stands in place of a condition."""
    name, known = definition.condition, scope.stream.situations
    if not isinstance(name, ex.Attribute):
        return definition
    if name.name not in known:
        defined = f"defined in the stream are {some_names(known)}; " if known else ""
        scope.report(
            QueryError(
                f"'{name.name}' is no condition, and no situation of the stream",
                name.span,
                scope.suggestion(name.name, known)
                or f"{defined}compare it, as in {name.name} = TRUE",
            )
        )
        return definition
    found = known[name.name]
    if definition.type not in (None, found.of):
        scope.report(
            QueryError(
                f"'{name.name}' is asked of events of type {found.of or 'any'}, by the stream",
                definition.type_span,
                "leave OF out",
            )
        )
    gap = definition.gap
    if gap is None and found.gap is not None:
        gap = sx.Duration(Decimal(found.gap), "ns", name.span)
    return replace(
        definition, type=found.of, type_span=name.span, condition=found.condition, gap=gap
    )


def _situation(scope: QueryScope, definition: situations.Definition) -> Situation | None:
    before = len(scope.errors)
    condition = definition.condition
    try:
        for node in ex.walk(condition):
            match node:
                case ex.Attribute(_, name) if name in scope.components:
                    raise QueryError(
                        f"'{name}' is a situation, and a condition is about one event",
                        node.span,
                        "relate the two in PATTERN",
                    )
                case ex.Attribute(_, name) if name in scope.stream.situations:
                    raise QueryError(
                        f"'{name}' is a situation of the stream, and stands for a whole condition",
                        node.span,
                        f"write {definition.name} AS {name}, and what else is asked as a situation "
                        "of its own",
                    )
                case ex.Attribute(_, name):
                    scope.check_attribute(ex.Attribute(definition.name, name, node.span))
                case ex.Call(function):
                    raise QueryError(
                        f"{function} aggregates over a situation, and a definition is what makes "
                        "one",
                        node.span,
                        "compare aggregates in WHERE",
                    )
                case ex.Equivalence():
                    raise QueryError(
                        "'[…]' is no condition of an event",
                        node.span,
                        "write PARTITION BY for the whole query",
                    )
                case _:
                    pass
        check_condition(condition, scope.kinds)
    except QueryError as error:
        scope.report(error)
    least, most = _length(scope, definition.at_least), _length(scope, definition.at_most)
    gap = _length(scope, definition.gap)
    if least is not None and most is not None and least > most:
        assert definition.at_most is not None
        scope.report(
            QueryError(
                f"'{definition.name}' is to last at least as long as it may not last",
                definition.at_most.span,
                "write the shorter one first: BETWEEN 4 s AND 30 s",
            )
        )
    if len(scope.errors) > before:
        return None
    kind = definition.type or ANY_TYPE
    predicates = ordered_unique([canonical(part) for part in ex.conjuncts(condition)])
    made = Definition(Symbol(kind, predicates), Symbol(kind), gap)
    return Situation(definition.name, made, least, most)


def _length(scope: QueryScope, duration: sx.Duration | None) -> int | None:
    if duration is None:
        return None
    if duration.is_count:
        scope.report(
            QueryError(
                "a situation has a length in time, not in events", duration.span, "such as 5 s"
            )
        )
        return None
    check_duration(scope, duration, "length")
    return int(duration.size)


# --- constraints ---------------------------------------------------------------------------------


def _constraints(
    scope: QueryScope, found: situations.Situations, places: dict[str, int]
) -> tuple[Constraint, ...]:
    bound: list[Constraint] = []
    named = [(found.single, found.pattern_span)] if found.single is not None else []
    for constraint in found.constraints:
        named += [
            (constraint.left, constraint.left_span),
            (constraint.right, constraint.right_span),
        ]
    for name, span in named:
        if name not in places:
            scope.report(
                QueryError(
                    f"unknown situation '{name}'",
                    span,
                    scope.suggestion(str(name), places) or f"defined are {some_names(places)}",
                )
            )
    if scope.errors:
        return ()
    for constraint in found.constraints:
        left, right = places[constraint.left], places[constraint.right]
        if left == right:
            scope.report(
                QueryError(
                    f"'{constraint.left}' is related to itself",
                    constraint.span,
                    "define it under a second name, to relate two situations of one kind",
                )
            )
        bound.append(Constraint(left, right, constraint.mask))
    reached = {0}
    while (
        further := {
            place
            for constraint in bound
            for place in (constraint.left, constraint.right)
            if reached & {constraint.left, constraint.right}
        }
        - reached
    ):
        reached |= further
    for name, place in places.items():
        if place not in reached:
            first = next(iter(places))
            scope.report(
                QueryError(
                    f"nothing ties '{name}' to '{first}': every situation of the one would be "
                    "matched with every one of the other",
                    found.pattern_span,
                    f"add a constraint; if that is meant, '{first} any {name}'",
                )
            )
            break
    return tuple(bound)


def _implied(
    scope: QueryScope, found: situations.Situations, constraints: tuple[Constraint, ...]
) -> tuple[tuple[int, int, int], ...] | None:
    """What the constraints leave possible; reports a set of them that never matches."""
    names = [definition.name for definition in found.definitions]
    masks = possible_relations(len(names), [(c.left, c.right, c.mask) for c in constraints])
    if isinstance(masks, Contradiction):
        a, b, c = names[masks.first], names[masks.middle], names[masks.last]
        if masks.middle == masks.last:
            why = f"the constraints on {a} and {b} allow no relation together"
        else:
            why = (
                f"{_stated(a, masks.left, b)} and {_stated(b, masks.right, c)} leave nothing of "
                f"{_stated(a, masks.allowed, c)}"
            )
        scope.report(
            QueryError(
                f"this pattern never matches: {why}",
                found.pattern_span,
                "allow another relation in one of them, such as A before;meets B",
            )
        )
        return None
    return tuple((i, j, mask) for (i, j), mask in sorted(masks.items()) if i < j and mask != ALL)


def _stated(left: str, mask: int, right: str) -> str:
    return f"'{left} {print_relations(mask)} {right}'"


# --- conditions and items ------------------------------------------------------------------------


def _conditions(scope: QueryScope) -> tuple[ex.Expression, ...]:
    where = scope.query.where
    kept: list[ex.Expression] = []
    for part in ex.conjuncts(where) if where is not None else ():
        try:
            if isinstance(part, ex.Equivalence):
                raise QueryError(
                    "'[…]' is no condition on situations", part.span, "write PARTITION BY"
                )
            _check_value(scope, part)
            check_condition(part, scope.kinds)
            if not ex.has_group_call(part):
                raise QueryError(
                    "WHERE compares aggregates of situations",
                    part.span,
                    "such as avg(A.x) > 5; conditions on single events stand in DEFINE",
                )
            kept.append(canonical(part))
        except QueryError as error:
            scope.report(error)
    return ordered_unique(kept)


def _check_value(scope: QueryScope, value: ex.Expression) -> None:
    for node in ex.walk(value):
        if isinstance(node, ex.Attribute) and node.alias not in scope.components:
            if not node.alias and node.name in scope.components:
                raise QueryError(
                    f"'{node.name}' is a situation, and an attribute of its events is asked for",
                    node.span,
                    f"such as count({node.name}.x)",
                )
            if not node.alias:
                raise QueryError(
                    f"'{node.name}' is of no situation",
                    node.span,
                    f"write an aggregate, as in avg({next(iter(scope.components))}.{node.name})",
                )
            raise QueryError(
                f"unknown situation '{node.alias}'",
                node.span,
                scope.suggestion(node.alias, scope.components)
                or f"defined are {some_names(scope.components)}",
            )
        if isinstance(node, ex.Attribute):
            _check_read(scope, node)
    scope.check_calls(value)
    scope.check_group_values(value, value.span)


def _check_read(scope: QueryScope, node: ex.Attribute) -> None:
    try:
        scope.check_attribute(node)
    except QueryError:
        if node.name not in EDGES:
            raise
        raise QueryError(
            f"{node.alias}.{node.name} is returned as it is, and not computed with",
            node.span,
            f"return {node.alias}.start and {node.alias}.end; how long it lasts is asked for in "
            "DEFINE, by AT LEAST, AT MOST or BETWEEN",
        ) from None


def _returned(
    scope: QueryScope, found: situations.Situations, places: dict[str, int]
) -> tuple[list[ReturnedItem], list[ReturnValue]]:
    returned: list[ReturnedItem] = []
    values: list[ReturnValue] = []
    taken: dict[str, bool] = {}  # names at the top; True where edges of a situation stand there
    for item in with_every(found.items, places):
        try:
            made = _item(scope, item, places)
            name = item.name or (
                item.value if isinstance(item.value, str) else cast(ex.Attribute, item.value).alias
            )
            fields = item.name is None
            if name in taken and not (fields and taken[name]):
                raise QueryError(f"'{name}' is returned twice", item.span, "use AS")
            taken[name] = fields
        except QueryError as error:
            scope.report(error)
            continue
        returned += [one for one in made if not isinstance(one, ReturnValue)]
        for value in made:
            if isinstance(value, ReturnValue):
                returned.append(ReturnAggregate(value.name))
                values.append(value)
    # The edges of a situation stand together, where its name first stands.
    order = {name: place for place, name in enumerate(taken)}
    names = list(places)

    def top(one: ReturnedItem) -> int:
        return order[one.name or names[cast(ReturnEdge, one).situation]]

    return sorted(dict.fromkeys(returned), key=top), values


def _item(
    scope: QueryScope, item: sx.Item, places: dict[str, int]
) -> list[ReturnedItem | ReturnValue]:
    value = item.value
    assert value is not None  # `*` is spelled out
    if isinstance(value, str):
        if value not in places:
            raise QueryError(
                f"unknown situation '{value}'",
                item.span,
                scope.suggestion(value, places) or f"defined are {some_names(places)}",
            )
        if item.name is not None:
            raise QueryError(
                "a situation stands under its own name",
                item.span,
                f"leave AS out, or write {value}.start AS {item.name}",
            )
        return [ReturnEdge(places[value], "start"), ReturnEdge(places[value], "end")]
    if isinstance(value, ex.Attribute) and value.alias in places:
        if value.name in EDGES:
            return [ReturnEdge(places[value.alias], cast(Edge, value.name), item.name)]
        raise QueryError(
            f"'{value.alias}' is a situation with a '{value.name}' for each of its events",
            item.span,
            f"aggregate it, as in first({value.alias}.{value.name}) AS {value.name}; of itself it "
            f"has {value.alias}.start and {value.alias}.end",
        )
    _check_value(scope, value)
    if isinstance(value, (*ex.CONDITIONS, ex.Literal)):
        raise QueryError("RETURN takes situations and aggregates of them", item.span)
    scope.kinds.check(value)
    if item.name is None:
        raise QueryError("a computed value needs a name", item.span, "add AS and a name for it")
    return [ReturnValue(canonical(value), item.name)]


def _reads_order(
    values: list[ReturnValue], conditions: tuple[ex.Expression, ...], key: tuple[str, ...]
) -> bool:
    """Does the order of simultaneous events show? In what is first and last among them."""
    return any(
        isinstance(node, ex.Call)
        and node.function in ("first", "last")
        and isinstance(node.argument, ex.Attribute)
        and node.argument.name not in key
        for expression in (*(value.value for value in values), *conditions)
        for node in ex.walk(expression)
    )


def _pattern(temporal: Temporal, ordered: bool) -> And:
    """The symbols that it reads: of each situation its condition, and all events it is asked of."""
    quantifier = All() if ordered else Plus()
    parts = [Event(s.definition.symbol, s.name, quantifier) for s in temporal.situations]
    members = dict.fromkeys(
        s.definition.member for s in temporal.situations if s.definition.symbol.predicates
    )
    parts += [Event(member, f"{member.type} events", quantifier) for member in members]
    return And(tuple(parts))
