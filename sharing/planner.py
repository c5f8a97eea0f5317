"""Bound workload to physical plan: what is shared, which queries run together, on which engine."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from optimizer.automaton import countable
from optimizer.chains import Chain, chain_of
from optimizer.ir.pattern import positive_events, print_pattern
from optimizer.ir.query import Aggregation, BoundWorkload, Query
from optimizer.physical.operators import Together, operators
from optimizer.physical.plan import Candidate, Cost, Group, Model, Plan, Solver
from optimizer.statistics import Statistics, given, with_defaults
from optimizer.trees import TreeError, best_tree, labels_of
from optimizer.trees.document import to_document as tree_document
from sharing.benefit.aseq import AseqModel, unshared
from sharing.choose import Choice, Reason, choose
from sharing.obstacles import obstacles
from sharing.solve import DEFAULT, Options
from sharing.steps import QuerySteps, Setting, Step
from workloads.errors import UnsupportedError
from workloads.model import Statistics as Written

JOINS, PRODUCT = "joins", "product"
LISTED_CONFLICTS = 1000  # of one candidate


def make_plan(
    workload: BoundWorkload,
    document: Mapping[str, Any],
    solver: Solver = "greedy",
    model: Model = "aseq",
    statistics: Written | None = None,
    sharing: bool = True,
    earlier: Plan | None = None,
    strict: bool = False,
    options: Options = DEFAULT,
) -> Plan:
    """A plan for the workload, whose document it carries along.

    `statistics` take the place of the workload's own; what they leave out is assumed, and the plan
    says so, or with `strict` it is an error that names it. Without `sharing` each query is a group.
    Exact solvers begin from what an `earlier` plan shared.
    """
    queries = workload.queries
    known = _known(statistics or workload.statistics, queries)
    full = known if strict else with_defaults(known, queries)
    reasons = {query.name: countable(query) for query in queries}
    counted = [query for query in queries if reasons[query.name] is None]
    steps = [found for query in counted if (found := steps_of(query)) is not None]
    benefit = AseqModel(full.rates, _selectivities(full, steps))
    choice = choose(
        steps if sharing else (), benefit, solver, options, earlier=_earlier(earlier, steps)
    )
    separate = sum(_alone(query, benefit, full) for query in counted)
    trees = {q.name: _tree(q, full) for q in queries if reasons[q.name] is not None}
    joined = sum(cost for _, cost in trees.values())
    solution = choice.solution
    candidates, chosen = _candidates(choice)
    groups = _grouped(queries, reasons, sharing)
    return Plan(
        workload=workload.name,
        queries=tuple(query.name for query in queries),
        solver=solver,
        model=model,
        status="optimal" if solution.proven else "feasible",
        objective=solution.weight,
        bound=solution.bound,
        cost=Cost(separate + joined, max(0.0, separate - solution.weight) + joined, benefit.unit),
        candidates=candidates,
        chosen=chosen,
        groups=tuple(_group(group, choice, trees) for group in groups),
        operators=operators(workload, groups),
        rates=dict(full.rates),
        assumed=full.assumed,
        obstacles=tuple(map(str, obstacles(steps))) if sharing else (),
        document=document,
    )


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


def _alone(query: Query, model: AseqModel, known: Statistics) -> float:
    """What A-Seq spends on a query that shares nothing (equation 4.2 for one query)."""
    symbols = [event.symbol for event in positive_events(query.pattern)]
    setting = Setting(query.key, query.window, query.slide)
    N0, f, keys = model.in_window(setting, symbols[0])
    return keys * unshared(N0, 1.0, float(len(symbols)), f)


def _tree(query: Query, known: Statistics) -> tuple[dict[str, Any] | None, float]:
    """The cheapest tree of a query that constructs its matches, and its cost in one window."""
    try:
        found = best_tree(query, known)
    except (TreeError, UnsupportedError):
        return None, 0.0
    return tree_document(found.tree, labels_of(query)), found.cost


def _earlier(plan: Plan | None, steps: Sequence[QuerySteps]) -> list[Any]:
    """What an earlier plan shared, as far as these queries still have it."""
    from sharing.candidates import Candidate as Shared
    from sharing.candidates import Place

    if plan is None:
        return []
    wanted = {c.pattern: set(c.queries) for c in plan.candidates if c.id in set(plan.chosen)}
    found = []
    for pattern, names in wanted.items():
        places, same = [], None
        for query in steps:
            texts = tuple(map(str, query.steps))
            for at in range(len(texts) - len(pattern) + 1):
                if query.name in names and texts[at : at + len(pattern)] == pattern:
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


def _grouped(
    queries: Sequence[Query], reasons: Mapping[str, str | None], sharing: bool
) -> list[Together]:
    """Queries that are counted and have one key, window and slide run together, others alone.

    `reasons` say why a query is not counted, by its name.
    """
    found: dict[Hashable, list[Query]] = {}
    for query in queries:
        together = sharing and reasons[query.name] is None
        place = (query.key, query.window, query.slide) if together else query.name
        found.setdefault(place, []).append(query)
    return [_together(tuple(group), reasons[group[0].name], sharing) for group in found.values()]


def _together(queries: tuple[Query, ...], reason: str | None, sharing: bool) -> Together:
    if reason is not None:
        aggregates = isinstance(queries[0].output, Aggregation)
        why = f"constructs its matches to count them: {reason}" if aggregates else ALONE
        return Together(queries, JOINS, why)
    if len(queries) > 1:
        why = (
            "counted together: they have one key, window and slide, so each distinct piece of "
            "their patterns is counted once"
        )
    elif sharing:
        why = "counted alone: no other query has its key, window and slide"
    else:
        why = "counted alone: sharing is switched off"
    return Together(queries, PRODUCT, why)


ALONE = "runs alone: sharing among queries that return matches is not looked for yet"


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
    group: Together, choice: Choice, trees: Mapping[str, tuple[dict[str, Any] | None, float]]
) -> Group:
    names = tuple(query.name for query in group.queries)
    if names[0] in trees:
        return Group(names, group.engine, group.why, tree=trees[names[0]][0] or {})
    pieces = _pieces(group, choice)
    return Group(names, group.engine, group.why, segments=tuple(pieces.segments), uses=pieces.uses)
