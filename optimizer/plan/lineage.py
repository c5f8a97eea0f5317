"""The way of a query through a plan, whom it shares operators with, and what groups compute
once.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from optimizer.engines import counting_engine
from optimizer.engines.spec import words_of
from optimizer.plan.groups import CountingGroup, Group
from optimizer.plan.plan import (
    CONSTRUCTING,
    Operator,
    Plan,
    PlanCandidate,
)


class QueryOperators:
    """For each query the operators that it uses, and for each operator its queries."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.by_id = {operator.id: operator for operator in plan.operators}
        self.outputs = {o.detail["query"]: o for o in plan.operators if o.kind == "output"}
        self.groups: Mapping[str, Group] = {q: g for g in plan.groups for q in g.queries}
        self._place = {operator.id: i for i, operator in enumerate(plan.operators)}
        self._inputs: dict[str, _Inputs] = {}
        self._sinks: dict[str, list[Operator]] = {}
        for sink in plan.operators:
            if sink.kind == "sink":
                for source in sink.inputs:
                    self._sinks.setdefault(source, []).append(sink)

    def of(self, query: str) -> list[Operator]:
        """The operators that a query uses, in the plan's order; its sink is the last."""
        output = self.outputs[query]
        symbols = output.detail["symbols"]
        found = {output.id}
        waiting = list(self._inputs_of(output).of(query, symbols))
        while waiting:
            operator = self.by_id[waiting.pop()]
            if operator.id in found:
                continue
            found.add(operator.id)
            waiting.extend(self._inputs_of(operator).of(query, symbols))
        ordered = sorted(found, key=lambda id: self._place[id])
        return [self.by_id[id] for id in ordered] + self._sinks.get(output.id, [])

    def _inputs_of(self, operator: Operator) -> _Inputs:
        """What an operator reads; made once."""
        known = self._inputs.get(operator.id)
        if known is None:
            # Rows that are events for others are their maker's work, which ends with them.
            read = () if operator.kind == "into" else operator.inputs
            known = self._inputs[operator.id] = _Inputs([self.by_id[i] for i in read])
        return known

    @cached_property
    def queries(self) -> Mapping[str, tuple[str, ...]]:
        """The queries that use each operator."""
        found: dict[str, list[str]] = {}
        for query in self.plan.queries:
            for operator in self.of(query):
                found.setdefault(operator.id, []).append(query)
        return {operator: tuple(names) for operator, names in found.items()}

    def others(self, operator: Operator, query: str) -> list[str]:
        """With whom a query shares an operator."""
        return [name for name in self.queries[operator.id] if name != query]

    @cached_property
    def shared_joins(self) -> list[Operator]:
        """Joins of several queries, the largest of those that the same queries have."""
        found = [
            o for o in self.plan.operators if o.kind in CONSTRUCTING and len(self.queries[o.id]) > 1
        ]
        inner = {
            source for o in found for source in o.inputs
            if self.queries[source] == self.queries[o.id]
        }  # fmt: skip
        return [operator for operator in found if operator.id not in inner]

    def cost_below(self, operator: Operator) -> float:
        """What an operator and the joins that it reads take, each once."""
        return sum(below.cost for below in self._below(operator) if below.kind in CONSTRUCTING)

    def cost_of(self, group: Group) -> float:
        """What the counter, pass or joins of a group take, without preparing events and rows."""
        kinds = ("counter", "segment", "pass", *CONSTRUCTING)
        found: set[str] = set()
        open_ = [source for name in group.queries for source in self.outputs[name].inputs]
        while open_:
            operator = self.by_id[open_.pop()]
            if operator.id not in found and operator.kind in kinds:
                found.add(operator.id)
                open_ += operator.inputs
        return sum(self.by_id[number].cost for number in sorted(found, key=self._place.__getitem__))

    def symbols_below(self, operator: Operator) -> list[str]:
        """The symbols of the events that it reads, directly or through others."""
        found = [o.detail["symbol"] for o in self._below(operator) if o.kind == "events"]
        return list(dict.fromkeys(found))

    def _below(self, operator: Operator) -> list[Operator]:
        found: dict[str, Operator] = {}
        open_ = [operator]
        while open_:
            at = open_.pop()
            if at.id not in found:
                found[at.id] = at
                read = () if at.kind == "into" else at.inputs
                open_ += [self.by_id[source] for source in reversed(read)]
        return list(found.values())


class _Inputs:
    """What an operator reads, so that what is for one query is found without a look at all.

    A group's engine reads for all of its queries: segments and events of others are not its.
    """

    def __init__(self, operators: Sequence[Operator]) -> None:
        self.everyone: list[str] = []
        self.by_query: dict[str, list[str]] = {}
        self.by_symbol: dict[str, list[str]] = {}
        for operator in operators:
            match operator.kind:
                case "segment":
                    for query in operator.detail["queries"]:
                        self.by_query.setdefault(query, []).append(operator.id)
                case "events" | "symbol":
                    self.by_symbol.setdefault(operator.detail["symbol"], []).append(operator.id)
                case _:
                    self.everyone.append(operator.id)

    def of(self, query: str, symbols: Iterable[str]) -> Iterator[str]:
        """The operators that are read for a query with these symbols."""
        yield from self.everyone
        yield from self.by_query.get(query, ())
        for symbol in symbols:
            yield from self.by_symbol.get(symbol, ())


StepsByQuery = Mapping[str, Sequence[str]]  # of each query


@dataclass(frozen=True)
class SharedSteps:
    """Steps that several queries of a group have, computed once for all of them.

    `benefit` is what that saves, where it is known, and `why` the reason for it.
    """

    steps: tuple[str, ...]
    queries: tuple[str, ...]
    benefit: float | None = None
    why: str = ""


def computed_once(plan: Plan) -> dict[int, list[SharedSteps]]:
    """The pieces that are counted once in each group, by its number: its segments with readers.

    What one saves is what it and its parts do that are counted for the same queries.
    """
    ids = set(plan.chosen)
    chosen: dict[tuple[str, ...], list[PlanCandidate]] = {}
    for candidate in plan.candidates:
        if candidate.id in ids:
            chosen.setdefault(candidate.queries, []).append(candidate)
    numbers = {query: i for i, group in enumerate(plan.groups) for query in group.queries}
    found: dict[int, list[SharedSteps]] = {}
    for operator in plan.operators:
        if operator.kind == "segment":
            steps, queries = tuple(operator.detail["steps"]), tuple(operator.detail["queries"])
            inside = [c for c in chosen.get(queries, ()) if is_part(c.pattern, steps)]
            saved = sum(c.benefit for c in inside) if inside else None
            piece = SharedSteps(steps, queries, saved, inside[0].why if inside else "")
            found.setdefault(numbers[queries[0]], []).append(piece)
    return found


def made_once(plan: Plan) -> dict[int, list[SharedSteps]]:
    """What is joined once for several queries, by the number of their group.

    Of a join the steps are the symbols that it reads.
    """
    ways = QueryOperators(plan)
    numbers = {query: i for i, group in enumerate(plan.groups) for query in group.queries}
    found: dict[int, list[SharedSteps]] = {}
    for join in ways.shared_joins:
        queries = ways.queries[join.id]
        anew = (len(queries) - 1) * ways.cost_below(join)
        why = "one by one, each query would take it again"
        piece = SharedSteps(tuple(ways.symbols_below(join)), queries, anew, why)
        found.setdefault(numbers[queries[0]], []).append(piece)
    return found


def steps_of(group: Group) -> dict[str, tuple[str, ...]]:
    """The steps of each query, as far as it is a sequence of them; else it is a step of its own."""
    return words_of(segments_of(group)) if isinstance(group, CountingGroup) else {}


def segments_of(group: CountingGroup) -> dict[str, tuple[tuple[str, ...], ...]]:
    """The segments that each query is made of, in order."""
    return {
        name: tuple(group.segments[number] for number in numbers)
        for name, numbers in group.uses.items()
    }


@dataclass(frozen=True)
class Cover:
    """Pieces that make up queries: for each query, where which of them begins."""

    pieces: tuple[SharedSteps, ...]
    places: Mapping[str, tuple[tuple[int, int], ...]]  # (position, number of the piece)

    def queries(self, piece: int) -> tuple[str, ...]:
        """The queries that are made of a piece here."""
        return tuple(name for name, at in self.places.items() if any(n == piece for _, n in at))

    def uncovered(self, name: str, steps: Sequence[str]) -> list[str]:
        """The steps of a query that are in none of the pieces."""
        taken: set[int] = set()
        for position, number in self.places.get(name, ()):
            taken.update(range(position, position + len(self.pieces[number].steps)))
        return [step for at, step in enumerate(steps) if at not in taken]


def cover(pieces: Sequence[SharedSteps], steps: StepsByQuery, most: int) -> Cover:
    """At most so many pieces: the one that covers the most new steps, again and again.

    Each covers some in two queries or more. Pieces may overlap, but none lies within another of the
    same query.
    """
    free = {name: [True] * len(found) for name, found in steps.items()}

    def places(piece: SharedSteps) -> list[tuple[str, int]]:
        """Where it covers anything new."""
        size = len(piece.steps)
        return [
            (name, at)
            for name in piece.queries
            for at in _at(piece, steps.get(name, ()))
            if any(free[name][at : at + size])
        ]

    def rated(number: int) -> tuple[int, int, int]:
        piece = pieces[number]
        size, found = len(piece.steps), places(piece)
        new = sum(sum(free[name][at : at + size]) for name, at in found)
        return -new * (len({name for name, _ in found}) > 1), -size, number

    heap = [rated(number) for number in range(len(pieces))]
    heapq.heapify(heap)
    chosen: list[SharedSteps] = []
    at: dict[str, list[tuple[int, int]]] = {name: [] for name in steps}
    while heap and len(chosen) < most:
        before = heapq.heappop(heap)
        now = rated(before[-1])
        if not now[0]:
            continue
        if now > before:  # what covers less than it did may no longer be first
            heapq.heappush(heap, now)
            continue
        piece = pieces[now[-1]]
        for name, position in places(piece):
            at[name].append((position, len(chosen)))
            free[name][position : position + len(piece.steps)] = [False] * len(piece.steps)
        chosen.append(piece)
    return _without_parts(chosen, at)


def _without_parts(chosen: Sequence[SharedSteps], at: Mapping[str, list[tuple[int, int]]]) -> Cover:
    """The cover without places that lie within another one of their query."""

    def span(place: tuple[int, int]) -> tuple[int, int]:
        return place[0], place[0] + len(chosen[place[1]].steps)

    places = {}
    for name, found in at.items():
        spans = [span(place) for place in found]
        places[name] = [
            place
            for place, (start, end) in zip(found, spans, strict=True)
            if not any(s <= start and end <= e and (s, e) != (start, end) for s, e in spans)
        ]
    used = sorted({number for found in places.values() for _, number in found})
    new = {number: i for i, number in enumerate(used)}
    return Cover(
        tuple(chosen[number] for number in used),
        {name: tuple(sorted((p, new[n]) for p, n in found)) for name, found in places.items()},
    )


def with_widest(
    covered: Cover, pieces: Sequence[SharedSteps], steps: StepsByQuery, most: int
) -> Cover:
    """A cover with further pieces, those of the most queries first, up to so many in all.

    Each adds something: it is shared by queries that no larger piece in the cover has, and it
    covers a step that was not covered or is a part of a piece in the cover.
    """
    shown = list(covered.pieces)
    places = {name: list(found) for name, found in covered.places.items()}
    for piece in sorted(pieces, key=lambda piece: (-len(piece.queries), -len(piece.steps))):
        if len(shown) >= most:
            break
        around = [other for other in shown if is_part(piece.steps, other.steps)]
        if any(set(piece.queries) <= set(other.queries) for other in around):
            continue
        new = []
        for name in piece.queries:
            taken = {
                at
                for start, number in places.get(name, ())
                for at in range(start, start + len(shown[number].steps))
            }
            new += [
                (name, at)
                for at in _at(piece, steps.get(name, ()))
                if not taken.issuperset(range(at, at + len(piece.steps)))
            ]
        if new or around:
            for name, at in new:
                places.setdefault(name, []).append((at, len(shown)))
            shown.append(piece)
    return Cover(tuple(shown), {name: tuple(sorted(found)) for name, found in places.items()})


def _at(piece: SharedSteps, steps: Sequence[str]) -> Iterator[int]:
    size = len(piece.steps)
    for at in range(len(steps) - size + 1):
        if tuple(steps[at : at + size]) == piece.steps:
            yield at


def shared_steps_of(
    group: Group, names: Sequence[str] | None = None
) -> dict[tuple[str, ...], tuple[str, ...]]:
    """The queries of each piece that the group's engine computes once, shorter pieces first.

    With `names` only those queries of the group are looked at.
    """
    names = group.queries if names is None else names
    if len(names) < 2 or not isinstance(group, CountingGroup):
        return {}
    segments = segments_of(group)
    own = {name: segments[name] for name in names if name in segments}
    return counting_engine(group.engine).computed_once(own)


def is_part(steps: tuple[str, ...], whole: tuple[str, ...]) -> bool:
    """Is it a stretch of the other, or all of it?"""
    return any(whole[at : at + len(steps)] == steps for at in range(len(whole) - len(steps) + 1))
