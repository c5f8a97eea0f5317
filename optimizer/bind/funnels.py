"""A funnel, checked: steps that are single events, exclusions between two of them, and groups."""

from __future__ import annotations

from dataclasses import replace

from optimizer.bind.scope import QueryScope, some_names
from optimizer.ir.funnels import MAX_STEPS, Exclusion, FunnelClause
from optimizer.ir.query import Aggregate, Funnel
from workloads import expressions as ex
from workloads import syntax as sx
from workloads.errors import QueryError


def with_exclusions(scope: QueryScope, funnel: sx.Funnel) -> sx.Query:
    """The query with what is excluded as negations behind the step that it is excluded from."""
    query = scope.query
    steps = _steps(scope, query.pattern)
    for key in query.tied_keys:
        _report(scope, "a key that differs by component is not taken with FUNNEL", key, _ONE_KEY)
    within = query.within
    if within is not None and (within.is_count or query.session or query.counted_types):
        hint = "such as WITHIN 7 day"
        _report(scope, "the window of a FUNNEL is a stretch of time", within, hint)
    elif within is not None and within.size >= 2**62:
        within = None  # longer than any stream: nothing bounds it
    if scope.errors:
        return query
    names = [step.name for step in steps]
    firsts = [_place(scope, exclusion, names) for exclusion in funnel.exclusions]
    parts: list[sx.Pattern] = []
    for place, step in enumerate(steps):
        parts.append(step)
        for exclusion, first in zip(funnel.exclusions, firsts, strict=True):
            if first == place:
                parts.append(sx.Negation(exclusion.component, exclusion.span))
    span = query.pattern.span
    return replace(query, pattern=sx.Operation("SEQ", tuple(parts), span), within=within)


def _steps(scope: QueryScope, pattern: sx.Pattern) -> list[sx.Component]:
    parts: tuple[sx.Pattern, ...] = (pattern,)
    if isinstance(pattern, sx.Operation):
        parts = pattern.parts
        if pattern.operator != "SEQ" or pattern.marks:
            message = "the steps of a FUNNEL are a SEQ without marks"
            _report(scope, message, pattern, "write FUNNEL SEQ(A a, B b, C c)")
    found: list[sx.Component] = []
    for part in parts:
        match part:
            case sx.Component(quantifier=sx.One(), optional=False):
                found.append(part)
            case sx.Negation():
                message = "a negation stands among the steps of a FUNNEL"
                _report(scope, message, part, "write EXCLUDE E e BETWEEN a AND b behind the steps")
            case sx.Operation("SEQ", _, _, ()):
                found += _steps(scope, part)
            case _:
                _report(
                    scope,
                    "a step of a FUNNEL is one event",
                    part,
                    "declare a type with a condition for what a step may be, as under 'types'",
                )
    if len(found) > MAX_STEPS:
        _report(scope, f"a FUNNEL has at most {MAX_STEPS} steps", pattern, "leave some out")
    return found


def _place(scope: QueryScope, exclusion: sx.Exclusion, names: list[str]) -> int:
    """The number of the step behind which an exclusion begins."""
    for name in (exclusion.first, exclusion.last):
        if name not in names:
            message = f"'{name}' is no step of the FUNNEL"
            _report(scope, message, exclusion, f"its steps are {some_names(names)}")
            return -1
    first, last = names.index(exclusion.first), names.index(exclusion.last)
    if first >= last:
        message = f"'{exclusion.first}' does not come before '{exclusion.last}'"
        _report(scope, message, exclusion, "name the earlier step first")
        return -1
    if not isinstance(exclusion.component.quantifier, sx.One) or exclusion.component.optional:
        message = "what is excluded is one event"
        hint = f"write {exclusion.component.type} without a group"
        _report(scope, message, exclusion, hint)
    return first


def bound_funnel(scope: QueryScope, funnel: sx.Funnel) -> Funnel:
    """What a funnel gives; its pattern has what is excluded as negations."""
    assert isinstance(scope.query.pattern, sx.Operation)
    names = [part.name for part in scope.query.pattern.parts if isinstance(part, sx.Component)]
    exclusions = tuple(
        Exclusion(one.component.name, names.index(one.first), names.index(one.last))
        for one in funnel.exclusions
    )
    for node in funnel.by:
        try:
            scope.check_names(node)
            if node.alias != names[0]:
                raise QueryError(
                    "BY takes attributes of the first step, which every key that is counted has",
                    node.span,
                    f"write {names[0]}.{node.name}",
                )
        except QueryError as error:
            scope.report(error)
    by = tuple(dict.fromkeys(node.name for node in funnel.by))
    clause = FunnelClause(tuple(names), funnel.strict, exclusions, by, funnel.gives)
    read = tuple(Aggregate("count", ex.Attribute(names[0], name), f"BY {name}") for name in by)
    return Funnel(read, clause=clause)


def check_conditions(scope: QueryScope, general: tuple[ex.Expression, ...]) -> None:
    """Refuse conditions that tie steps: which events a step takes must not depend on others."""
    if not isinstance(scope.query.output, sx.Funnel):
        return
    for condition in general:
        scope.report(
            QueryError(
                "a condition of a FUNNEL speaks of one step alone",
                condition.span,
                "an equality of one attribute in all steps is a key: add it to PARTITION BY",
            )
        )


_ONE_KEY = "write PARTITION BY with a column that all events have"


def _report(scope: QueryScope, message: str, place: object, hint: str) -> None:
    scope.report(QueryError(message, getattr(place, "span", scope.query.span), hint))
