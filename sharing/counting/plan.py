"""The part of a plan with the queries that are counted: chosen candidates, and their groups."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import fsum, inf
from typing import Any

from optimizer.engines import chopconnect, counting_engine
from optimizer.ir.chain import Chain, chain_of
from optimizer.ir.pattern import print_pattern
from optimizer.ir.query import Query
from optimizer.plan.groups import Cost, CountingGroup
from optimizer.plan.plan import Plan
from optimizer.statistics import Statistics
from sharing.counting.benefit.aseq import AseqModel
from sharing.counting.benefit.measured import MeasuredModel
from sharing.counting.candidates import Candidate as Mined
from sharing.counting.candidates import (
    CandidatePosition,
    Candidates,
    CountSetting,
    QuerySteps,
    SharedSetting,
    Step,
    mine,
)
from sharing.counting.choice import CandidateChoice, choose_among
from sharing.counting.group_candidates import Rating, listed
from sharing.counting.grouping import (
    GroupAssigner,
    QueryGroup,
    lengths,
    setting_of,
    together,
    trusted,
)
from sharing.request import NANOSECONDS_UNIT, OPERATIONS, PlanPart, PlanRequest

EXACTLY = 6  # queries that could run together, and are parted in the best of all ways
MORE_EXACTLY = 9  # the same where an exact solver is asked for
PROVEN = 1 - 1e-9  # sums of doubles in another order differ in their last digits
UNSHARED = "counted alone: by the thesis' model it shares nothing that pays"


@dataclass(frozen=True, eq=False)
class CountingProblem:
    """Queries that can be counted, and what those that may share have in common."""

    queries: tuple[Query, ...]
    steps: Mapping[str, QuerySteps]  # of those that are sequences of single events
    mined: Mapping[SharedSetting, Candidates]

    @property
    def number(self) -> int:
        """How many candidates there are."""
        return sum(map(len, self.mined.values()))


def counting_problem(queries: Sequence[Query], sharing: bool = True) -> CountingProblem:
    """What queries all of which can be counted have in common; nothing without `sharing`."""
    steps = {q.name: found for q in queries if (found := steps_of(q)) is not None}
    by_setting: dict[SharedSetting, list[QuerySteps]] = {}
    for found in steps.values():
        by_setting.setdefault(found.setting.shared, []).append(found)
    mined = {setting: mine(some if sharing else ()) for setting, some in by_setting.items()}
    return CountingProblem(tuple(queries), steps, mined)


def counted(problem: CountingProblem, request: PlanRequest) -> PlanPart:
    """The groups of queries that are counted, and what becomes of each candidate."""
    if request.model == "aseq":
        return _by_thesis(problem, request)
    known, unit_costs = request.statistics, request.unit_costs
    choices = _choices(problem, request)
    assigning = GroupAssigner(
        known,
        unit_costs,
        {name: parts for choice in choices.values() for name, parts in _lengths(choice).items()},
        {
            setting: choice.solution.bound if _is_bound(problem.mined[setting]) else inf
            for setting, choice in choices.items()
        },
        request.sharing,
        EXACTLY if request.solver == "greedy" else MORE_EXACTLY,
        request.device,
    )
    assigned = assigning.assigned(problem.queries)
    rating = Rating(problem.steps, problem.mined, assigning, request, choices)
    rated = [rating.of(group) for group in assigned.groups]
    planned = tuple(
        _group(found.group, found.choice, problem, assigning, request) for found in rated
    )
    searched = request.sharing and not request.is_late
    apart = rating.apart([found.group for found in rated]) if searched else []
    total = sum(found.group.nanoseconds for found in rated)
    least = min(total, assigned.least)
    return PlanPart(
        planned,
        (*(c for found in rated for c in found.candidates), *apart),
        tuple(name for found in rated for name in found.chosen),
        fsum(assigning.alone(query).nanoseconds for query in problem.queries),
        least,
        least >= total * PROVEN,
    )


def _is_bound(mined: Candidates) -> bool:
    """Does the model of segments bound what they save? Not where windows differ: the counters of a
    segment are kept for the widest.
    """
    return mined.complete and len({(q.setting.window, q.setting.slide) for q in mined.of}) == 1


def _choices(
    problem: CountingProblem, request: PlanRequest
) -> dict[SharedSetting, CandidateChoice]:
    """The best segments for Chop-Connect, where it may be taken."""
    if request.device not in chopconnect.DEVICES or request.is_late:
        return {}
    by_setting: dict[SharedSetting, list[Query]] = {}
    for query in problem.queries:
        by_setting.setdefault(setting_of(query).shared, []).append(query)
    model = MeasuredModel(request.statistics, request.unit_costs)
    earlier = earlier_candidates(request.earlier, list(problem.steps.values()))
    return {
        setting: choose_among(candidates, model, request.solver, request.limited, earlier=earlier)
        for setting, candidates in problem.mined.items()
        if len(candidates) and trusted(by_setting[setting], request.statistics)
    }


def _by_thesis(problem: CountingProblem, request: PlanRequest) -> PlanPart:
    known = request.statistics
    model = AseqModel(known.rates, _selectivities(known, problem), _partitions(known, problem))
    assigning = GroupAssigner(
        known, request.unit_costs, sharing=request.sharing, device=request.device
    )
    earlier = earlier_candidates(request.earlier, list(problem.steps.values()))
    queries = {query.name: query for query in problem.queries}
    groups: list[CountingGroup] = []
    candidates, chosen, done, proven = [], [], set[str](), True
    # Its equations are of one window and slide.
    by_setting: dict[CountSetting, list[QuerySteps]] = {}
    for steps in problem.steps.values():
        by_setting.setdefault(steps.setting, []).append(steps)
    for some in by_setting.values():
        mined = mine(some if request.sharing else ())
        if not len(mined) or request.device not in chopconnect.DEVICES:
            continue
        choice = choose_among(mined, model, request.solver, request.limited, earlier=earlier)
        found, ids = listed(choice, OPERATIONS)
        candidates += found
        chosen += ids
        proven &= choice.solution.proven and mined.complete
        for names in together(choice.chopped):
            if len(names) < 2:
                continue
            done.update(names)
            members = [queries[name] for name in names]
            cut = {name: _lengths(choice)[name] for name in names}
            taken = next(
                r for r in assigning.ranked(members, cut, any_rates=True)
                if r.engine == chopconnect.NAME
            )  # fmt: skip
            why = f"{chopconnect.TOGETHER}, as equation 4.4 says; {taken.why}"
            group = QueryGroup(tuple(members), taken.engine, why, taken.nanoseconds)
            groups.append(_group(group, choice, problem, assigning, request))
    for query in problem.queries:
        if query.name not in done:
            group = assigning.alone_as_group(query, UNSHARED)
            groups.append(_group(group, None, problem, assigning, request))
    shared = sum(group.cost.shared for group in groups if group.cost is not None)
    return PlanPart(
        tuple(groups),
        tuple(candidates),
        tuple(chosen),
        fsum(assigning.alone(query).nanoseconds for query in problem.queries),
        shared,
        proven,
    )


def steps_of(query: Query) -> QuerySteps | None:
    """A query as sharing sees it; None where it is not one sequence of single events."""
    chain = chain_of(query)
    if not isinstance(chain, Chain):
        return None
    parts = zip(chain.components, chain.gaps, strict=True)
    steps = tuple(Step(component.symbol, gap) for component, gap in parts)
    return QuerySteps(query.name, steps, setting_of(query))


def _lengths(choice: CandidateChoice) -> dict[str, tuple[int, ...]]:
    return lengths(choice.chopped)


def _selectivities(known: Statistics, problem: CountingProblem) -> dict[Any, float]:
    """The share of a type's events that are of a symbol, for symbols with predicates."""
    every = problem.steps.values()
    symbols = {step.symbol for query in every for step in query.steps if step.symbol.predicates}
    return {symbol: known.local(symbol) for symbol in symbols}


def _partitions(known: Statistics, problem: CountingProblem) -> dict[tuple[str, ...], float]:
    """How many values each partition key has."""
    keys = {setting.key for setting in problem.mined}
    return {key: known.key(key).cardinality for key in keys}


def earlier_candidates(plan: Plan | None, steps: Sequence[QuerySteps]) -> list[Mined]:
    """What an earlier plan shared, as far as these queries still have it."""
    if plan is None:
        return []
    chosen = set(plan.chosen)
    shared = sorted((c for c in plan.candidates if c.id in chosen), key=lambda c: -c.benefit)
    earlier = {c.pattern: set(c.queries) for c in shared}
    found = []
    taken: set[tuple[str, int]] = set()  # steps: other engines share pieces that overlap
    for pattern, names in earlier.items():
        places, same = [], None
        for query in steps:
            texts = tuple(map(str, query.steps))
            for at in range(len(texts) - len(pattern) + 1):
                cells = {(query.name, at + i) for i in range(len(pattern))}
                if query.name not in names or taken & cells:
                    continue
                if texts[at : at + len(pattern)] == pattern:
                    taken |= cells
                    places.append(CandidatePosition(query.name, at))
                    same = query.steps[at : at + len(pattern)]
        if same is not None:
            found.append(Mined(same, "substring", tuple(places)))
    return found


def _group(
    group: QueryGroup,
    choice: CandidateChoice | None,
    problem: CountingProblem,
    assigning: GroupAssigner,
    request: PlanRequest,
) -> CountingGroup:
    """A group as a plan has it; each query is one segment where no choice chops it."""
    segments: dict[tuple[str, ...], int] = {}
    uses = {}
    for query in group.queries:
        steps = problem.steps.get(query.name)
        texts = (print_pattern(query.pattern),) if steps is None else _texts(steps)
        cut = None if choice is None else choice.chopped.get(query.name)
        parts = [texts] if cut is None else [texts[part.start : part.end] for part in cut]
        uses[query.name] = tuple(segments.setdefault(part, len(segments)) for part in parts)
    separate = fsum(assigning.alone(query).nanoseconds for query in group.queries)
    return CountingGroup(
        group.names,
        group.engine,
        group.why,
        tuple(segments),
        uses,
        Cost(separate, group.nanoseconds, NANOSECONDS_UNIT),
        request.device if request.device in counting_engine(group.engine).DEVICES else "cpu",
    )


def _texts(steps: QuerySteps) -> tuple[str, ...]:
    return tuple(map(str, steps.steps))
