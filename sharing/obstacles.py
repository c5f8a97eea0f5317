"""What keeps queries from sharing what they have in common."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import NamedTuple, TypeAlias

from optimizer.bind.conditions import canonical
from optimizer.engines import counting_engine
from optimizer.ir.pattern import (
    And,
    Event,
    Neg,
    Pattern,
    Seq,
    alternatives,
    parts_of,
)
from optimizer.ir.query import Aggregation, Query, Window, is_funnel
from optimizer.plan.groups import CountingGroup, Group
from optimizer.plan.plan import PlanCandidate
from sharing.counting.candidates import (
    LetterText,
    Level,
    interned,
    levels,
)
from workloads import expressions as ex
from workloads.errors import TooLargeError
from workloads.printing import print_expression
from workloads.syntax import One

MAX_OBSTACLES = 500  # lines
MORE = "more pairs of queries have types in common than are compared here"
MOST_READINGS = 16  # of one query's ORs
MOST_KINDS = 60  # ways in which queries have one stretch
MOST_PAIRS = 200_000
MOST_STEPS = 500_000  # of stretches that are looked at, at all their places
MOST_SERVED = 200  # queries that a candidate serves
MATCHED = ("prefix", "suffix", "substring", "bitmark")  # pieces of matches that are constructed
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
    window: Window
    slide: int | None  # of a window that counts events, for which all of them are kept
    any_window: bool  # do the counters of its group belong to no window?
    gives: str
    within: str | None
    groups: tuple[str, ...]
    symbols: tuple[str, ...]
    negated: tuple[tuple[str, ...], ...]
    conditions: tuple[str, ...]
    together: object  # the group that counts every piece once, whatever else differs; or None

    @property
    def is_count(self) -> bool:
        return self.window.is_count


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
    queries: Sequence[Query],
    groups: Sequence[Group],
    candidates: Sequence[PlanCandidate] = (),
    limit: int = MAX_OBSTACLES,
) -> tuple[str, ...]:
    """Lines for all pairs of queries that cannot share what they have in common, longest first.

    Where there are too many, the last line says so.
    """
    found = find_obstacles(queries, groups, candidates, limit)
    lines = tuple(map(str, found.obstacles))
    return lines if found.complete else (*lines, MORE)


class FoundObstacles(NamedTuple):
    """What keeps queries from sharing; not `complete` where pairs were left out."""

    obstacles: list[Obstacle]
    complete: bool


def find_obstacles(
    queries: Sequence[Query],
    groups: Sequence[Group],
    candidates: Sequence[PlanCandidate] = (),
    limit: int = MAX_OBSTACLES,
) -> FoundObstacles:
    """For any two queries the longest types that they have one after the other and cannot share.

    Pairs that differ in the same are put together. What a candidate has in common is no obstacle.
    """
    complete = True
    queries = [query for query in queries if not is_funnel(query)]  # whose engine says it
    common = _common_pieces(queries, candidates)
    of_query = {name: i for i, group in enumerate(groups) for name in group.queries}
    sequences = [s for i, query in enumerate(queries) for s in _sequences(i, query)]
    text = interned([step.event.symbol.type for step in s.steps] for s in sequences)
    found: list[Obstacle] = []
    seen: set[tuple[int, int]] = set()
    bridged: set[tuple[int, int]] = set()
    known: list[Level] = []
    number = 0
    for level in levels(text):
        number += len(level.places)
        if number > MOST_PLACES:
            complete = False
            break
        known.append(level)
    left = MOST_STEPS
    for level in reversed(known):
        while common and common[0][0] >= level.length:
            bridged |= common.pop(0)[1]
        for places in _stretches(level):
            left -= len(places) * level.length
            if left < 0:
                return FoundObstacles(found, False)
            kinds = _kinds(places, level.length, text, sequences, queries, groups, of_query)
            found += _apart(places, level.length, kinds, text, sequences, queries, seen, bridged)
            complete &= len(kinds) <= MOST_KINDS
            if len(found) > limit or len(seen) > MOST_PAIRS:
                return FoundObstacles(found[:limit], False)
    return FoundObstacles(found, complete)


def _common_pieces(
    queries: Sequence[Query], candidates: Sequence[PlanCandidate]
) -> list[tuple[int, set[tuple[int, int]]]]:
    """The pairs of queries that candidates could serve, by how many steps these have."""
    numbers = {query.name: i for i, query in enumerate(queries)}
    found: dict[int, set[tuple[int, int]]] = {}
    for candidate in candidates:
        if candidate.kind in MATCHED and len(candidate.queries) <= MOST_SERVED:
            several = sorted(numbers[name] for name in candidate.queries)
            pairs = found.setdefault(len(candidate.pattern), set())
            pairs.update(combinations(several, 2))
    return sorted(found.items(), reverse=True)


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
    together: object = None
    any_window = False
    if isinstance(group, CountingGroup):
        engine = counting_engine(group.engine)
        any_window = not engine.BY_WINDOW
        if engine.ANY_PIECE:
            together = number, None if any_window else query.window.size
    return _Kind(
        query.key,
        query.window,
        query.slide if counted and query.window.is_count else None,
        any_window,
        _gives(query, counted),
        sequence.within,
        tuple(
            "" if isinstance(s.event.quantifier, One) else str(s.event.quantifier) for s in steps
        ),
        tuple(str(step.event.symbol) for step in steps),
        tuple(step.negated for step in steps) if counted else (),
        conditions,
        together,
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
    bridged: set[tuple[int, int]],
) -> Iterator[Obstacle]:
    """The obstacles among kinds that have not all been named with a longer stretch.

    Kinds of which two queries could read one piece have none.
    """
    reasons: dict[tuple[_Kinds, _Kinds], tuple[str, ...]] = {}
    listed = sorted(list(kinds)[:MOST_KINDS], key=lambda kind: (-len(kinds[kind]), kinds[kind][0]))
    for i, one in enumerate(listed):
        for other in listed[i + 1 :]:
            pairs = {(min(a, b), max(a, b)) for a in kinds[one] for b in kinds[other]}
            if not pairs <= seen and not pairs & bridged and (reason := _reason(one, other)):
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
    bridged = one.any_window and other.any_window
    bridged |= "counted" not in (one.gives, other.gives)
    if bridged and one.is_count == other.is_count:
        # Counters for each START, or a piece of matches, are of the widest window that reads them.
        differ = [name for name in differ if name != "window"]
    if one.gives != other.gives and "counted" in (one.gives, other.gives):
        differ = [name for name in differ if name != "negated"]
    if one.together is not None and one.together == other.together:
        # One group: ORs do not matter, as each distinct piece is counted once.
        differ = [name for name in differ if name in ("groups", "symbols", "negated")]
        if "AND" in (one.within, other.within):
            differ.append("within")
    found = [_called(name, one, other) for name in differ]
    if (one.gives == "counted") != (other.gives == "counted"):
        constructed = other.gives if one.gives == "counted" else one.gives
        returned = constructed == "constructed"
        found.insert(0, "AGG against RETURN" if returned else "counted against constructed")
    return tuple(found)


def _called(name: str, one: _Kind, other: _Kind) -> str:
    """How people call what two kinds differ in."""
    if name == "window" and one.is_count != other.is_count:
        return "a window of time against one of events"
    return _within(one, other) if name == "within" else NAMES[name]


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
