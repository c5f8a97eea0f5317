"""The part of a plan with the queries that are counted: which candidates are chosen, which groups
they make, and what keeps queries from sharing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import fsum, inf
from typing import Any, NamedTuple, TypeAlias

from optimizer.bind.conditions import canonical
from optimizer.engines import chopconnect, counting_engine
from optimizer.ir.chain import Chain, chain_of
from optimizer.ir.query import (
    Aggregation,
    And,
    Event,
    Neg,
    Pattern,
    Query,
    Seq,
    alternatives,
    parts_of,
    print_pattern,
)
from optimizer.plan.plan import Cost, CountingGroup, Group, Plan
from optimizer.statistics import Statistics
from sharing.counting.benefit.aseq import AseqModel
from sharing.counting.benefit.measured import MeasuredModel
from sharing.counting.candidates import Candidate as Mined
from sharing.counting.candidates import (
    CandidatePosition,
    Candidates,
    CountSetting,
    LetterText,
    Level,
    QuerySteps,
    Step,
    interned,
    levels,
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
from workloads import syntax as ex
from workloads.errors import TooLargeError
from workloads.syntax import One, print_expression

MAX_OBSTACLES = 100  # lines
MOST_READINGS = 16  # of one query's ORs
MOST_KINDS = 60  # ways in which queries have one stretch
MOST_PAIRS = 200_000
MOST_STEPS = 500_000  # of stretches that are looked at, at all their places
MOST_PLACES = 1_000_000  # of stretches that are found


class _Step(NamedTuple):
    """A positive component; `negated` is what must not occur before the next one."""

    event: Event
    negated: tuple[str, ...]


@dataclass(frozen=True)
class _Sequence:
    """Components one after the other, somewhere in a query; `within` says what they stand in."""

    query: int
    within: str | None
    steps: tuple[_Step, ...]


class _Kind(NamedTuple):
    """How a query has a stretch: two of one kind could share it."""

    key: tuple[str, ...]
    window: object
    slide: int | None
    gives: str
    within: str | None
    groups: tuple[str, ...]
    symbols: tuple[str, ...]
    negated: tuple[tuple[str, ...], ...]
    conditions: tuple[str, ...]
    together: int | None  # the group that counts every piece once, whatever else differs


_Kinds: TypeAlias = tuple[_Kind, ...]  # in which one query has it

# How people call what two kinds differ in, by field.
NAMES = {
    "key": "partition key",
    "window": "window",
    "slide": "slide",
    "within": "what it stands in",
    "groups": "groups of events",
    "symbols": "predicates",
    "negated": "negations",
    "conditions": "conditions",
}


@dataclass(frozen=True)
class Obstacle:
    """Types that queries have in common, and why some do not share them with others.

    `one` are alike, and so are each of the `others`, with that in which they differ from `one`;
    where they are `alike`, they differ in the same from each other, too.
    """

    types: tuple[str, ...]
    one: tuple[str, ...]
    others: tuple[tuple[tuple[str, ...], tuple[str, ...]], ...]
    alike: bool = False

    def __str__(self) -> str:
        types, one = ", ".join(self.types), ", ".join(self.one)
        (first, reason), *more = self.others
        if not more:
            differ = f"they differ in {' and '.join(reason)}"
            return f"{types}: {one} and {', '.join(first)} do not share it: {differ}"
        if self.alike:
            kinds = [one, *(", ".join(names) for names, _ in self.others)]
            apart = ", ".join(kinds) if self._are_single else " / ".join(kinds)
            return f"{types}: no two of {apart} share it: they differ in {' and '.join(reason)}"
        by_reason: dict[tuple[str, ...], list[str]] = {}
        for names, differs in self.others:
            by_reason.setdefault(differs, []).extend(names)
        texts = [f"from {', '.join(names)} in {', '.join(why)}" for why, names in by_reason.items()]
        verb = "differs" if len(self.one) == 1 else "differ"
        return f"{types}: {one} {verb} {'; '.join(texts)}"

    @property
    def _are_single(self) -> bool:
        """Is each kind a single query?"""
        return len(self.one) == 1 and not any(len(names) > 1 for names, _ in self.others)


def obstacles(
    queries: Sequence[Query], groups: Sequence[Group], limit: int = MAX_OBSTACLES
) -> tuple[str, ...]:
    """Lines for all pairs of queries that cannot share what they have in common, longest first."""
    return tuple(map(str, find_obstacles(queries, groups, limit)))


def find_obstacles(
    queries: Sequence[Query], groups: Sequence[Group], limit: int = MAX_OBSTACLES
) -> list[Obstacle]:
    """For any two queries the longest types that they have one after the other and cannot share.

    Pairs that differ in the same are put together.
    """
    of_query = {name: i for i, group in enumerate(groups) for name in group.queries}
    sequences = [s for i, query in enumerate(queries) for s in _sequences(i, query)]
    text = interned([step.event.symbol.type for step in s.steps] for s in sequences)
    found: list[Obstacle] = []
    seen: set[tuple[int, int]] = set()
    known: list[Level] = []
    number = 0
    for level in levels(text):
        number += len(level.places)
        if number > MOST_PLACES:
            break
        known.append(level)
    left = MOST_STEPS
    for level in reversed(known):
        for places in _stretches(level):
            left -= len(places) * level.length
            if left < 0:
                return found
            kinds = _kinds(places, level.length, text, sequences, queries, groups, of_query)
            found += _apart(places, level.length, kinds, text, sequences, queries, seen)
            if len(found) >= limit or len(seen) > MOST_PAIRS:
                return found[:limit]
    return found


def _stretches(level: Level) -> Iterator[list[int]]:
    for begin, end in zip(level.first[:-1].tolist(), level.first[1:].tolist(), strict=True):
        yield level.places[begin:end].tolist()


def _kinds(
    places: Sequence[int],
    length: int,
    text: LetterText,
    sequences: Sequence[_Sequence],
    queries: Sequence[Query],
    groups: Sequence[Group],
    of_query: dict[str, int],
) -> dict[_Kinds, list[int]]:
    """The queries that have a stretch, by all the ways in which they have it."""
    ways: dict[int, dict[_Kind, None]] = {}
    owner = text.owner
    for place in places:
        number = int(owner[place])
        sequence = sequences[number]
        at = place - int(text.start[number])
        query = queries[sequence.query]
        group = of_query[query.name]
        kind = _kind(query, sequence, at, length, groups[group], group)
        ways.setdefault(sequence.query, {})[kind] = None
    found: dict[_Kinds, list[int]] = {}
    for query_number, several in ways.items():
        found.setdefault(tuple(several), []).append(query_number)
    return found


def _kind(
    query: Query, sequence: _Sequence, at: int, length: int, group: Group, number: int
) -> _Kind:
    steps = sequence.steps[at : at + length]
    counted = isinstance(group, CountingGroup)
    names = {step.event.alias: f"c{i}" for i, step in enumerate(steps, 1)}
    conditions = () if counted else tuple(
        sorted(
            print_expression(canonical(ex.rename(c, names)))
            for c in query.conditions
            if ex.aliases(c) <= names.keys()
        )
    )  # fmt: skip
    once = isinstance(group, CountingGroup) and counting_engine(group.engine).ANY_PIECE
    return _Kind(
        query.key,
        query.window,
        query.slide if counted else None,
        _gives(query, counted),
        sequence.within,
        tuple(
            "" if isinstance(s.event.quantifier, One) else str(s.event.quantifier) for s in steps
        ),
        tuple(str(step.event.symbol) for step in steps),
        tuple(step.negated for step in steps) if counted else (),
        conditions,
        number if once else None,
    )


def _gives(query: Query, counted: bool) -> str:
    if counted:
        return "counted"
    return "constructed to be counted" if isinstance(query.output, Aggregation) else "constructed"


def _apart(
    places: Sequence[int],
    length: int,
    kinds: dict[_Kinds, list[int]],
    text: LetterText,
    sequences: Sequence[_Sequence],
    queries: Sequence[Query],
    seen: set[tuple[int, int]],
) -> Iterator[Obstacle]:
    """The obstacles among kinds that have not all been named with a longer stretch."""
    reasons: dict[tuple[_Kinds, _Kinds], tuple[str, ...]] = {}
    listed = sorted(list(kinds)[:MOST_KINDS], key=lambda kind: (-len(kinds[kind]), kinds[kind][0]))
    for i, one in enumerate(listed):
        for other in listed[i + 1 :]:
            pairs = {(min(a, b), max(a, b)) for a in kinds[one] for b in kinds[other]}
            if not pairs <= seen and (reason := _reason(one, other)):
                reasons[one, other] = reason
            seen |= pairs
    number = int(text.owner[places[0]])
    at = places[0] - int(text.start[number])
    plain = tuple(s.event.symbol.type for s in sequences[number].steps[at : at + length])

    def obstacle(one: _Kinds, others: Sequence[_Kinds], alike: bool) -> Obstacle:
        same = len({kind.symbols for several in (one, *others) for kind in several}) == 1
        named = [tuple(queries[i].name for i in kinds[kind]) for kind in (one, *others)]
        why = [reasons[one, other] for other in others]
        types = one[0].symbols if same else plain
        return Obstacle(types, named[0], tuple(zip(named[1:], why, strict=True)), alike)

    for first, *others in _cliques(reasons):
        yield obstacle(first, others, True)
        several = (first, *others)
        reasons = {pair: why for pair, why in reasons.items() if not set(pair) <= set(several)}
    for one in listed:
        if others := [other for other in listed if (one, other) in reasons]:
            yield obstacle(one, others, False)


def _cliques(
    reasons: Mapping[tuple[_Kinds, _Kinds], tuple[str, ...]],
) -> Iterator[list[_Kinds]]:
    """Three kinds or more any two of which differ in the same; each pair is in one of them."""
    by_reason: dict[tuple[str, ...], dict[tuple[_Kinds, _Kinds], None]] = {}
    for pair, why in reasons.items():
        by_reason.setdefault(why, {})[pair] = None
    for left in by_reason.values():
        every = list(dict.fromkeys(kind for pair in left for kind in pair))
        while left:
            members = list(next(iter(left)))
            for kind in every:
                if all((member, kind) in left for member in members):
                    members.append(kind)
            for i, one in enumerate(members):
                for other in members[i + 1 :]:
                    left.pop((one, other), None)
            if len(members) > 2:
                yield members


def _reason(one: _Kinds, other: _Kinds) -> tuple[str, ...]:
    """In what two queries differ at least; nothing where they can share in one of their ways."""
    return min((_differences(mine, theirs) for mine in one for theirs in other), key=len)


def _differences(one: _Kind, other: _Kind) -> tuple[str, ...]:
    """In what two kinds differ; nothing where they can share all the same."""
    differ = [name for name in NAMES if getattr(one, name) != getattr(other, name)]
    if one.gives != other.gives and "counted" in (one.gives, other.gives):
        differ = [name for name in differ if name != "negated"]
    if one.together is not None and one.together == other.together:
        # One group: windows, slides and ORs do not matter, as each distinct piece is counted once.
        differ = [name for name in differ if name in ("groups", "symbols", "negated")]
        if "AND" in (one.within, other.within):
            differ.append("within")
    found = [_within(one, other) if name == "within" else NAMES[name] for name in differ]
    if (one.gives == "counted") != (other.gives == "counted"):
        constructed = other.gives if one.gives == "counted" else one.gives
        returned = constructed == "constructed"
        found.insert(0, "AGG against RETURN" if returned else "counted against constructed")
    return tuple(found)


def _within(one: _Kind, other: _Kind) -> str:
    stands = sorted({kind.within for kind in (one, other) if kind.within})
    return " and ".join(stands)


def _sequences(number: int, query: Query) -> Iterator[_Sequence]:
    """The sequences of components of a query, with those of each way to read its ORs."""
    try:
        choices = alternatives(query.pattern)[:MOST_READINGS]
    except TooLargeError:
        return
    for choice in choices:
        yield from _parts(number, choice, "OR" if len(choices) > 1 else None)


def _parts(number: int, pattern: Pattern, within: str | None) -> Iterator[_Sequence]:
    match pattern:
        case Seq():
            steps: list[_Step] = []
            for part in parts_of(pattern):
                match part:
                    case Event():
                        steps.append(_Step(part, ()))
                    case Neg():
                        if steps:
                            last = steps[-1]
                            negated = tuple(sorted({*last.negated, _types(part)}))
                            steps[-1] = last._replace(negated=negated)
                    case _:
                        yield from _parts(number, part, within)
                        yield _Sequence(number, within, tuple(steps))
                        steps = []
            yield _Sequence(number, within, tuple(steps))
        case And():
            for part in parts_of(pattern):
                yield from _parts(number, part, "AND")
        case _:
            return


def _types(pattern: Pattern) -> str:
    if isinstance(pattern, Event):
        return str(pattern.symbol)
    inner = ", ".join(map(_types, parts_of(pattern)))
    return f"{type(pattern).__name__}({inner})"


EXACTLY = 6  # queries that could run together, and are parted in the best of all ways
MORE_EXACTLY = 9  # the same where an exact solver is asked for
PROVEN = 1 - 1e-9  # sums of doubles in another order differ in their last digits
UNSHARED = "counted alone: by the thesis' model it shares nothing that pays"


@dataclass(frozen=True, eq=False)
class CountingProblem:
    """Queries that can be counted, and what those of each setting have in common."""

    queries: tuple[Query, ...]
    steps: Mapping[str, QuerySteps]  # of those that are sequences of single events
    mined: Mapping[CountSetting, Candidates]

    @property
    def number(self) -> int:
        """How many candidates there are."""
        return sum(map(len, self.mined.values()))


def counting_problem(queries: Sequence[Query], sharing: bool = True) -> CountingProblem:
    """What queries all of which can be counted have in common; nothing without `sharing`."""
    steps = {q.name: found for q in queries if (found := steps_of(q)) is not None}
    by_setting: dict[CountSetting, list[QuerySteps]] = {}
    for found in steps.values():
        by_setting.setdefault(found.setting, []).append(found)
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
            setting: choice.solution.bound if problem.mined[setting].complete else inf
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


def _choices(problem: CountingProblem, request: PlanRequest) -> dict[CountSetting, CandidateChoice]:
    """The best segments for Chop-Connect, where it may be taken."""
    if request.device not in chopconnect.DEVICES or request.is_late:
        return {}
    by_setting: dict[CountSetting, list[Query]] = {}
    for query in problem.queries:
        by_setting.setdefault(setting_of(query), []).append(query)
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
    for mined in problem.mined.values():
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
        request.device,
    )


def _texts(steps: QuerySteps) -> tuple[str, ...]:
    return tuple(map(str, steps.steps))
