"""STRATEGY LATEST, UNTIL, and keys that differ by component, checked."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from optimizer.bind.scope import QueryScope
from optimizer.ir.keys import ComponentKey
from optimizer.ir.pattern import And, Event, Neg, Pattern, Seq, walk
from workloads import expressions as ex
from workloads import syntax as sx
from workloads.errors import NOWHERE, QueryError, Span


def component_keys(scope: QueryScope, key: Sequence[str]) -> tuple[ComponentKey, ...]:
    """The keys of which each component names its own column."""
    found: list[ComponentKey] = []
    names = set(key)
    for tied in scope.query.tied_keys:
        try:
            found.append(_component_key(scope, tied, names))
        except QueryError as error:
            scope.report(error)
        names.add(tied.name)
    return tuple(found)


def _component_key(scope: QueryScope, tied: sx.TiedKey, names: set[str]) -> ComponentKey:
    if tied.name in names:
        raise QueryError(f"the key has '{tied.name}' twice", tied.span, "give it another name")
    columns: dict[str, str] = {}
    for part in tied.parts:
        scope.check_names(part)
        if part.alias in columns:
            raise QueryError(f"'{part.alias}' stands twice in a key", part.span, "name it once")
        columns[part.alias] = part.name
    for alias, component in scope.components.items():
        if alias not in columns:
            raise QueryError(
                f"the key '{tied.name}' has no column of '{alias}'",
                tied.span,
                f"every component of the pattern has one: add {alias} and its column"
                if component.alias is not None
                else f"give {alias} an alias and add its column",
            )
    if scope.query.strategy != "latest":
        for one, other in pairwise(tied.parts):
            scope.kinds.check(ex.Comparison("=", one, other, tied.span))
    within = scope.query.within
    if within is not None and within.is_count:
        raise QueryError(
            "a window counted in events has one key for all components",
            within.span,
            "give it in time, such as WITHIN 5 min",
        )
    return ComponentKey(tied.name, tuple(columns.items()), tied.optional)


def check_selection(
    scope: QueryScope, pattern: Pattern, conditions: Sequence[ex.Expression]
) -> None:
    """Report what LATEST does not take, and UNTIL without it."""
    query = scope.query
    try:
        if query.strategy == "latest":
            _check_latest(scope, pattern, conditions)
        elif any(isinstance(node, Neg) and node.until for node in walk(pattern)):
            raise QueryError(
                "UNTIL goes with STRATEGY LATEST",
                _until_span(query.pattern),
                "add STRATEGY LATEST, or write a negation: SEQ(A a, !E u, B b)",
            )
    except QueryError as error:
        scope.report(error)


def _check_latest(scope: QueryScope, pattern: Pattern, conditions: Sequence[ex.Expression]) -> None:
    query, span = scope.query, scope.query.strategy_span
    parts = pattern.parts if isinstance(pattern, Seq | And) else (pattern,)
    for part in parts:
        inner = part.part if isinstance(part, Neg) else part
        single = isinstance(inner, Event) and isinstance(inner.quantifier, sx.One)
        if not single or (isinstance(inner, Event) and inner.optional):
            raise QueryError(
                "STRATEGY LATEST takes a SEQ of single events and negated single events, or an AND "
                "of single events",
                span,
                "write each event of a group by itself, and a query for each part of an OR and "
                "for an optional part that is absent",
            )
    if not isinstance(query.output, sx.Return):
        raise QueryError(
            "STRATEGY LATEST goes with RETURN", span, "return the matches, or leave it out"
        )
    stages = {part.alias for part in parts if isinstance(part, Event)}
    if isinstance(pattern, And):
        _check_together(scope, conditions, len(stages) == len(parts))
        return
    for condition in conditions:
        if not ex.aliases(condition) <= stages:
            raise QueryError(
                "under STRATEGY LATEST conditions tie stages, and not what is absent or ends them",
                condition.span,
                "tie it by PARTITION BY, such as (a.entity_id, b.parent_id) AS entity",
            )
    steps = [part for part in parts if not (isinstance(part, Neg) and part.until)]
    if query.within is None and any(isinstance(steps[i], Neg) for i in (0, -1)):
        raise QueryError(
            "a negation first or last looks as far as the window goes, and there is none",
            span,
            "add WITHIN",
        )


def _check_together(
    scope: QueryScope, conditions: Sequence[ex.Expression], is_positive: bool
) -> None:
    """Report what an AND under LATEST does not take."""
    query, span = scope.query, scope.query.strategy_span
    if not is_positive:
        raise QueryError(
            "an AND under STRATEGY LATEST takes no negation and no UNTIL", span, "leave them out"
        )
    if query.within is not None:
        raise QueryError(
            "an AND under STRATEGY LATEST has one match of each key, however far apart its events",
            query.within.span,
            "leave WITHIN out, or the strategy",
        )
    for condition in conditions:
        raise QueryError(
            "under STRATEGY LATEST nothing but keys tie the events of an AND",
            condition.span,
            "tie them by PARTITION BY, such as (a.entity_id, b.parent_id) AS entity",
        )


def _until_span(pattern: sx.Pattern) -> Span:
    if isinstance(pattern, sx.Operation):
        for part in pattern.parts:
            if isinstance(part, sx.Negation) and part.until:
                return part.span
    return NOWHERE
