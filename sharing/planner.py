"""Workload to physical plan, in named stages: each gives a value that can be looked at.

bind -> normalize -> constants -> candidates -> solve -> assemble -> check
"""

from __future__ import annotations

import gc
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from math import fsum, inf, isfinite
from typing import Any
from typing import Literal as OneOf

import numpy as np

from optimizer.bind.binder import bind
from optimizer.cost.stages import separate_preparation
from optimizer.cost.unit_costs import COMPILED, DEFAULTS, UnitCosts
from optimizer.engines import engine, pass_engine_of, situations, stepwise
from optimizer.engines.spec import Device, PassEngine
from optimizer.ir.automaton import countable
from optimizer.ir.pattern import events
from optimizer.ir.produced import rounds_of
from optimizer.ir.query import Aggregation, BoundWorkload, Query
from optimizer.plan.groups import Cost, Group, PassGroup, StepwiseGroup
from optimizer.plan.operators import operators
from optimizer.plan.plan import (
    Model,
    Plan,
    PlanCandidate,
    PlanError,
    Solver,
    SparkLayout,
)
from optimizer.rewrite.normalize import alternative_forms, normalize_workload, workload_in_forms
from optimizer.statistics import Statistics, given, with_defaults
from optimizer.statistics.statistics import about
from optimizer.trees import TreeError, best_tree, labels_of
from optimizer.trees.problem import Shape
from optimizer.trees.search import refusal
from optimizer.trees.tree import Propagation
from optimizer.trees.tree import to_document as tree_document
from sharing.counting.compared import is_counted_in_order
from sharing.counting.plan import CountingProblem, counted, counting_problem
from sharing.matching.listed import ListedQuery, listed_query
from sharing.matching.nodes import NodeProblem
from sharing.matching.plan import detected, tree_problems
from sharing.obstacles import obstacles
from sharing.request import NANOSECONDS_UNIT, PlanPart, PlanRequest
from sharing.situations.plan import situations_part
from sharing.solvers.candidates import DEFAULT, Options
from workloads.errors import SheafError, TooLargeError, UnsupportedError
from workloads.workload import Statistics as Written
from workloads.workload import Workload, to_document

ANY_LAYOUT = SparkLayout()
WORTH_REWRITING = 0.99  # of the cost of the planning form
LATE = (
    "planning was cut short when its time was up: there may be more that queries could share; give "
    "it more time, or plan fewer queries"
)
MAX_JOINED = 60_000  # components of all queries whose matches are constructed
ROUNDED = 1e-12  # of a sum, in which the order of its terms shows


class CostsError(SheafError):
    """A workload whose costs no number can hold."""

    def __init__(self) -> None:
        super().__init__(
            "its costs are beyond all numbers: the rates, the window and the length of a pattern "
            "make too many matches; give rates in events per second, or a narrower window"
        )


@dataclass(frozen=True)
class PlanOptions:
    """How a workload is planned.

    Without `sharing` each query is a group. Exact solvers begin from what an `earlier` plan shared.
    With `strict`, statistics that nobody gave are an error that names them. `unit_costs` are what
    operations take on this machine: by them each group gets its engine. After so many `seconds`
    nothing more is searched for: what is left is planned in the quickest way, and the plan says so.
    For `device`, `counting`, `shape` and `propagation` see `PlanRequest`.
    """

    solver: Solver = "greedy"
    model: Model = "measured"
    sharing: bool = True
    earlier: Plan | None = None
    strict: bool = False
    budget: Options = DEFAULT
    unit_costs: UnitCosts = DEFAULTS
    device: Device = "cpu"
    counting: bool = True
    shape: Shape | OneOf["stepwise"] = "any"
    propagation: Propagation | OneOf["auto"] = "auto"
    spark: SparkLayout = ANY_LAYOUT
    seconds: float | None = None


DEFAULT_OPTIONS = PlanOptions()


@dataclass(frozen=True)
class Constants:
    """The numbers that all costs rest on; `statistics.assumed` names those that nobody gave."""

    statistics: Statistics
    unit_costs: UnitCosts


@dataclass(frozen=True, eq=False)
class PassedQueries:
    """Queries that an engine answers in one pass over the events."""

    engine: PassEngine
    queries: tuple[Query, ...]


@dataclass(frozen=True, eq=False)
class CandidateSets:
    """How queries can run, and what those that run alike have in common.

    `uncounted` says why a query's matches are constructed, and `treeless` why not by a tree.
    """

    counted: CountingProblem
    trees: tuple[NodeProblem, ...]
    stepwise: tuple[Query, ...]
    compact: tuple[ListedQuery, ...]
    passed: tuple[PassedQueries, ...]
    uncounted: Mapping[str, str]
    treeless: Mapping[str, str]


@dataclass(frozen=True, eq=False)
class PlanningStages:
    """What each stage of planning gave, in their order; the last is the plan, checked."""

    bound: BoundWorkload
    normalized: BoundWorkload
    constants: Constants
    candidates: CandidateSets
    solved: PlanPart
    plan: Plan


def plan(
    workload: Workload | BoundWorkload,
    statistics: Written | None = None,
    options: PlanOptions = DEFAULT_OPTIONS,
    document: Mapping[str, Any] | None = None,
) -> PlanningStages:
    """The stages of planning a workload, and the plan that they lead to.

    `statistics` take the place of the workload's own; what they leave out is assumed, and the plan
    says so. `document` is the workload's, which the plan carries along: a `BoundWorkload` has none.
    Costs beyond all numbers are a `CostsError`.
    """
    if isinstance(workload, BoundWorkload):
        bound, written = workload, document or {}
    else:
        bound, written = bind(workload), document or to_document(workload)
    deadline = None if options.seconds is None else time.monotonic() + options.seconds
    normalized = normalize_workload(bound)
    try:
        with np.errstate(over="raise", invalid="raise"), _uncollected():
            forms = _forms(normalized, statistics, options, deadline)
            normalized = workload_in_forms(normalized, forms)
            constants = _constants(normalized, statistics, options)
            request = replace(_request(constants, options), deadline=deadline)
            candidates = _candidates(normalized, request)
            solved = _solved_rounds(normalized, candidates, request)
            made = _assembled(normalized, written, solved, request, options.spark)
            made = replace(made, forms=forms)
    except (OverflowError, FloatingPointError):
        raise CostsError from None
    _check(made)
    return PlanningStages(bound, normalized, constants, candidates, solved, made)


@contextmanager
def _uncollected() -> Iterator[None]:
    """No search for garbage that refers to itself: planning makes none to speak of, and of a
    thousand queries so much else that the search takes a sixth of the time."""
    is_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if is_on:
            gc.enable()


def make_plan(
    workload: BoundWorkload,
    document: Mapping[str, Any],
    solver: Solver = "greedy",
    model: Model = "measured",
    statistics: Written | None = None,
    sharing: bool = True,
    earlier: Plan | None = None,
    strict: bool = False,
    options: Options = DEFAULT,
    unit_costs: UnitCosts = DEFAULTS,
    device: Device = "cpu",
    counting: bool = True,
    shape: Shape | OneOf["stepwise"] = "any",
    propagation: Propagation | OneOf["auto"] = "auto",
    spark: SparkLayout = ANY_LAYOUT,
) -> Plan:
    """The plan that `plan` gives for a bound workload and these options."""
    chosen = PlanOptions(
        solver,
        model,
        sharing,
        earlier,
        strict,
        options,
        unit_costs,
        device,
        counting,
        shape,
        propagation,
        spark,
    )
    return plan(workload, statistics, chosen, document).plan


# --- the stages ----------------------------------------------------------------------------------


def _constants(
    workload: BoundWorkload, statistics: Written | None, options: PlanOptions
) -> Constants:
    """What is known of the stream and of the machine, with assumptions where nothing is."""
    written = statistics or workload.statistics
    known = written if isinstance(written, Statistics) else given(written, workload.queries)
    full = known if options.strict else with_defaults(known, workload.queries)
    return Constants(full, options.unit_costs)


def _forms(
    workload: BoundWorkload,
    statistics: Written | None,
    options: PlanOptions,
    deadline: float | None = None,
) -> dict[str, tuple[str, ...]]:
    """The rules by which queries cost less alone than in their planning form, by query.

    Forms that only the slowest engine runs are left out: their costs are not to be trusted.
    """
    found = {}
    alone = replace(options, sharing=False, earlier=None)

    def cost(query: Query) -> float:
        single = replace(workload, queries=(query,))
        try:
            request = _request(_constants(single, statistics, alone), alone)
            return _solved(single, _candidates(single, request), request).separate
        except (SheafError, OverflowError, FloatingPointError):
            return inf  # a form that cannot be costed is not taken

    for query in workload.queries:
        if deadline is not None and time.monotonic() >= deadline:
            break
        forms = [f for f in alternative_forms(query, workload.stream) if not f.is_projected]
        if len(forms) > 1:
            costs = [cost(form.query) for form in forms]
            best = min(range(len(forms)), key=costs.__getitem__)
            if costs[best] < costs[0] * WORTH_REWRITING:
                found[query.name] = forms[best].rules
    return found


def _request(constants: Constants, options: PlanOptions) -> PlanRequest:
    return PlanRequest(
        constants.statistics,
        constants.unit_costs,
        options.model,
        options.solver,
        options.budget,
        options.sharing,
        options.earlier,
        options.device,
        options.counting,
        options.shape,
        options.propagation,
    )


def _candidates(workload: BoundWorkload, request: PlanRequest) -> CandidateSets:
    """Which queries are counted, run as trees, or neither, and what each sort has in common."""
    passed = _passed(workload.queries, request.sharing)
    taken = {query.name for each in passed for query in each.queries}
    queries = tuple(query for query in workload.queries if query.name not in taken)
    off = None if request.counting else "counting is switched off"
    uncounted = {
        q.name: why
        for q in queries
        if (why := countable(q) or off) is not None and not is_counted_in_order(q, request)
    }
    _check_size([q for q in queries if q.name in uncounted])
    by_trees = refusal if request.shape != "stepwise" else lambda query: "trees are switched off"
    treeless = {
        q.name: why for q in queries if q.name in uncounted and (why := by_trees(q)) is not None
    }
    for query in queries:
        if query.name in treeless and (why := stepwise.refusal(query)) is not None:
            raise UnsupportedError(f"no engine runs query {query.name}: {why}")
    joined = [q for q in queries if q.name in uncounted and q.name not in treeless]
    listed = {q.name: found for q in joined if (found := listed_query(q, request)) is not None}
    trees = [q for q in joined if q.name not in listed]
    return CandidateSets(
        counting_problem([q for q in queries if q.name not in uncounted], request.sharing),
        tuple(tree_problems(trees, request)),
        tuple(q for q in queries if q.name in treeless),
        tuple(listed.values()),
        tuple(passed),
        uncounted,
        treeless,
    )


def _passed(queries: Iterable[Query], sharing: bool) -> list[PassedQueries]:
    """The queries that engines answer in one pass, those that go together with one another."""
    found: list[PassedQueries] = []
    for query in queries:
        if (chosen := pass_engine_of(query)) is None:
            continue
        for place, group in enumerate(found):
            together = (*group.queries, query)
            if sharing and group.engine is chosen and chosen.refusal_together(together) is None:
                found[place] = PassedQueries(chosen, together)
                break
        else:
            found.append(PassedQueries(chosen, (query,)))
    return found


def _check_size(constructed: Sequence[Query]) -> None:
    """Raise where queries that construct their matches have too many components together."""
    number = sum(1 for query in constructed for _ in events(query.pattern))
    if number > MAX_JOINED:
        raise TooLargeError(
            f"the queries whose matches are constructed have {number:,} components together, and "
            f"at most {MAX_JOINED:,} are planned at once; split the workload"
        )


def _solved(workload: BoundWorkload, candidates: CandidateSets, request: PlanRequest) -> PlanPart:
    """What is shared, in which groups, by which engines."""
    return _together(
        [
            counted(candidates.counted, request),
            *detected(candidates.trees, workload, request, candidates.uncounted),
            *(_stepwise(query, candidates, request) for query in candidates.stepwise),
            *(listed.part for listed in candidates.compact),
            *(_pass_part(passed, request) for passed in candidates.passed),
        ]
    )


def _solved_rounds(
    workload: BoundWorkload, candidates: CandidateSets, request: PlanRequest
) -> PlanPart:
    """The same where queries read rows of others: what runs in one round is solved together."""
    if not workload.is_chained:
        return _solved(workload, candidates, request)
    rounds = rounds_of(workload.queries)
    parts = [replace(workload, queries=queries) for queries in rounds]
    solved = [_solved(part, _candidates(part, request), request) for part in parts]
    return _together(_in_round(part, number, len(rounds)) for number, part in enumerate(solved, 1))


def _in_round(part: PlanPart, number: int, rounds: int) -> PlanPart:
    """With groups that say in which round they run, and candidates that no other round has."""
    names = {candidate.id: f"{candidate.id}-round{number}" for candidate in part.candidates}
    candidates = tuple(
        replace(
            candidate,
            id=names[candidate.id],
            conflicts=tuple(names.get(other, other) for other in candidate.conflicts),
        )
        for candidate in part.candidates
    )
    groups = tuple(
        replace(group, why=f"{group.why}; in round {number} of {rounds}") for group in part.groups
    )
    chosen = tuple(names.get(name, name) for name in part.chosen)
    return replace(part, groups=groups, candidates=candidates, chosen=chosen)


def _pass_part(passed: PassedQueries, request: PlanRequest) -> PlanPart:
    """A group of queries that one pass answers."""
    chosen, queries, known = passed.engine, passed.queries, request.statistics
    if chosen.NAME == situations.NAME:
        return situations_part(queries, request)
    shared = chosen.cost(queries, known)
    separate = fsum(chosen.cost((query,), known) for query in queries)
    many = f"; {chosen.done_once(queries)}" if len(queries) > 1 else ""
    cost = Cost(separate, shared, NANOSECONDS_UNIT)
    names = tuple(query.name for query in queries)
    group = PassGroup(names, chosen.NAME, chosen.LABEL + many, cost)
    return PlanPart((group,), separate=separate, least=shared)


def _together(parts: Iterable[PlanPart]) -> PlanPart:
    """All parts as one."""
    some = tuple(parts)
    return PlanPart(
        tuple(group for part in some for group in part.groups),
        tuple(candidate for part in some for candidate in part.candidates),
        tuple(name for part in some for name in part.chosen),
        fsum(part.separate for part in some),
        fsum(part.least for part in some),
        all(part.proven for part in some),
    )


def _assembled(
    workload: BoundWorkload,
    document: Mapping[str, Any],
    solved: PlanPart,
    request: PlanRequest,
    spark: SparkLayout,
) -> Plan:
    """The plan: what was solved, and the graph of operators that follows from it."""
    queries, known = workload.queries, request.statistics
    place = {query.name: i for i, query in enumerate(queries)}
    groups = tuple(sorted(solved.groups, key=lambda group: place[group.queries[0]]))
    graph = operators(workload, groups, known, request.unit_costs, request.sharing)
    shared = fsum(operator.cost for operator in graph)
    # Rows are made and written once in any case. Sharing saves what groups take less than their
    # queries one by one, and reading, testing and ordering events for each query.
    together = fsum(group.cost.shared for group in groups if group.cost is not None)
    given = (workload, groups, known, request.unit_costs)
    prepared = separate_preparation(graph, *given) if request.sharing and len(queries) > 1 else 0.0
    saved = solved.separate - together + prepared if request.sharing else 0.0
    if abs(saved) <= ROUNDED * solved.separate:
        saved = 0.0
    separate = shared + saved
    return Plan(
        workload=workload.name,
        queries=tuple(query.name for query in queries),
        solver=request.solver,
        model=request.model,
        status="optimal" if solved.proven and not request.is_late else "feasible",
        objective=saved,
        bound=saved if solved.proven else max(saved, solved.separate - solved.least + prepared),
        cost=Cost(separate, shared, NANOSECONDS_UNIT),
        candidates=solved.candidates,
        chosen=solved.chosen,
        groups=groups,
        operators=graph,
        rates=dict(known.rates),
        assumed=known.assumed,
        obstacles=_obstacles(queries, groups, solved.candidates, request),
        document=document,
        statistics=about(known),
        unit_costs=request.unit_costs.to_document(),
        sharing=request.sharing,
        spark=spark,
    )


def _obstacles(
    queries: Sequence[Query],
    groups: Sequence[Group],
    candidates: Sequence[PlanCandidate],
    request: PlanRequest,
) -> tuple[str, ...]:
    """What keeps queries from sharing; that planning was cut short, where it was."""
    if request.is_late:
        return (LATE,)
    return obstacles(queries, groups, candidates) if request.sharing else ()


def _check(plan: Plan) -> None:
    """Raise where the plan cannot run: a plan checks its graph when it is made."""
    if not all(map(isfinite, (plan.cost.separate, plan.cost.shared, plan.objective, plan.bound))):
        raise CostsError
    for group in plan.groups:
        named = engine(group.engine)
        if named is None or group.device not in named.DEVICES:
            who = ", ".join(group.queries)
            raise PlanError(f"{group.engine} does not run on {group.device}: {who}")


def _stepwise(query: Query, candidates: CandidateSets, request: PlanRequest) -> PlanPart:
    """A query that constructs its matches one component after the other, alone."""
    why = "constructs its matches"
    if isinstance(query.output, Aggregation):
        why += f" to count them: {candidates.uncounted[query.name]}"
    why += f"; one component after the other: {candidates.treeless[query.name]}"
    try:
        found = best_tree(query, request.statistics, model=COMPILED)
    except (TreeError, UnsupportedError):
        return PlanPart((StepwiseGroup((query.name,), why),))
    nanoseconds = request.unit_costs.each.joined * found.per_second
    group = StepwiseGroup(
        (query.name,),
        why,
        tree_document(found.tree, labels_of(query)),
        Cost(nanoseconds, nanoseconds, NANOSECONDS_UNIT),
    )
    return PlanPart((group,), separate=nanoseconds, least=nanoseconds)
