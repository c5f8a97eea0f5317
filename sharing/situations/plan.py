"""The part of a plan with queries about situations: one pass for each key, and what it shares."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from math import fsum

from optimizer.engines import situations
from optimizer.engines.situations import (
    definitions_of,
    derivation_cost,
    done_once,
    join_cost,
    joined_once,
    predicted_order,
    temporal_of,
    widest,
)
from optimizer.ir.query import Query
from optimizer.plan.groups import Cost, PassGroup
from optimizer.plan.plan import PlanCandidate
from sharing.request import NANOSECONDS_UNIT, PlanPart, PlanRequest
from sharing.situations.parts import RatedPart, rated_parts
from sharing.solvers.candidates import SOLVERS, Solution
from sharing.solvers.candidates.solution import ConflictGraph

LISTED_CONFLICTS = 1000  # of one candidate
NO_CHOICE = Solution("greedy", (), 0.0, 0.0, True, 0)


def situations_part(queries: Sequence[Query], request: PlanRequest) -> PlanPart:
    """A group of queries about situations, and what was considered for it."""
    known = request.statistics
    separate = fsum(situations.cost((query,), known) for query in queries)
    rated: list[RatedPart] = []
    solved = NO_CHOICE
    if request.sharing and len(queries) > 1 and not request.is_late:
        rated = rated_parts(queries, known)
        graph = ConflictGraph.of([r.benefit for r in rated], [r.readers for r in rated])
        solved = SOLVERS[request.solver](graph, request.limited) if rated else NO_CHOICE
    once = list(_computed_once(queries, request))
    parts, chosen = _listed(rated, solved)
    shared = situations.cost(queries, known) - solved.weight
    group = PassGroup(
        tuple(query.name for query in queries),
        situations.NAME,
        _why(queries, [rated[i] for i in solved.chosen], request),
        Cost(separate, shared, NANOSECONDS_UNIT),
        request.device,
        shared=tuple(rated[i].part.places for i in solved.chosen),
    )
    return PlanPart(
        (group,),
        (*once, *parts),
        (*(candidate.id for candidate in once), *chosen),
        separate,
        shared - (solved.bound - solved.weight),
        solved.proven,
    )


def _why(queries: Sequence[Query], parts: Sequence[RatedPart], request: PlanRequest) -> str:
    text = situations.LABEL
    if len(queries) > 1:
        text += f"; {done_once(queries)}"
    if parts:
        readers = sum(len(part.part.places) for part in parts)
        one = len(parts) == 1
        text += (
            f"; {len(parts)} {'part' if one else 'parts'} of patterns joined once for {readers} "
            "readings, in the widest window of those that read it"
        )
    several = [query for query in queries if len(temporal_of(query).situations) > 2]
    if several and len(several) <= 3:
        orders = ", ".join(
            f"{query.name}: {' '.join(predicted_order(query, request.statistics))}"
            for query in several
        )
        text += f"; joined in the order that takes least, by what is known {orders}"
    return text


def _computed_once(queries: Sequence[Query], request: PlanRequest) -> Iterator[PlanCandidate]:
    """Definitions and whole patterns that several queries have: these exclude nothing."""
    if not request.sharing:
        return
    for definition, names in definitions_of(queries).items():
        if len(names) > 1:
            saved = (len(names) - 1) * derivation_cost(definition, request.statistics)
            why = "chosen: derived once, whatever lengths queries ask for and what they return"
            yield _candidate((str(definition),), names, "situation", saved, why)
    for some in joined_once(queries).values():
        temporal = temporal_of(some[0])
        if len(some) > 1 and len(temporal.situations) > 1:
            costs = [join_cost(query, request.statistics) for query in some]
            saved = fsum(costs) - join_cost(widest(some), request.statistics)
            why = "chosen: joined once, in the widest of their windows"
            names = tuple(query.name for query in some)
            yield _candidate((str(temporal),), names, "pattern", saved, why)


def _listed(rated: Sequence[RatedPart], solved: Solution) -> tuple[list[PlanCandidate], list[str]]:
    """Parts of patterns as a plan lists them, and the ids of those that are chosen."""
    graph = ConflictGraph.of([r.benefit for r in rated], [r.readers for r in rated])
    made = set(solved.chosen)
    plain = [
        _candidate(
            each.part.texts,
            tuple(each.part.places),
            "equal relations" if each.part.is_same else "superset",
            each.benefit,
            "",
        )
        for each in rated
    ]
    found = []
    for i, candidate in enumerate(plain):
        near = graph.neighbours(i).tolist()
        rivals = [j for j in near if j in made]
        if i in made:
            how = "" if rated[i].part.is_same else "; each reader takes its own by a bit test"
            why = f"chosen: joined once for all windows and emits{how}"
        elif rated[i].benefit <= 0:
            why = "not shared: joining it once and reading it takes more than joining it anew"
        elif rivals:
            best = max(rivals, key=lambda j: rated[j].benefit)
            why = f"not shared: overlaps {plain[best].id}, which is chosen"
        else:
            why = "not shared: the solver left it out"
        found.append(
            PlanCandidate(
                candidate.id,
                candidate.pattern,
                candidate.queries,
                candidate.kind,
                candidate.benefit,
                tuple(plain[j].id for j in near[:LISTED_CONFLICTS]),
                len(near),
                why,
            )
        )
    return found, [plain[i].id for i in solved.chosen]


def _candidate(
    pattern: tuple[str, ...], queries: tuple[str, ...], kind: str, benefit: float, why: str
) -> PlanCandidate:
    content = json.dumps(["situations", kind, pattern, queries])
    made = hashlib.sha256(content.encode()).hexdigest()[:12]
    return PlanCandidate(f"share-{made}", pattern, queries, kind, benefit, why=why)
