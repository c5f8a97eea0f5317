"""Parsed workload to bound workload: names resolved, defaults filled, everything checked.

All findings of all queries are collected before anything is raised.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from optimizer.bind.conditions import (
    canonical,
    check_condition,
    key_span,
    ordered_unique,
    tied_attributes,
)
from optimizer.bind.outputs import bound_output
from optimizer.bind.patterns import check_places, collect_components
from optimizer.bind.scope import QueryScope
from optimizer.bind.windows import bound_slide, bound_window
from optimizer.ir import pattern as ir
from optimizer.ir.pattern import innermost, scopes
from optimizer.ir.query import (
    BoundWorkload,
    Query,
)
from workloads import expressions as ex
from workloads import syntax as sx
from workloads.errors import Diagnostic, QueryError, WorkloadError, in_file
from workloads.loading import read_workload
from workloads.workload import AttributeKind, Workload

# A suggestion is looked for among all names there are, which takes time where these are many.
MAX_SUGGESTIONS = 100


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


class _Binder(QueryScope):
    """Binds one query, collecting what is wrong with it."""

    def bind(self) -> Query | None:
        query = self.query
        if query.strategy == "latest":
            raise QueryError(
                "STRATEGY LATEST is not there yet",
                query.strategy_span,
                "ANY, NEXT and STRICT are",
            )
        collect_components(self, query.pattern)
        check_places(self, query.pattern)
        if self.errors:
            # Conditions would only repeat what is wrong with the pattern's names.
            return None
        bare = _build(query.pattern, {})
        self.scopes = scopes(bare)
        key, conditions = self._where()
        window = bound_window(self)
        slide = bound_slide(self, window)
        output = bound_output(self)
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
            strategy=query.strategy,
        )

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
                self.check_names(part)
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
                self.check_attribute(ex.Attribute("", name, key_span(self.query, name)))
            except QueryError as error:
                self.report(error)
        return tuple(key), kept

    def _check_conjunct(self, condition: ex.Expression) -> None:
        """Group functions over groups; no tie between negations that exclude each other."""
        groups = [
            alias
            for alias in sorted(ex.aliases(condition))
            if not isinstance(self.components[alias].quantifier, sx.One)
        ]
        self.check_calls(condition)
        if ex.has_group_call(condition):
            self.check_group_values(condition, condition.span)
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
