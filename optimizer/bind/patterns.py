"""The pattern of a query, checked: types, aliases, and where negations stand."""

from __future__ import annotations

from collections import Counter

from optimizer.bind.scope import QueryScope, some_names
from workloads import syntax as sx
from workloads.errors import QueryError


def collect_components(scope: QueryScope, pattern: sx.Pattern) -> None:
    found = _components(pattern)
    uses = Counter(component.type for component in found)
    for component in found:
        _check_type(scope, component)
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


def _check_type(scope: QueryScope, component: sx.Component) -> None:
    if component.type not in scope.stream.types and scope.stream.closed:
        scope.report(
            QueryError(
                f"unknown type '{component.type}'",
                component.span,
                scope.suggestion(component.type, scope.stream.types)
                or f"the stream declares {some_names(scope.stream.types)}",
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


def _check_parts(scope: QueryScope, pattern: sx.Pattern, inside: str | None) -> None:
    if not isinstance(pattern, sx.Operation):
        return
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


def _components(pattern: sx.Pattern) -> list[sx.Component]:
    match pattern:
        case sx.Component():
            return [pattern]
        case sx.Negation(part):
            return _components(part)
        case sx.Operation(_, parts):
            return [found for part in parts for found in _components(part)]


def _is_negative(pattern: sx.Pattern) -> bool:
    """A negation, or an AND of nothing but negations, which stands for its parts."""
    if isinstance(pattern, sx.Operation) and pattern.operator == "AND":
        return all(_is_negative(part) for part in pattern.parts)
    return isinstance(pattern, sx.Negation)
