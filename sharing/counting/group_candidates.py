"""What the candidates of a group are worth by the engine that counts it.

The products count every piece that queries of a group have once, so that all candidates are taken
and none excludes another; PreTree what queries begin with; Chop-Connect the independent set that
was chosen for it; and A-Seq none. What a candidate is worth is what the plan costs less with it,
beside the others; what is left of a group's saving is worth preparing and visiting its events once,
which is a candidate of its own. So the chosen candidates' benefits add up to what the group saves.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import fsum

from optimizer.cost.counting import CountedQueries
from optimizer.cost.engine_choice import Costs, RankedEngine
from optimizer.engines import CountingEngine, counting_engine, label
from optimizer.explain.text import some
from optimizer.plan.plan import PlanCandidate
from sharing.counting.benefit.measured import MeasuredModel
from sharing.counting.candidates import Candidate as Mined
from sharing.counting.candidates import Candidates, QuerySteps, SharedSetting, mine
from sharing.counting.choice import CandidateChoice, Reason, choose_among
from sharing.counting.grouping import GroupAssigner, QueryGroup, lengths, setting_of
from sharing.request import NANOSECONDS_UNIT, PlanRequest

LISTED_CONFLICTS = 1000  # of one candidate
MOST_TRIED = 200  # sets of groups that are looked at as one, to say what that would take
SAME_EVENTS = ("the same events",)


@dataclass(frozen=True)
class Rated:
    """A group with what became of its candidates; `choice` is how its queries are chopped."""

    group: QueryGroup
    candidates: tuple[PlanCandidate, ...] = ()
    chosen: tuple[str, ...] = ()
    choice: CandidateChoice | None = None


@dataclass(frozen=True)
class Rating:
    """Rates candidates of groups of queries that are counted."""

    steps: Mapping[str, QuerySteps]
    mined: Mapping[SharedSetting, Candidates]
    assigning: GroupAssigner
    request: PlanRequest
    choices: Mapping[SharedSetting, CandidateChoice]

    def of(self, group: QueryGroup) -> Rated:
        """What the group's engine makes of the candidates that its queries have."""
        if len(group.queries) < 2:
            return Rated(group)
        engine = counting_engine(group.engine)
        if engine.CHOPPED:
            rated = self._chopped(group)
        else:
            rated = self._by_engine(group)
        pieces = fsum(c.benefit for c in rated.candidates if c.id in rated.chosen)
        separate = fsum(self.assigning.alone(query).nanoseconds for query in group.queries)
        same = PlanCandidate(
            _id(SAME_EVENTS, group.names),
            SAME_EVENTS,
            group.names,
            "events",
            separate - rated.group.nanoseconds - pieces,
            why="chosen: they are prepared and visited once for all queries of the group",
        )
        return replace(rated, candidates=(same, *rated.candidates), chosen=(same.id, *rated.chosen))

    def apart(self, groups: Sequence[QueryGroup]) -> list[PlanCandidate]:
        """The candidates whose queries run in several groups, with what it would take to share."""
        of_query = {name: i for i, group in enumerate(groups) for name in group.names}
        tried: dict[frozenset[int], float] = {}
        found = []
        for mined in self.mined.values():
            for candidate in _whole(mined):
                at = frozenset(of_query[name] for name in candidate.queries)
                if len(at) < 2:
                    continue
                if at not in tried:
                    if len(tried) == MOST_TRIED:
                        continue
                    tried[at] = self._less_as_one([groups[i] for i in sorted(at)])
                found.append(_listed(candidate, tried[at], _why_apart(candidate, groups, of_query)))
        return found

    def _less_as_one(self, groups: Sequence[QueryGroup]) -> float:
        """What several groups would take less as one; below zero where it would be more."""
        queries = [query for group in groups for query in group.queries]
        together = self.assigning.ranked(queries)
        if not together:
            return 0.0
        return sum(group.nanoseconds for group in groups) - together[0].nanoseconds

    def _chopped(self, group: QueryGroup) -> Rated:
        """The independent set of the group's candidates decides."""
        setting = setting_of(group.queries[0]).shared
        mined, choice = self._candidates(group), self.choices[setting]
        if mined is not self.mined[setting]:
            model = MeasuredModel(self.request.statistics, self.request.unit_costs)
            own = choose_among(mined, model, self.request.solver, self.request.options)
            taken = self._taken(group, own)
            if taken is not None and taken.nanoseconds <= group.nanoseconds * (1 + 1e-9):
                why = f"{counting_engine(group.engine).TOGETHER}; {taken.why}"
                group = replace(group, why=why, nanoseconds=taken.nanoseconds)
                choice = own
        candidates, chosen = listed(choice, NANOSECONDS_UNIT)
        inside = set(group.names)
        kept = tuple(c for c in candidates if inside.issuperset(c.queries))
        return Rated(group, kept, tuple(c.id for c in kept if c.id in set(chosen)), choice)

    def _taken(self, group: QueryGroup, choice: CandidateChoice) -> RankedEngine | None:
        ranked = self.assigning.ranked(group.queries, lengths(choice.chopped))
        return next((found for found in ranked if found.engine == group.engine), None)

    def _by_engine(self, group: QueryGroup) -> Rated:
        """Each candidate by the counter that the engine keeps for it, or does not."""
        engine = counting_engine(group.engine)
        costs = Costs(
            CountedQueries(group.queries, self.request.statistics),
            group.engine,
            self.request.unit_costs,
        )
        words = {
            name: tuple(map(str, self.steps[name].steps))
            for name in group.names
            if name in self.steps
        }
        others: list[RankedEngine] | None = None
        candidates, chosen = [], []
        for candidate in _whole(self._candidates(group)):
            piece = tuple(map(str, candidate.steps))
            served = False
            for names in self._by_window(engine, candidate.queries):
                once = engine.counts_once(piece, {name: words[name] for name in names})
                if len(once) < 2:
                    continue
                served = True
                steps = [(step.symbol, step.negated) for step in candidate.steps]
                saved = (len(once) - 1) * costs.counter(steps)
                some = Mined(
                    candidate.steps,
                    candidate.kind,
                    tuple(place for place in candidate.places if place.query in once),
                )
                why = f"chosen: {engine.LABEL} counts it once"
                candidates.append(_listed(some, saved, why))
                chosen.append(candidates[-1].id)
            if served:
                continue
            if others is None:
                ranked = self.assigning.ranked(group.queries)
                others = [r for r in ranked if r.engine != group.engine]
            candidates.append(_refused(candidate, piece, words, group, others))
        return Rated(group, tuple(candidates), tuple(chosen))

    def _by_window(self, engine: CountingEngine, names: Sequence[str]) -> Iterable[tuple[str, ...]]:
        """The queries for which an engine could count something once: all, or by their windows."""
        found: dict[object, list[str]] = {}
        for name in names:
            window = self.steps[name].setting.window if engine.BY_WINDOW else None
            found.setdefault(window, []).append(name)
        return map(tuple, found.values())

    def _candidates(self, group: QueryGroup) -> Candidates:
        """What the group's queries have in common, whatever their windows."""
        known = self.mined.get(setting_of(group.queries[0]).shared)
        own = [self.steps[name] for name in group.names if name in self.steps]
        if known is not None and [q.name for q in known.of] == [q.name for q in own]:
            return known
        return mine(own)


def listed(choice: CandidateChoice, unit: str) -> tuple[list[PlanCandidate], list[str]]:
    """All candidates of a choice as a plan lists them, and the ids of the chosen ones."""
    every, graph = list(choice.candidates), choice.graph
    ids = [candidate.id for candidate in every]
    found = []
    for i, candidate in enumerate(every):
        near = graph.neighbours(i)
        found.append(
            replace(
                _listed(candidate, float(choice.weights[i]), _why(choice, choice.reason(i), ids)),
                conflicts=tuple(ids[int(j)] for j in near[:LISTED_CONFLICTS]),
                conflicting=len(near),
                unit=unit,
            )
        )
    return found, [ids[i] for i in choice.solution.chosen]


def _listed(candidate: Mined, benefit: float, why: str) -> PlanCandidate:
    return PlanCandidate(
        id=candidate.id,
        pattern=tuple(map(str, candidate.steps)),
        queries=candidate.queries,
        kind=candidate.kind,
        benefit=benefit,
        why=why,
    )


def _whole(candidates: Candidates) -> Sequence[Mined]:
    """The candidates themselves, without variants of them."""
    return [candidates[i] for i in range(len(candidates)) if candidates.base[i] == i]


def _refused(
    candidate: Mined,
    piece: tuple[str, ...],
    words: Mapping[str, tuple[str, ...]],
    group: QueryGroup,
    others: Sequence[RankedEngine],
) -> PlanCandidate:
    """A candidate that the group's engine does not count once, with what another would take."""
    own = {name: words[name] for name in candidate.queries}
    sharing = [r for r in others if len(counting_engine(r.engine).counts_once(piece, own)) > 1]
    mine_ = label(group.engine)
    if not sharing:
        why = f"not shared: {mine_} does not count it once"
        if counting_engine(group.engine).BY_WINDOW:
            why = f"not shared: {mine_} counts it once for each window, and theirs differ"
        return _listed(candidate, 0.0, why)
    best = min(sharing, key=lambda ranked: ranked.nanoseconds)
    less = group.nanoseconds - best.nanoseconds
    why = f"not shared: {label(best.engine)}, which counts it once, takes more than {mine_}"
    return _listed(candidate, less, why)


def _why_apart(candidate: Mined, groups: Sequence[QueryGroup], of_query: Mapping[str, int]) -> str:
    parts: dict[int, list[str]] = {}
    for name in candidate.queries:
        parts.setdefault(of_query[name], []).append(name)
    texts = [some(names) for names in parts.values()]
    return f"not shared by all: {' / '.join(texts)} run apart, which takes less"


def _why(choice: CandidateChoice, reason: Reason, ids: Sequence[str]) -> str:
    match reason.why:
        case "chosen":
            return "chosen"
        case "chosen in part":
            return "not shared by all: chosen for some of its queries, where it pays more"
        case "does not pay":
            return "not shared: connecting it costs more than computing it in each query"
        case "conflict":
            assert reason.other is not None
            symbols = ", ".join(map(str, choice.candidates[reason.other].steps))
            return f"not shared: overlaps {ids[reason.other]} ({symbols}), which is chosen"
        case "left out":
            return "not shared: pays, but was left out in favour of others"


def _id(pattern: Sequence[str], queries: Sequence[str]) -> str:
    text = json.dumps([list(pattern), list(queries)], separators=(",", ":"))
    return "share-" + hashlib.sha256(text.encode()).hexdigest()[:12]
