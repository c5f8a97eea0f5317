"""What a plan says of queries that are counted: segments, engines, and what these save."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from optimizer.chains import Chain, chain_of
from optimizer.ir.pattern import positive_events, print_pattern
from optimizer.ir.query import Query
from optimizer.physical.by_engine import by_engine
from optimizer.physical.groups import CountingGroup, Device
from optimizer.physical.operators import Together
from optimizer.physical.plan import Candidate, Cost, Plan
from optimizer.statistics import Statistics
from sharing.assign import Assigning
from sharing.benefit import BenefitModel
from sharing.benefit.aseq import AseqModel, unshared
from sharing.benefit.measured import MeasuredModel
from sharing.candidates import Candidate as Shared
from sharing.candidates import Place
from sharing.choose import Choice, Reason, choose
from sharing.grouping import lengths
from sharing.obstacles import obstacles
from sharing.part import NANOSECONDS, Part, PlanRequest
from sharing.steps import QuerySteps, Setting, Step

LISTED_CONFLICTS = 1000  # of one candidate
EXACTLY = 6  # queries that could run together, and are parted in the best of all ways
MORE_EXACTLY = 9  # the same where an exact solver is asked for
PROVEN = 1 - 1e-9  # sums of doubles in another order differ in their last digits


def counted(queries: Sequence[Query], request: PlanRequest) -> Part:
    """Plan queries all of which can be counted.

    By the thesis' model Chop-Connect saves what the chosen candidates are worth; by the measured
    one the groups' engines save what they take less than each query by itself.
    """
    known, unit_costs = request.statistics, request.unit_costs
    steps = [found for query in queries if (found := steps_of(query)) is not None]
    thesis = AseqModel(known.rates, _selectivities(known, steps))
    by_thesis = request.model == "aseq"
    model: BenefitModel = thesis if by_thesis else MeasuredModel(known, unit_costs)
    choice = choose(
        steps if request.sharing else (),
        model,
        request.solver,
        request.options,
        earlier=_earlier(request.earlier, steps),
    )
    assigning = Assigning(
        known,
        unit_costs,
        lengths(choice.chopped),
        0.0 if by_thesis else choice.solution.bound,
        request.sharing,
        EXACTLY if request.solver == "greedy" else MORE_EXACTLY,
        request.device,
    )
    each = {query.name: assigning.alone(query) for query in queries}
    groups, nanoseconds, least = assigning.assigned(queries)
    planned = tuple(_group(group, choice, each, request.device) for group in groups)
    candidates, chosen = _candidates(choice)
    if by_thesis:
        solution = choice.solution
        separate = sum(_alone(query, thesis) for query in queries)
        shared = max(0.0, separate - solution.weight)
        saved, bound, proven = solution.weight, solution.bound, solution.proven
    else:
        by_name = {query.name: query for query in queries}
        candidates, chosen = by_engine(candidates, chosen, planned, by_name, known, unit_costs)
        separate, shared = sum(each.values()), nanoseconds
        saved = separate - shared
        bound = max(separate - least, saved)
        proven = saved >= bound * PROVEN
    return Part(
        planned,
        candidates,
        chosen,
        tuple(map(str, obstacles(steps))) if request.sharing else (),
        separate,
        shared,
        saved,
        bound,
        proven,
    )


def steps_of(query: Query) -> QuerySteps | None:
    """A query as sharing sees it; None where it is not one sequence of single events."""
    chain = chain_of(query)
    if not isinstance(chain, Chain):
        return None
    parts = zip(chain.components, chain.gaps, strict=True)
    steps = tuple(Step(component.symbol, gap) for component, gap in parts)
    return QuerySteps(query.name, steps, Setting(query.key, query.window, query.slide))


def _selectivities(known: Statistics, steps: Iterable[QuerySteps]) -> dict[Any, float]:
    """The share of a type's events that are of a symbol, for symbols with predicates."""
    symbols = {step.symbol for query in steps for step in query.steps if step.symbol.predicates}
    return {symbol: known.local(symbol) for symbol in symbols}


def _alone(query: Query, model: AseqModel) -> float:
    """What A-Seq spends on a query that shares nothing (equation 4.2 for one query)."""
    symbols = [event.symbol for event in positive_events(query.pattern)]
    setting = Setting(query.key, query.window, query.slide)
    N0, f, keys = model.in_window(setting, symbols[0])
    return keys * unshared(N0, 1.0, float(len(symbols)), f)


def _earlier(plan: Plan | None, steps: Sequence[QuerySteps]) -> list[Shared]:
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
                    places.append(Place(query.name, at))
                    same = query.steps[at : at + len(pattern)]
        if same is not None:
            found.append(Shared(same, "substring", tuple(places)))
    return found


def _candidates(choice: Choice) -> tuple[tuple[Candidate, ...], tuple[str, ...]]:
    """All candidates of a choice as a plan lists them, and the ids of the chosen ones."""
    every, graph = choice.candidates, choice.graph
    listed = list(every)
    ids = [candidate.id for candidate in listed]
    found = []
    for i, candidate in enumerate(listed):
        near = graph.neighbours(i)
        found.append(
            Candidate(
                id=ids[i],
                pattern=tuple(map(str, candidate.steps)),
                queries=candidate.queries,
                kind=candidate.kind,
                benefit=float(choice.weights[i]),
                conflicts=tuple(ids[int(j)] for j in near[:LISTED_CONFLICTS]),
                conflicting=len(near),
                why=_why(choice, choice.reason(i), ids),
            )
        )
    return tuple(found), tuple(ids[i] for i in choice.solution.chosen)


def _why(choice: Choice, reason: Reason, ids: Sequence[str]) -> str:
    match reason.why:
        case "chosen":
            return "chosen"
        case "chosen in part":
            return "chosen for some of its queries: there it pays more"
        case "does not pay":
            return "connecting it costs more than computing it in each query"
        case "conflict":
            assert reason.other is not None
            symbols = ", ".join(map(str, choice.candidates[reason.other].steps))
            return f"overlaps {ids[reason.other]} ({symbols}), which is chosen"
        case "left out":
            return "pays, but was left out in favour of others"


@dataclass
class _Pieces:
    """The segments of a group: each distinct one once, and which of them each query is made of."""

    segments: dict[tuple[str, ...], int]
    uses: dict[str, tuple[int, ...]]


def _pieces(group: Together, choice: Choice) -> _Pieces:
    """The segments that the choice chops the group's queries into; a query may be one segment."""
    pieces = _Pieces({}, {})
    steps = {query.name: query.steps for query in choice.candidates.of}
    for query in group.queries:
        chopped = choice.chopped.get(query.name)
        if chopped is None:
            parts: list[tuple[str, ...]] = [(print_pattern(query.pattern),)]
        else:
            texts = tuple(map(str, steps[query.name]))
            parts = [texts[segment.start : segment.end] for segment in chopped]
        numbers = [pieces.segments.setdefault(part, len(pieces.segments)) for part in parts]
        pieces.uses[query.name] = tuple(numbers)
    return pieces


def _group(
    group: Together, choice: Choice, separate: Mapping[str, float], device: Device
) -> CountingGroup:
    names = tuple(query.name for query in group.queries)
    pieces = _pieces(group, choice)
    cost = Cost(sum(separate[name] for name in names), group.nanoseconds, NANOSECONDS)
    return CountingGroup(
        names,
        group.engine,
        group.why,
        tuple(pieces.segments),
        pieces.uses,
        cost,
        device,
    )
