"""Plans from documents that people may have edited.

What decides how queries run are the groups: their engines, devices, segments and trees. Operators
and costs follow from them, so that those of an edited document are derived anew.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import fsum
from typing import Any

from optimizer.bind.binder import load_bound
from optimizer.cost.counting import CountedQueries
from optimizer.cost.unit_costs import DEFAULTS, UnitCosts, nanoseconds
from optimizer.engines import CONSTRUCTING, ENGINES, counting_engine, engine, label
from optimizer.engines.situation_parts import PartError, shared_part
from optimizer.ir.chain import Chain, chain_of
from optimizer.ir.pattern import alternatives, print_pattern
from optimizer.ir.query import BoundWorkload, Query, Reading
from optimizer.plan.groups import (
    Cost,
    CountingGroup,
    DeferredGroup,
    Group,
    PassGroup,
    StepwiseGroup,
    TreeGroup,
    group_type,
)
from optimizer.plan.lineage import QueryOperators, segments_of
from optimizer.plan.operators import operators
from optimizer.plan.plan import (
    NANOSECONDS,
    Plan,
    PlanError,
    from_json,
)
from optimizer.rewrite.normalize import workload_in_forms
from optimizer.statistics import Statistics
from optimizer.statistics.statistics import VERSION as STATISTICS_VERSION
from optimizer.statistics.statistics import from_document as statistics_from
from optimizer.trees import best_tree, labels_of
from optimizer.trees.tree import to_document as tree_document

EDITED = "as the plan's document says"
SAME = 1e-9  # sums of doubles in another order differ in their last digits


def load_plan(document: Mapping[str, Any]) -> Plan:
    """The plan of a document: as it is where its id is that of its content, else derived anew.

    In an edited document groups may be parted or joined, and have other engines, devices, segments
    or trees; what an engine needs and the document leaves out is filled in. A group that cannot run
    is a `PlanError` that names it and the reason; so is a document whose operators were edited.
    """
    if not isinstance(document, Mapping) or not isinstance(document.get("groups"), list):
        return from_json(document)
    plan, edit = None, None
    _check_engines(document["groups"])
    if document.get("version") == _version():
        edit = _Edit.of(document)
        document = {**document, "groups": [edit.filled(group) for group in document["groups"]]}
    plan = from_json(document)
    if edit is None or plan.id == document.get("id"):
        return plan
    return edit.derived(plan, document.get("id"))


def _version() -> int:
    from optimizer.plan.plan import VERSION

    return VERSION


def _check_engines(groups: Sequence[Any]) -> None:
    for number, group in enumerate(groups, 1):
        name = group.get("engine") if isinstance(group, Mapping) else None
        if not isinstance(name, str) or engine(name) is None:
            known = ", ".join(each.NAME for each in ENGINES)
            raise PlanError(f"group {number} has the engine {name!r}; engines are {known}")


def costs_rest_on(document: Mapping[str, Any]) -> tuple[Statistics, UnitCosts]:
    """The statistics and the unit costs by which a plan was made, from its document."""
    known = {
        **document["statistics"],
        "version": STATISTICS_VERSION,
        "rates": document["rates"],
        "assumed": document["assumed"],
    }
    costs = document.get("unit_costs")
    return statistics_from(known), UnitCosts.from_document(costs) if costs else DEFAULTS


@dataclass(frozen=True)
class _Edit:
    """What the groups of a document are checked and rated with."""

    workload: BoundWorkload
    statistics: Statistics
    unit_costs: UnitCosts

    @staticmethod
    def of(document: Mapping[str, Any]) -> _Edit:
        try:
            workload = workload_in_forms(
                load_bound(document["document"]), document.get("forms", {})
            )
            statistics, unit_costs = costs_rest_on(document)
        except (KeyError, TypeError) as error:
            raise PlanError(f"this is not a plan: it has no {error}") from None
        return _Edit(workload, statistics, unit_costs)

    def query(self, name: str) -> Query:
        found = next((query for query in self.workload.queries if query.name == name), None)
        if found is None:
            raise PlanError(f"the plan's workload has no query '{name}'")
        return found

    def filled(self, group: Mapping[str, Any]) -> Mapping[str, Any]:
        """A group's document with what its engine needs and it does not have."""
        names = group.get("queries")
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            return group  # which is said where the plan is read
        if group_type(group) is PassGroup:
            return group
        constructs = group["engine"] in {each.NAME for each in CONSTRUCTING}
        if constructs and "tree" not in group:
            if issubclass(group_type(group), StepwiseGroup):
                return {**group, "tree": {}}
            refused = [engine_ for name in names if (engine_ := self._refused(group, name))]
            if refused:
                return group
            trees = {name: self._tree(name) for name in names}
            return {**group, "tree": trees[names[0]] if len(names) == 1 else trees}
        if not constructs and not ("segments" in group and "uses" in group):
            words = [self._word(self.query(name)) for name in names]
            segments = list(dict.fromkeys(words))
            uses = {n: [segments.index(w)] for n, w in zip(names, words, strict=True)}
            return {**group, "segments": [list(word) for word in segments], "uses": uses}
        return group

    def _refused(self, group: Mapping[str, Any], name: str) -> str | None:
        known = engine(group["engine"])
        return None if known is None else known.refusal(self.query(name))

    def derived(self, plan: Plan, old: Any) -> Plan:
        """The plan with operators and costs that follow from its groups."""
        for number, group in enumerate(plan.groups, 1):
            self._check(number, group)
        groups = tuple(map(self._rated, plan.groups))
        graph = operators(self.workload, groups, self.statistics, self.unit_costs, plan.sharing)
        if replace(plan, operators=graph).id == old:
            raise PlanError(
                "the plan's operators were edited: they follow from its groups; edit the engine, "
                "device, segments or trees of a group instead"
            )
        made = replace(plan, groups=groups, operators=graph)
        ways = QueryOperators(made)
        groups = tuple(_costed(group, ways) for group in groups)
        changed = {
            name
            for before, now in zip(plan.groups, groups, strict=True)
            if before.why != now.why
            for name in now.queries
        }
        kept = tuple(c for c in plan.candidates if changed.isdisjoint(c.queries))
        shared = fsum(operator.cost for operator in graph)
        saved = plan.cost.separate - shared
        return replace(
            made,
            groups=groups,
            cost=replace(plan.cost, shared=shared),
            status="feasible",
            objective=saved,
            bound=max(plan.bound, saved),
            candidates=tuple(
                replace(c, conflicts=tuple(i for i in c.conflicts if i in {k.id for k in kept}))
                for c in kept
            ),
            chosen=tuple(i for i in plan.chosen if i in {c.id for c in kept}),
        )

    def _check(self, number: int, group: Group) -> None:
        """Refuse a group that its engine or device cannot run."""
        who = f"group {number} ({', '.join(group.queries)})"
        known = engine(group.engine)
        assert known is not None
        queries = [self.query(name) for name in group.queries]
        for query in queries:
            if why := known.refusal(query):
                raise PlanError(f"{who}: {known.LABEL} cannot run {query.name}: {why}")
        if why := known.refusal_together(queries):
            raise PlanError(f"{who}: {known.LABEL} cannot run them together: {why}")
        if group.device not in known.DEVICES:
            devices = " and ".join(known.DEVICES)
            raise PlanError(f"{who}: {known.LABEL} runs on {devices}, and not on {group.device}")
        if isinstance(group, PassGroup):
            self._check_shared(who, group, queries)
        if isinstance(group, CountingGroup):
            self._check_segments(who, group, queries)
        elif isinstance(group, TreeGroup | DeferredGroup) and {*group.trees} != {*group.queries}:
            raise PlanError(f"{who}: it has no tree for each of its queries")

    @staticmethod
    def _check_shared(who: str, group: PassGroup, queries: Sequence[Query]) -> None:
        named = {query.name: query for query in queries}
        readers = [name for places in group.shared for name in places]
        if len(set(readers)) < len(readers):
            raise PlanError(f"{who}: a query reads one shared part of patterns at most")
        for places in group.shared:
            try:
                shared_part(places, named)
            except PartError as error:
                raise PlanError(f"{who}: {error}") from None

    def _check_segments(self, who: str, group: CountingGroup, queries: Sequence[Query]) -> None:
        if any(not 0 <= n < len(group.segments) for used in group.uses.values() for n in used):
            raise PlanError(f"{who}: it uses a segment that it does not have")
        segments = segments_of(group)
        for query in queries:
            parts = segments.get(query.name, ())
            if tuple(step for part in parts for step in part) != self._word(query):
                raise PlanError(f"{who}: the segments of {query.name} do not make up its pattern")

    def _rated(self, group: Group) -> Group:
        """A counting group with what its engine takes; of others operators say it."""
        if not isinstance(group, CountingGroup):
            return group
        counting = CountedQueries(tuple(map(self.query, group.queries)), self.statistics)
        chosen = counting_engine(group.engine)
        found = nanoseconds(chosen.operations(counting, group.lengths), self.unit_costs)
        return _with_cost(group, found)

    def _tree(self, name: str) -> dict[str, Any]:
        """The best tree for a query by itself."""
        query = self.query(name)
        parts = []
        for pattern in alternatives(query.pattern):
            asked = Reading.of(query, pattern).asked
            parts.append(tree_document(best_tree(asked, self.statistics).tree, labels_of(asked)))
        return parts[0] if len(parts) == 1 else {"operator": "OR", "parts": parts}

    @staticmethod
    def _word(query: Query) -> tuple[str, ...]:
        """The steps of a query as segments have them."""
        chain = chain_of(query)
        if not isinstance(chain, Chain):
            return (print_pattern(query.pattern),)
        return tuple(
            " ".join([str(component.symbol), *sorted(f"!{symbol}" for symbol in gap)])
            for component, gap in zip(chain.components, chain.gaps, strict=True)
        )


def _costed(group: Group, ways: QueryOperators) -> Group:
    """A group that constructs matches, with what its operators take."""
    if isinstance(group, CountingGroup | StepwiseGroup | PassGroup):
        return group
    used = {o.id: o.cost for name in group.queries for o in ways.of(name)}
    return _with_cost(group, fsum(used.values()))


def _with_cost(group: Group, shared: float) -> Group:
    """The group with that cost; where it had another one, it was edited."""
    before = group.cost
    if before is not None and abs(before.shared - shared) <= SAME * max(before.shared, shared):
        return group
    separate = shared if before is None else before.separate
    why = f"{EDITED}: by {label(group.engine)}"
    return replace(group, cost=Cost(separate, shared, NANOSECONDS), why=why)
