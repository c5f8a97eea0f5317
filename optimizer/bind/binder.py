"""Parsed workload to bound workload: names resolved, defaults filled, everything checked.

All findings of all queries are collected before anything is raised.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from optimizer.bind.chains import (
    ChainOrder,
    chain_order,
    check_lasting,
    check_reading,
    of_own_types,
    produced_events,
    types_read,
)
from optimizer.bind.conditions import (
    canonical,
    check_condition,
    key_span,
    ordered_unique,
    tied_attributes,
)
from optimizer.bind.edges import with_edges
from optimizer.bind.expected_rows import check_tests
from optimizer.bind.funnels import check_conditions, with_exclusions
from optimizer.bind.grouping import bound_groups, check_passed_over
from optimizer.bind.latest import check_selection, component_keys
from optimizer.bind.marks import PatternBuilder, check_marks, has_strict_gaps
from optimizer.bind.neighbours import check_prev
from optimizer.bind.outputs import bound_output, with_picks
from optimizer.bind.patterns import (
    check_places,
    collect_components,
    has_chain,
    has_edges,
    has_sources,
    with_any_type,
)
from optimizer.bind.recognition import bound_statement
from optimizer.bind.repetitions import with_repetitions
from optimizer.bind.scope import ProducedEvents, QueryScope
from optimizer.bind.situations import bound_situations, check_source
from optimizer.bind.source_types import with_source_types
from optimizer.bind.strategies import check_strategy, stream_with_any
from optimizer.bind.windows import bound_join, bound_slide, bound_window, check_window_clauses
from optimizer.ir.keys import ComponentKey, key_name
from optimizer.ir.pattern import innermost, scopes
from optimizer.ir.produced import TYPE
from optimizer.ir.query import BoundWorkload, FixedAttribute, Query, is_about_situations
from workloads import expressions as ex
from workloads import syntax as sx
from workloads.errors import Diagnostic, QueryError, WorkloadError, in_file
from workloads.imported_rules import RefusedRule
from workloads.loading import read_workload
from workloads.situations.syntax import Situations
from workloads.sql.statement import Statement
from workloads.workload import AttributeKind, Stream, Workload

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
    """Bind every query of a workload; raises `WorkloadError` with all findings.

    Those that are optional are left out where they are wrong, and are among the `refused`.
    """
    if findings:
        return _bind(workload, columns, findings)
    # Loading, planning and running each ask for it, and thousands of rules take seconds.
    for known, of, bound in tuple(_BOUND):
        if known is workload and of == columns:
            return bound
    bound = _bind_fitting(workload, columns)
    _BOUND.append((workload, None if columns is None else dict(columns), bound))
    return bound


_BOUND: deque[tuple[Workload, Mapping[str, AttributeKind] | None, BoundWorkload]] = deque(maxlen=4)


def _bind_fitting(workload: Workload, columns: Mapping[str, AttributeKind] | None) -> BoundWorkload:
    """The bound workload without optional queries that are wrong, and what reads their rows."""
    left_out: list[RefusedRule] = []
    while True:
        try:
            bound = _bind(workload, columns, [])
        except WorkloadError as error:
            wrong = {found.query or "": found for found in error.diagnostics}
            if not wrong.keys() <= workload.optional.keys():
                raise
            reasons = {name: found.message for name, found in wrong.items()}
            workload, refused = without_optional(workload, reasons)
            if not workload.queries:
                raise
            left_out += refused
        else:
            return replace(bound, refused=tuple(left_out)) if left_out else bound


def without_optional(
    workload: Workload, reasons: Mapping[str, str]
) -> tuple[Workload, list[RefusedRule]]:
    """The workload without some of its queries, by name with the reason, and these as refused.

    Optional ones that read their rows go with them.
    """
    gone = dict(reasons)
    while more := _readers(workload, gone):
        gone |= more
    places = (*workload.places, *(None,) * (len(workload.queries) - len(workload.places)))
    kept = [
        (query, place)
        for query, place in zip(workload.queries, places, strict=True)
        if query.name not in gone
    ]
    refused = [
        RefusedRule("", name, workload.optional[name], reason) for name, reason in gone.items()
    ]
    queries, places = tuple(q for q, _ in kept), tuple(place for _, place in kept)
    return replace(workload, queries=queries, places=places, tests=()), refused


def _readers(workload: Workload, gone: Mapping[str, str]) -> dict[str, str]:
    """The optional queries that read rows of some that are gone, each with the reason."""
    made = {q.into: q.name for q in workload.queries if q.name in gone and q.into is not None}
    found: dict[str, str] = {}
    for query in workload.queries if made else ():
        name = query.name or ""
        read = next((made[t] for t in types_read(query, workload.stream) if t in made), None)
        if read is not None and name in workload.optional and name not in gone:
            found[name] = f"it reads rows of {read}, which is not taken"
    return found


def _bind(
    workload: Workload, columns: Mapping[str, AttributeKind] | None, findings: list[Diagnostic]
) -> BoundWorkload:
    found = list(findings)
    wrong: dict[int, list[QueryError]] = {}
    if any(has_sources(query) for query in workload.queries):
        workload, of_sources = with_source_types(workload)
        wrong = dict(of_sources)
    if any(has_chain(query.pattern) for query in workload.queries):
        workload, of_chains = with_repetitions(workload, columns)
        wrong = {**of_chains, **wrong}
    if any(has_edges(query.pattern) for query in workload.queries):
        workload, of_edges = with_edges(workload, columns)
        wrong = {**of_edges, **wrong}
    by_place: dict[int, list[Diagnostic]] = {}
    bound: dict[int, Query] = {}
    produced: dict[str, ProducedEvents] = {}
    failed: set[str] = set()
    added = len(workload.queries) - len(workload.places)  # all, where no place is known
    places = (*workload.places, *(None,) * added)
    parts = {query.name: place for query, place in zip(workload.queries, places, strict=False)}
    order = ChainOrder(tuple(range(len(workload.queries))), {})
    if any(query.into is not None for query in workload.queries):
        order = chain_order(workload)
    for number in order.places:
        query, place = workload.queries[number], places[number]
        if failed and not failed.isdisjoint(types_read(query, workload.stream)):
            continue  # what is wrong is said of what is repeated in it
        suggests = len(found) + sum(map(len, by_place.values())) < MAX_SUGGESTIONS
        binder = _Binder(workload.stream, columns, query, suggests, produced=dict(produced))
        if number in order.errors:
            binder.report(order.errors[number])
        for error in wrong.get(number, ()):
            binder.report(error)
        if isinstance(query.output, Situations):
            check_source(binder, workload.name)
        try:
            result = None if number in wrong else binder.bind()
        except QueryError as error:
            binder.report(error)
            result = None
        if result is not None and result.into is not None and not binder.errors:
            made = produced_events(binder, result, produced)
            if made is not None:
                produced[made.type.name] = made
        if result is not None and not binder.errors:
            bound[number] = result
        elif query.part_of is not None and query.into is not None:
            failed.add(query.into)
        name = query.part_of or query.name
        if query.part_of is not None:
            place = parts[name]
        by_place[number] = [
            in_file(error.diagnostic(query.text, name, query.number), workload.file, place)
            for error in binder.errors
        ]
    found += [finding for number in sorted(by_place) for finding in by_place[number]]
    if workload.tests:
        found += check_tests(workload, bound.values())
    if found:
        raise WorkloadError(found)
    queries = tuple(bound[number] for number in sorted(bound))
    stream = _with_produced(stream_with_any(workload.stream, queries), produced)
    types = tuple(made.type for made in produced.values())
    return BoundWorkload(workload.name, stream, queries, workload.statistics, types)


def _with_produced(stream: Stream, produced: Iterable[str]) -> Stream:
    """The stream with the types that queries make, where no column of types tells of them."""
    if stream.type is not None:
        return stream
    made: dict[str, ex.Expression] = {
        name: ex.Comparison("=", ex.Attribute("", TYPE), ex.Literal(name)) for name in produced
    }
    return replace(stream, types={**stream.types, **made}) if made else stream


class _Binder(QueryScope):
    """Binds one query, collecting what is wrong with it."""

    def bind(self) -> Query | None:
        query = self.query
        if isinstance(query.output, Statement):
            return bound_statement(query, self.stream, self.columns)
        if isinstance(query.output, Situations):
            found = bound_situations(self, query.output)
            if found is not None and self.reads:
                check_reading(self, found.key)
            return self._chained(found)
        if isinstance(query.output, sx.Funnel):
            self.query = query = with_exclusions(self, query.output)
            if self.errors:
                return None
        query = self.query = replace(query, pattern=with_any_type(query.pattern, self.stream.types))
        collect_components(self, query.pattern)
        check_places(self, query.pattern)
        check_marks(self, query.pattern)
        check_strategy(self)
        if self.errors:
            # Conditions would only repeat what is wrong with the pattern's names.
            return None
        self.bare = PatternBuilder(marked=False).build(query.pattern)
        self.scopes = scopes(self.bare)
        key, conditions = self._where()
        tied = component_keys(self, key)
        window = bound_window(self)
        slide = bound_slide(self, window)
        join = bound_join(self)
        check_window_clauses(self)
        grouped = isinstance(query.output, sx.Aggregates) and query.output.groups
        groups = bound_groups(self, key) if grouped else None
        output = with_picks(self, bound_output(self), key)
        if self.reads:
            check_reading(self, key)
        if self.errors:
            return None
        local, general = self._split(conditions)
        local = self._in_partitions(local, tied)
        check_conditions(self, general)
        optional = any(component.optional for component in self.components.values())
        builder = PatternBuilder(local, general, optional=optional)
        pattern = builder.build(query.pattern)
        check_selection(self, pattern, general)
        if self.errors:
            return None
        made = Query(
            name=cast(str, query.name),
            pattern=pattern,
            conditions=ordered_unique([*general, *builder.copied]),
            key=key,
            window=window,
            output=output,
            slide=slide,
            strategy=query.strategy,
            tied_key=tied,
            join=join,
            from_first=query.from_first,
            empty_rows=query.empty_rows,
            skips_past=tuple(self.components) if query.skip == "past last event" else (),
            fixed_key=self._labels(key, tied),
        )
        if groups is not None:
            made = groups.of(made)
            check_passed_over(self, made)
        return self._chained(made)

    def _chained(self, query: Query | None) -> Query | None:
        """With what it makes for other queries, and reads of them."""
        if query is None:
            return None
        # The numbers of a sequence are the stream's: of two events at one time, one of which is
        # made by a query, neither is before the other.
        numbered = self.stream.sequence is not None and not is_about_situations(query)
        lasting = (name for name in self.reads if self.produced[name].type.lasts or numbered)
        query = replace(query, into=self.query.into, reads=self.reads, lasting=tuple(lasting))
        query = replace(query, inner=self.query.part_of is not None or self.query.into_only)
        if query.reads and not is_about_situations(query):
            query = of_own_types(query, self.stream)
        if query.lasting:
            check_lasting(self, query)
        return query

    def _in_partitions(
        self, local: dict[str, tuple[ex.Expression, ...]], tied: tuple[ComponentKey, ...]
    ) -> dict[str, tuple[ex.Expression, ...]]:
        """The predicates of each alias, with those that its partition asks for."""
        if self.query.strategy == "latest" or not tied:
            return local
        return {
            alias: ordered_unique([*local.get(alias, ()), *(k.membership(alias) for k in tied)])
            for alias in self.components
        }

    def _labels(
        self, key: tuple[str, ...], tied: tuple[ComponentKey, ...]
    ) -> tuple[FixedAttribute, ...]:
        """What keys of results have besides the values of events, behind those."""
        taken = {*map(key_name, key), *(named.name for named in tied)}
        found: list[FixedAttribute] = []
        for label in self.query.key_labels:
            if label.name in taken:
                self.report(
                    QueryError(
                        f"two parts of the key are called '{label.name}'",
                        label.span,
                        "give it another name behind AS",
                    )
                )
            taken.add(label.name)
            found.append(FixedAttribute(len(key) + len(found), label.name, label.value))
        return tuple(found)

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
                part = self.without_durations(part)
                check_condition(part, self.kinds)
                kept.append(part)
            except QueryError as error:
                self.report(error)
        # What has no event between must not depend on how equalities are written.
        strict = self.query.strategy == "strict" or has_strict_gaps(self.query.pattern)
        if not self.errors and not strict:
            tied, kept = tied_attributes(self.bare, kept)
            key += [name for name in tied if name not in key]
        for part in kept:
            try:
                self._check_conjunct(part)
            except QueryError as error:
                self.report(error)
        made = self.made_alone(key)
        key = [name for name in key if name not in made]
        self.query = replace(self.query, tied_keys=(*self.query.tied_keys, *made.values()))
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
        calls = [node for node in ex.walk(condition) if isinstance(node, ex.Call)]
        looks_back = any(call.function == ex.PREV for call in calls)
        if looks_back:
            check_prev(self, condition)
        else:
            self.check_calls(condition)
        if ex.has_group_call(condition) and not looks_back:
            self.check_group_values(condition, condition.span)
        elif len(groups) > 1:
            filtered = [
                g for g in groups if isinstance(self.components[g].quantifier, sx.Exactly | sx.All)
            ]
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
