"""The pattern of a query, checked: types, aliases, and where negations stand."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Iterator
from dataclasses import replace

from optimizer.bind.scope import QueryScope, some_names
from optimizer.ir.pattern import ANY_TYPE
from workloads import syntax as sx
from workloads.errors import QueryError


def with_any_type(pattern: sx.Pattern, types: Container[str]) -> sx.Pattern:
    """The pattern with `ANY a` as components of any event; unless the stream has such a type."""
    return changed_components(pattern, lambda component: _of_any_type(component, types))


def changed_components(
    pattern: sx.Pattern, change: Callable[[sx.Component], sx.Component]
) -> sx.Pattern:
    """The pattern with each of its components changed."""
    match pattern:
        case sx.Component():
            return change(pattern)
        case sx.Negation(part):
            return replace(pattern, part=changed_components(part, change))
        case sx.Operation(_, parts):
            parts = tuple(changed_components(part, change) for part in parts)
            return replace(pattern, parts=parts)
        case sx.Join(left, right):
            return replace(
                pattern,
                left=replace(left, component=change(left.component)),
                right=replace(right, component=change(right.component)),
            )


def _of_any_type(component: sx.Component, types: Container[str]) -> sx.Component:
    if component.type.upper() != "ANY" or component.type in types:
        return component
    return replace(component, type=ANY_TYPE, alias=component.name)


def has_sources(query: sx.Query) -> bool:
    """Does it name sources together with types, as in `orders.View`?"""
    return any(component.source is not None for component in named_components(query))


def named_components(query: sx.Query) -> Iterator[sx.Component]:
    """All components, also those in repetitions and of events that a funnel excludes."""
    yield from _with_repeated(query.pattern)
    if isinstance(query.output, sx.Funnel):
        for exclusion in query.output.exclusions:
            yield exclusion.component


def _with_repeated(pattern: sx.Pattern) -> Iterator[sx.Component]:
    for component in components_of(pattern):
        yield component
        if component.repeated is not None:
            yield from _with_repeated(component.repeated)


def has_edges(pattern: sx.Pattern) -> bool:
    """Does it read the starts or ends of situations?"""
    return any(component.edge is not None for component in components_of(pattern))


def has_chain(pattern: sx.Pattern) -> bool:
    """Is more than a component repeated in it?"""
    return any(component.repeated is not None for component in components_of(pattern))


def collect_components(scope: QueryScope, pattern: sx.Pattern) -> None:
    found = components_of(pattern)
    uses = Counter(component.type for component in found)
    for component in found:
        check_type(scope, component)
        if component.alias is None and uses[component.type] > 1:
            scope.report(
                QueryError(
                    f"type {component.type} occurs {uses[component.type]} times and has no "
                    "alias here",
                    component.span,
                    f"name each, as in '{component.type} x'",
                )
            )
        elif component.name in scope.components:
            scope.report(
                QueryError(
                    f"the alias '{component.name}' is used twice",
                    component.span,
                    "give each component an alias of its own",
                )
            )
        else:
            scope.components[component.name] = component


def check_type(scope: QueryScope, component: sx.Component) -> None:
    if component.type == ANY_TYPE:
        return
    known = {**scope.stream.types, **scope.produced}
    if component.type not in known and scope.stream.closed:
        scope.report(
            QueryError(
                f"unknown type '{component.type}'",
                component.span,
                scope.suggestion(component.type, known)
                or (
                    f"the stream declares {some_names(known)}"
                    if known
                    else "name the column of types under stream.type"
                ),
            )
        )


def check_places(scope: QueryScope, pattern: sx.Pattern) -> None:
    """Negations stand in SEQ and AND only, beside at least one positive part."""
    if isinstance(pattern, sx.Negation):
        scope.report(
            QueryError(
                "a negation alone never matches",
                pattern.span,
                "put it in a SEQ or AND beside what shall occur",
            )
        )
    else:
        _check_parts(scope, pattern, inside=None)
        _check_required(scope, pattern)


def _check_required(scope: QueryScope, pattern: sx.Pattern) -> None:
    """A pattern, a part of an AND or OR, and a negation has something that is not optional."""
    if _is_optional(pattern):
        what = "the component" if isinstance(pattern, sx.Component) else "every part of it"
        scope.report(
            QueryError(
                f"{what} is optional, and nothing at all would match",
                pattern.span,
                "at least one part must be something that occurs: 'E' for 'E?', 'E+' for 'E*'",
            )
        )
        return
    match pattern:
        case sx.Negation(part):
            _check_required(scope, part)
        case sx.Operation("OR", parts):
            for part in parts:
                _check_required(scope, part)
        case sx.Operation(operator):
            for part in _written_flat(pattern, operator):
                if not isinstance(part, sx.Component):
                    _check_required(scope, part)
        case _:
            pass


def _is_optional(pattern: sx.Pattern) -> bool:
    match pattern:
        case sx.Component():
            return pattern.optional
        case sx.Operation("SEQ" | "AND", parts):
            positive = [part for part in parts if not _is_negative(part)]
            return bool(positive) and all(map(_is_optional, positive))
        case _:
            return False


def _written_flat(pattern: sx.Pattern, operator: str) -> list[sx.Pattern]:
    """The parts of an operation, those of the same operation inside of it in their place."""
    if isinstance(pattern, sx.Operation) and pattern.operator == operator:
        return [flat for part in pattern.parts for flat in _written_flat(part, operator)]
    return [pattern]


def _check_parts(scope: QueryScope, pattern: sx.Pattern, inside: str | None) -> None:
    if not isinstance(pattern, sx.Operation):
        return
    for part in pattern.parts:
        inner = part.part if isinstance(part, sx.Negation) else part
        if isinstance(inner, sx.Join):
            scope.report(
                QueryError(
                    "a JOIN stands inside of another pattern",
                    inner.span,
                    f"a JOIN is a whole pattern; in {pattern.operator} write AND(…)",
                )
            )
    positive = [p for p in pattern.parts if not _is_negative(p)]
    only_negations = pattern.operator == "AND" and inside in ("SEQ", "AND") and not positive
    if not positive and not only_negations:
        scope.report(
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
                scope.report(
                    QueryError(
                        "a negation stands in an OR",
                        part.span,
                        "negations stand in SEQ and AND; write OR(SEQ(…, !X, …), …)",
                    )
                )
            elif _is_negative(part.part):
                scope.report(
                    QueryError(
                        "a negation of a negation", part.span, "negate something that occurs"
                    )
                )
            else:
                _check_parts(scope, part.part, inside=None)
        else:
            _check_parts(scope, part, inside=pattern.operator)


def components_of(pattern: sx.Pattern) -> list[sx.Component]:
    match pattern:
        case sx.Component():
            return [pattern]
        case sx.Negation(part):
            return components_of(part)
        case sx.Operation(_, parts):
            return [found for part in parts for found in components_of(part)]
        case sx.Join(left, right):
            return [left.component, right.component]


def _is_negative(pattern: sx.Pattern) -> bool:
    """A negation, or an AND of nothing but negations, which stands for its parts."""
    if isinstance(pattern, sx.Operation) and pattern.operator == "AND":
        return all(_is_negative(part) for part in pattern.parts)
    return isinstance(pattern, sx.Negation)
