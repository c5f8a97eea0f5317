"""Bound workload to physical plan: what is shared, which queries run together, on which engine."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from optimizer.automaton import countable
from optimizer.chains import Chain, chain_of
from optimizer.cost.operations import DEFAULTS, UnitCosts
from optimizer.ir.pattern import positive_events, print_pattern
from optimizer.ir.query import Aggregation, BoundWorkload, Query
from optimizer.physical.by_engine import by_engine
from optimizer.physical.operators import Together, operators
from optimizer.physical.plan import Candidate, Cost, Group, Model, Plan, Solver
from optimizer.physical.tree_operators import TOUCH
from optimizer.statistics import Statistics, given, with_defaults
from optimizer.statistics.document import about
from optimizer.trees import TreeError, best_tree, labels_of
from optimizer.trees.document import to_document as tree_document
from optimizer.trees.refusal import refusal
from sharing.assign import alone, assigned
from sharing.benefit import BenefitModel
from sharing.benefit.aseq import AseqModel, unshared
from sharing.benefit.measured import MeasuredModel
from sharing.candidates import Candidate as Shared
from sharing.candidates import Place
from sharing.choose import Choice, Reason, choose
from sharing.grouping import lengths
from sharing.obstacles import obstacles
from sharing.solve import DEFAULT, Options
from sharing.steps import QuerySteps, Setting, Step
from workloads.errors import UnsupportedError
from workloads.model import Statistics as Written

JOINS, TREES = "joins", "trees"
COMMON = (
    "what its tree of joins has in common with others of its key and window is made once, where "
    "that pays on the events at hand"
)
LISTED_CONFLICTS = 1000  # of one candidate
NANOSECONDS = "nanoseconds per second of stream"


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
) -> Plan:
    """A plan for the workload, whose document it carries along.

    `statistics` take the place of the workload's own; what they leave out is assumed, and the plan
    says so, or with `strict` it is an error that names it. Without `sharing` each query is a group.
    Exact solvers begin from what an `earlier` plan shared. `unit_costs` are what operations take on
    this machine: by them each group gets its engine.
    """
    queries = workload.queries
    known = _known(statistics or workload.statistics, queries)
    full = known if strict else with_defaults(known, queries)
    reasons = {query.name: countable(query) for query in queries}
    counted = [query for query in queries if reasons[query.name] is None]
    steps = [found for query in counted if (found := steps_of(query)) is not None]
    thesis = AseqModel(full.rates, _selectivities(full, steps))
    benefit: BenefitModel = thesis if model == "aseq" else MeasuredModel(full, unit_costs)
    choice = choose(
        steps if sharing else (), benefit, solver, options, earlier=_earlier(earlier, steps)
    )
    trees = {q.name: _tree(q, full) for q in queries if reasons[q.name] is not None}
    groups, nanoseconds = assigned(counted, full, unit_costs, lengths(choice.chopped), sharing)
    separate = {query.name: alone(query, full, unit_costs) for query in counted}
    joined = [_joined(q, reasons[q.name], sharing) for q in queries if q.name in trees]
    if model == "aseq":
        outcome = _by_thesis(choice, sum(_alone(query, thesis) for query in counted))
    else:
        outcome = _by_measure(groups, separate, nanoseconds, benefit.unit)
    if model == "aseq":
        cost = sum(tree.cost for tree in trees.values())
    else:
        cost = sum(TOUCH * tree.per_second for tree in trees.values())
    candidates, chosen = _candidates(choice)
    planned = tuple(
        _group(group, choice, trees, separate) for group in _in_order([*groups, *joined], queries)
    )
    if model == "measured":
        by_name = {query.name: query for query in queries}
        candidates, chosen = by_engine(candidates, chosen, planned, by_name, full, unit_costs)
    return Plan(
        workload=workload.name,
        queries=tuple(query.name for query in queries),
        solver=solver,
        model=model,
        status="optimal" if outcome.proven else "feasible",
        objective=outcome.saved,
        bound=outcome.bound,
        cost=Cost(outcome.separate + cost, outcome.shared + cost, outcome.unit),
        candidates=candidates,
        chosen=chosen,
        groups=planned,
        operators=operators(workload, planned, full, unit_costs),
        rates=dict(full.rates),
        assumed=full.assumed,
        obstacles=tuple(map(str, obstacles(steps))) if sharing else (),
        document=document,
        statistics={**about(full), "unit_costs": unit_costs.source},
    )


class _Outcome(NamedTuple):
    """What counting takes, query by query and as planned, and what could be saved at most."""

    separate: float
    shared: float
    saved: float
    bound: float
    proven: bool
    unit: str


def _by_thesis(choice: Choice, separate: float) -> _Outcome:
    """By the thesis' model: what Chop-Connect saves with the candidates that were chosen."""
    found = choice.solution
    shared = max(0.0, separate - found.weight)
    unit = "operations per window"
    return _Outcome(separate, shared, found.weight, found.bound, found.proven, unit)


def _by_measure(
    groups: Sequence[Together], separate: Mapping[str, float], shared: float, unit: str
) -> _Outcome:
    """By the measured model: what the groups' engines save.

    No group takes less than the dearest of its queries does alone, so no plan saves more than all
    the others.
    """
    total = sum(separate.values())
    least = sum(max(separate[q.name] for q in group.queries) for group in groups)
    saved, bound = total - shared, max(total - least, total - shared)
    return _Outcome(total, shared, saved, bound, saved >= bound * (1 - 1e-9), unit)


def _in_order(groups: Sequence[Together], queries: Sequence[Query]) -> list[Together]:
    """The groups by the first of their queries."""
    place = {query.name: i for i, query in enumerate(queries)}
    return sorted(groups, key=lambda group: place[group.queries[0].name])


def _joined(query: Query, reason: str | None, sharing: bool) -> Together:
    """A query that constructs its matches, by a tree of joins where one takes it."""
    why = "constructs its matches"
    if isinstance(query.output, Aggregation):
        why += f" to count them: {reason}"
    refused = refusal(query)
    if refused is not None:
        return Together((query,), JOINS, f"{why}; one component after the other: {refused}")
    return Together((query,), TREES, f"{why}; {COMMON}" if sharing else why)


def steps_of(query: Query) -> QuerySteps | None:
    """A query as sharing sees it; None where it is not one sequence of single events."""
    chain = chain_of(query)
    if not isinstance(chain, Chain):
        return None
    parts = zip(chain.components, chain.gaps, strict=True)
    steps = tuple(Step(component.symbol, gap) for component, gap in parts)
    return QuerySteps(query.name, steps, Setting(query.key, query.window, query.slide))


def _known(written: Written, queries: Sequence[Query]) -> Statistics:
    return written if isinstance(written, Statistics) else given(written, queries)


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


class _Tree(NamedTuple):
    """A tree as a document, and the events that it touches in one window and in one second."""

    document: dict[str, Any]
    cost: float
    per_second: float


def _tree(query: Query, known: Statistics) -> _Tree:
    """The cheapest tree of a query that constructs its matches."""
    try:
        found = best_tree(query, known)
    except (TreeError, UnsupportedError):
        return _Tree({}, 0.0, 0.0)
    return _Tree(tree_document(found.tree, labels_of(query)), found.cost, found.per_second)


def _earlier(plan: Plan | None, steps: Sequence[QuerySteps]) -> list[Shared]:
    """What an earlier plan shared, as far as these queries still have it."""
    if plan is None:
        return []
    chosen = set(plan.chosen)
    shared = sorted((c for c in plan.candidates if c.id in chosen), key=lambda c: -c.benefit)
    wanted = {c.pattern: set(c.queries) for c in shared}
    found = []
    taken: set[tuple[str, int]] = set()  # steps: other engines share pieces that overlap
    for pattern, names in wanted.items():
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
    group: Together,
    choice: Choice,
    trees: Mapping[str, _Tree],
    separate: Mapping[str, float],
) -> Group:
    names = tuple(query.name for query in group.queries)
    if names[0] in trees:
        taken = TOUCH * trees[names[0]].per_second
        cost = Cost(taken, taken, NANOSECONDS)
        return Group(names, group.engine, group.why, tree=trees[names[0]].document, cost=cost)
    pieces = _pieces(group, choice)
    cost = Cost(sum(separate[name] for name in names), group.nanoseconds, NANOSECONDS)
    return Group(
        names,
        group.engine,
        group.why,
        segments=tuple(pieces.segments),
        uses=pieces.uses,
        cost=cost,
    )
