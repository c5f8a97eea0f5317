"""A pattern as a machine whose paths are its matches, one path each.

A state says how much of the pattern has been seen. A *step* uses an event for a component; where
no step is taken, the state *stays*, which may change it too: a negated pattern in a gap is followed
by a tracker, the set of what could have been seen of it, and a state whose negation has surely
occurred is dead. Counting the paths from start to end counts the matches; since every event acts
on a vector of counts linearly, stretches of stream can be multiplied
(docs/design.md#counting-is-linear).

All events of one time act at once: steps and stays read the state before them, so that
simultaneous events never follow each other.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, NamedTuple, TypeAlias

from optimizer.ir.aggregates import aggregated_values
from optimizer.ir.pattern import (
    And,
    Event,
    GroupWithout,
    Neg,
    Or,
    Pattern,
    Proj,
    Seq,
    Symbol,
    alternatives,
    count_readings,
    events,
    has_optional,
    in_sequence,
    positive_events,
    walk,
    word_of,
)
from optimizer.ir.query import Aggregation, Query
from workloads.errors import UnsupportedError
from workloads.expressions import Call, aliases
from workloads.printing import print_aggregate
from workloads.syntax import One, Plus

MachineState: TypeAlias = Hashable
Symbols: TypeAlias = frozenset[Symbol]


class UncountableError(UnsupportedError):
    """A pattern whose matches have to be constructed to be counted."""


class MachineStep(NamedTuple):
    """One event used: for which symbol and component, and the state that follows.

    `passed` are gates that must be clear, `begun` are negations that are watched from here on.
    """

    symbol: Symbol
    alias: str
    target: Any  # a state
    passed: tuple[int, ...] = ()
    begun: tuple[int, ...] = ()


# --- the parts of a machine --------------------------------------------------------------------


@dataclass(frozen=True)
class _Leaf:
    """One event, or a group `E+` whose last event is chosen when it is used.

    Nothing of `absent` may occur between two events of the group. It has at least `least`, and at
    most `most` where that is given; a state is how many there are, as far as it matters.
    """

    symbol: Symbol
    alias: str
    absent: Symbols = frozenset()
    least: int = 1
    most: int | None = 1
    start: MachineState = "waiting"

    def steps(self, state: MachineState, present: Symbols) -> Iterator[MachineStep]:
        if state == "done":
            return
        number = 1 + (state if isinstance(state, int) else 0)
        if number >= self.least:
            yield MachineStep(self.symbol, self.alias, "done")
        if self.most is None:
            # Once there are enough but one, it does not matter how many there are.
            yield MachineStep(self.symbol, self.alias, min(number, max(self.least - 1, 1)))
        elif number < self.most:
            yield MachineStep(self.symbol, self.alias, number)

    def stay(self, state: MachineState, present: Symbols) -> MachineState | None:
        is_open = state not in ("waiting", "done")
        return None if is_open and self.absent & present else state

    def is_fresh(self, state: MachineState) -> bool:
        return state == "waiting"

    def is_done(self, state: MachineState) -> bool:
        return state == "done"


class _Place(NamedTuple):
    """Where a sequence stands: at a part, in its state, with the trackers of the gap before it.

    `behind` is the part before that gap, where something is tracked in it: parts between the two
    that are optional are absent.
    """

    part: int
    inner: MachineState
    trackers: tuple[MachineState, ...] = ()
    behind: int = -1


@dataclass(frozen=True)
class _Sequence:
    """Parts one after the other; `gaps[i]` are the negations between part i and part i + 1.

    Which optional parts are absent is chosen when the part before them is whole, so that a match
    is still one path. Beside optional parts at either end there is no negation in a gap.
    """

    parts: tuple[_Node, ...]
    gaps: tuple[tuple[Tracker, ...], ...]
    gate: tuple[int, ...]  # watched negations before the first part
    tail: tuple[int, ...]  # watched negations after the last part
    optional: tuple[bool, ...]

    @property
    def start(self) -> _Place:
        return _Place(0, self.parts[0].start)

    def steps(self, state: _Place, present: Symbols) -> Iterator[MachineStep]:
        if state.part == len(self.parts):
            return
        if state == self.start:
            for i in self._next(-1):
                yield from self._steps_at(_Place(i, self.parts[i].start), present, self.gate)
            return
        part = self.parts[state.part]
        gap = zip(self._gap(state), state.trackers, strict=True)
        if not part.is_fresh(state.inner) or not any(t.found(s) for t, s in gap):
            yield from self._steps_at(state, present, ())

    def _steps_at(
        self, state: _Place, present: Symbols, gate: tuple[int, ...]
    ) -> Iterator[MachineStep]:
        i, part = state.part, self.parts[state.part]
        for step in part.steps(state.inner, present):
            passed = step.passed + gate
            if not part.is_done(step.target):
                yield step._replace(target=_Place(i, step.target), passed=passed)
                continue
            for j in self._next(i):
                if j == len(self.parts):
                    begun = step.begun + self.tail
                    yield step._replace(target=_Place(j, None), passed=passed, begun=begun)
                    continue
                target = _Place(j, self.parts[j].start, behind=i)
                trackers = tuple(t.start for t in self._gap(target))
                target = target._replace(trackers=trackers, behind=i if trackers else -1)
                yield step._replace(target=target, passed=passed)

    def _next(self, i: int) -> Iterator[int]:
        """The parts that can come next behind a part, past optional ones; the end too."""
        for j in range(i + 1, len(self.parts) + 1):
            yield j
            if j < len(self.parts) and not self.optional[j]:
                return

    def _gap(self, state: _Place) -> list[Tracker]:
        """The negations between a part and the one behind it: with those of gaps joined to it."""
        if state.behind < 0:
            return []
        return [tracker for gap in self.gaps[state.behind : state.part] for tracker in gap]

    def stay(self, state: _Place, present: Symbols) -> _Place | None:
        if state.part == len(self.parts):
            return state
        stepped = self.parts[state.part].stay(state.inner, present)
        gap = zip(self._gap(state), state.trackers, strict=True)
        moved = tuple(t.step(s, present) for t, s in gap)
        if stepped is None or None in moved:
            return None
        return state._replace(inner=stepped, trackers=moved)

    def is_fresh(self, state: _Place) -> bool:
        return state.part == 0 and self.parts[0].is_fresh(state.inner)

    def is_done(self, state: _Place) -> bool:
        return state.part == len(self.parts)


@dataclass(frozen=True)
class _Conjunction:
    """Parts in any order; a state is the tuple of theirs."""

    parts: tuple[_Node, ...]

    @property
    def start(self) -> tuple[MachineState, ...]:
        return tuple(part.start for part in self.parts)

    def steps(self, state: tuple[MachineState, ...], present: Symbols) -> Iterator[MachineStep]:
        stayed = [part.stay(s, present) for part, s in zip(self.parts, state, strict=True)]
        for i, part in enumerate(self.parts):
            others = (*stayed[:i], *stayed[i + 1 :])
            if None not in others:
                for step in part.steps(state[i], present):
                    yield step._replace(target=(*stayed[:i], step.target, *stayed[i + 1 :]))

    def stay(self, state: tuple[MachineState, ...], present: Symbols) -> MachineState | None:
        stayed = tuple(part.stay(s, present) for part, s in zip(self.parts, state, strict=True))
        return None if None in stayed else stayed

    def is_fresh(self, state: tuple[MachineState, ...]) -> bool:
        return all(part.is_fresh(s) for part, s in zip(self.parts, state, strict=True))

    def is_done(self, state: tuple[MachineState, ...]) -> bool:
        return all(part.is_done(s) for part, s in zip(self.parts, state, strict=True))


_Node: TypeAlias = Any  # _Leaf | _Sequence | _Conjunction, each with states of its own


class Position(NamedTuple):
    """A machine's state: the pattern's own, and those of the negations watched window-wide.

    A watched negation is None where it is not looked at: a tail not yet begun, a gate passed.
    """

    inner: MachineState
    watched: tuple[MachineState, ...]


class Machine:
    """The machine of one OR-free pattern."""

    def __init__(self, pattern: Pattern) -> None:
        self.watched: list[tuple[str, Tracker]] = []  # kind ("gate", "tail", "whole") and tracker
        self._pattern = pattern
        self.word = word_of(pattern)  # its symbols, if it is a sequence of single events
        assert self.word or self._root  # few ask for words' states; others tell what is watched
        self.symbols: Symbols = frozenset(e.symbol for e in events(pattern))
        # Symbols of negations: only these change a state that no event is used for.
        self.watched_symbols: Symbols = frozenset(
            e.symbol for node in walk(pattern) if isinstance(node, Neg) for e in events(node)
        )
        self.components = sum(1 for _ in positive_events(pattern))
        self.has_plus = any(
            isinstance(e.quantifier, Plus | GroupWithout) for e in positive_events(pattern)
        )
        self.has_conjunction = any(isinstance(node, And) for node in walk(pattern))

    @cached_property
    def _root(self) -> _Node:
        return self._node(self._pattern)

    @cached_property
    def start(self) -> Position:
        """Where a match begins."""
        root = self._root  # which makes what is watched
        return Position(
            root.start, tuple(None if k == "tail" else t.start for k, t in self.watched)
        )

    def steps(self, state: Position, symbols: Symbols, present: Symbols) -> Iterator[MachineStep]:
        """How an event of these symbols can be used, beside others of the same time."""
        stayed = self._watch(state, present)
        for step in self._root.steps(state.inner, present):
            if step.symbol not in symbols:
                continue
            if any(self.watched[i][1].found(state.watched[i]) for i in step.passed):
                continue
            watched = list(stayed)
            for i in step.passed:
                watched[i] = _UNWATCHED
            for i in step.begun:
                watched[i] = self.watched[i][1].start
            if None not in watched:
                inner = step.target
                yield step._replace(target=Position(inner, _plain(watched)), passed=(), begun=())

    def stay(self, state: Position, present: Symbols) -> Position | None:
        """The state after events of which none was used; None if it can no longer match."""
        inner = self._root.stay(state.inner, present)
        watched = self._watch(state, present)
        return None if inner is None or None in watched else Position(inner, _plain(watched))

    def is_final(self, state: Position) -> bool:
        """Is this a match, if the window closes now?"""
        return self._root.is_done(state.inner) and not any(
            s is not None and t.found(s)
            for (_, t), s in zip(self.watched, state.watched, strict=True)
        )

    def is_settled(self, state: Position) -> bool:
        """Is this a match whatever follows?"""
        return self._root.is_done(state.inner) and not any(s is not None for s in state.watched)

    def _watch(self, state: Position, present: Symbols) -> list[MachineState | None]:
        return [
            _UNWATCHED if s is None else t.step(s, present)
            for (_, t), s in zip(self.watched, state.watched, strict=True)
        ]

    def _node(self, pattern: Pattern) -> _Node:
        match pattern:
            case Event(symbol, alias, One()):
                return _Leaf(symbol, alias)
            case Event(symbol, alias, Plus()):
                return _Leaf(symbol, alias, most=None)
            case Event(symbol, alias, GroupWithout() as group):
                return _Leaf(symbol, alias, frozenset(group.symbols), group.least, group.most)
            case Event():
                raise UncountableError(
                    "a group of n events, or of all, is constructed to be counted"
                )
            case Seq(parts):
                return self._sequence(parts)
            case And(parts):
                for part in parts:
                    if isinstance(part, Neg):
                        self._watched("whole", part)
                return _Conjunction(tuple(self._node(p) for p in parts if not isinstance(p, Neg)))
            case Proj():
                raise UncountableError("a projected pattern is not counted")
            case _:
                raise AssertionError(f"not a part of an OR-free pattern: {pattern}")

    def _sequence(self, parts: tuple[Pattern, ...]) -> _Sequence:
        groups: list[list[Neg]] = [[]]
        positive: list[Pattern] = []
        for part in parts:
            if isinstance(part, Neg):
                groups[-1].append(part)
            else:
                positive.append(part)
                groups.append([])
        gate = tuple(self._watched("gate", part) for part in groups[0])
        nodes = tuple(self._node(part) for part in positive)
        tail = tuple(self._watched("tail", part) for part in groups[-1])
        gaps = tuple(tuple(Tracker(part.part) for part in group) for group in groups[1:-1])
        optional = tuple(isinstance(part, Event) and part.optional for part in positive)
        return _Sequence(nodes, gaps, gate, tail, optional)

    def _watched(self, kind: str, negation: Neg) -> int:
        self.watched.append((kind, Tracker(negation.part)))
        return len(self.watched) - 1


class Tracker:
    """Follows a negated pattern from the opening of its region: the set of states it may be in."""

    def __init__(self, pattern: Pattern) -> None:
        self._machines = [Machine(choice) for choice in alternatives(pattern)]
        if any(machine.has_conjunction for machine in self._machines):
            raise UncountableError(_UNPAIRED)
        self.start: MachineState = frozenset((i, m.start) for i, m in enumerate(self._machines))

    def step(self, states: MachineState, present: Symbols) -> MachineState | None:
        """What may have been seen after these events; None once it has surely been all."""
        after = set()
        for i, state in states:  # type: ignore[attr-defined]
            machine = self._machines[i]
            stayed = machine.stay(state, present)
            targets = {step.target for step in machine.steps(state, present, present)}
            for target in targets if stayed is None else targets | {stayed}:
                if machine.is_settled(target):
                    return None
                after.add((i, target))
        return frozenset(after)

    def found(self, states: MachineState) -> bool:
        """Does the negated pattern occur, if its region closes now?"""
        return any(self._machines[i].is_final(state) for i, state in states)  # type: ignore[attr-defined]


class _Unwatched:
    """A negation that is not looked at, told apart from one that has surely occurred."""


_UNWATCHED = _Unwatched()
_UNPAIRED = "a negated AND may be completed by simultaneous events, which a tracker does not pair"


def _plain(watched: Iterable[MachineState | None]) -> tuple[MachineState, ...]:
    return tuple(None if s is _UNWATCHED else s for s in watched)


# What one pattern may take to be counted: states of its machine; looks at what these remember of
# negations, while they are searched for; and counters, one for each pair of states of which one
# leads to the other. AND of 12 events has 4,096 states and 531,441 counters.
MAX_STATES = 4_096
MAX_LOOKS = 60_000
MAX_COUNTERS = 600_000


@dataclass(frozen=True)
class StateGraph:
    """The states that a machine can reach where events come one at a time.

    `moves` are the steps of events that are used: symbol, state before, state after. `stays` are
    the changes by events that are not used; None is a state that can no longer match. `after[i]`
    and `before[i]` are how many states state i leads to, and is reached from, itself included.
    """

    size: int
    moves: tuple[tuple[Symbol, int, int], ...]
    stays: tuple[tuple[Symbol, int, int | None], ...]
    after: tuple[int, ...]
    before: tuple[int, ...]


@lru_cache(maxsize=64)  # asked again for every group that a query is tried in
def state_graph(choice: Pattern) -> StateGraph:
    """The states of an OR-free pattern's machine; `UncountableError` where they are too many."""
    machine = Machine(choice)
    numbers: dict[Position, int] = {machine.start: 0}
    states = [machine.start]
    looks = 0
    moves: list[tuple[Symbol, int, int]] = []
    stays: list[tuple[Symbol, int, int | None]] = []

    def number(state: Position) -> int:
        if state not in numbers:
            numbers[state] = len(states)
            states.append(state)
            if len(states) > MAX_STATES:
                raise UncountableError(f"its automaton has more than {MAX_STATES:,} states")
        return numbers[state]

    watched = sorted(machine.watched_symbols, key=str)
    others = machine.symbols - machine.watched_symbols
    nothing: Symbols = frozenset()
    done = 0
    while done < len(states):
        state = states[done]
        looks += _remembered(state) * (1 + len(watched))
        if looks > MAX_LOOKS:
            raise UncountableError("its automaton has too much to remember of nested negations")
        steps = machine.steps(state, others, nothing)
        moves += [(step.symbol, done, number(step.target)) for step in steps]
        for symbol in watched:
            alone = frozenset([symbol])
            steps = machine.steps(state, alone, alone)
            moves += [(symbol, done, number(step.target)) for step in steps]
            after = machine.stay(state, alone)
            target = None if after is None else number(after)
            if target != done:
                stays.append((symbol, done, target))
        done += 1
    edges = [(i, j) for _, i, j in moves] + [(i, j) for _, i, j in stays if j is not None]
    reached = _reached(len(states), edges)
    if sum(reached) > MAX_COUNTERS:
        raise UncountableError(f"counting it takes more than {MAX_COUNTERS:,} counters")
    before = _reached(len(states), [(j, i) for i, j in edges])
    return StateGraph(len(states), tuple(moves), tuple(stays), tuple(reached), tuple(before))


def _remembered(state: Any) -> int:
    """How many states of negations a state is made of, at any depth."""
    found, open_ = 0, [state]
    while open_:
        part = open_.pop()
        if isinstance(part, frozenset):
            found += len(part)
        if isinstance(part, (frozenset, tuple)):
            open_ += part
    return found


def _reached(size: int, edges: Iterable[tuple[int, int]]) -> list[int]:
    """How many states can be reached from each, itself included; sets are bits of integers."""
    following: list[set[int]] = [set() for _ in range(size)]
    for i, j in edges:
        following[i].add(j)
    found = [1 << i for i in range(size)]
    changed = True
    while changed:  # most edges lead to states that were found later, so that few rounds do
        changed = False
        for order in (range(size - 1, -1, -1), range(size)):
            for i in order:
                bits = found[i]
                for j in following[i]:
                    bits |= found[j]
                if bits != found[i]:
                    found[i], changed = bits, True
    return [bits.bit_count() for bits in found]


@lru_cache(maxsize=16_384)
def counted_readings(pattern: Pattern) -> tuple[Pattern, ...]:
    """The patterns that machines are made of: optional parts are passed over by its steps.

    Where a machine cannot, each choice of what is absent is a pattern of its own.
    """
    if has_optional(pattern):
        parts = in_sequence(pattern)
        if _can_pass_over(parts):
            return (Seq(parts),)
    return alternatives(pattern)


def _can_pass_over(parts: tuple[Pattern, ...]) -> bool:
    """Is all that is optional a component of a sequence, and no negation beside it at an end?"""
    if any(has_optional(part) for part in parts if not isinstance(part, Event)):
        return False
    if any(isinstance(node, Or) for part in parts for node in walk(part)):
        return False
    places = [i for i, part in enumerate(parts) if not isinstance(part, Neg)]
    required = [i for i in places if not (isinstance(p := parts[i], Event) and p.optional)]
    ends = (*parts[places[0] : required[0]], *parts[required[-1] + 1 : places[-1] + 1])
    return not any(isinstance(part, Neg) for part in ends)


MAX_READINGS = 4  # of a counted query with optional parts: past that one machine passes over them


def is_passed_over(query: Query) -> bool:
    """Are optional parts left to the machine that counts the query?

    Each as a reading of its own, queries of few share steps with others, and more engines take
    them; of many there would be twice as many with each further part.
    """
    if not isinstance(query.output, Aggregation) or not has_optional(query.pattern):
        return False
    if len(counted_readings(query.pattern)) > 1 or count_readings(query.pattern) <= MAX_READINGS:
        return False
    return countable(query) is None


@lru_cache(maxsize=16_384)  # a planner asks for each query again and again
def countable(query: Query) -> str | None:
    """None if the query can be counted without constructing its matches, else why not."""
    if not isinstance(query.output, Aggregation):
        return "it returns matches"
    single = isinstance(query.pattern, Event) and isinstance(query.pattern.quantifier, One)
    if (reason := uncountable_value(query.output)) is not None and not single:
        return reason
    if query.special_windows is not None:
        return query.special_windows
    if query.lasting:
        return f"events of {query.lasting[0]} may start before they end"
    if query.strategy != "any":
        return f"of its matches only those of STRATEGY {query.strategy.upper()} count"
    if query.conditions:
        return "its conditions tie different events to each other"
    try:
        counters = sum(map(_counters, counted_readings(query.pattern)))
    except UnsupportedError as error:
        return str(error)
    if counters > MAX_COUNTERS:
        return f"counting it takes more than {MAX_COUNTERS:,} counters"
    return None


@lru_cache(maxsize=16_384)
def countable_by_counters(query: Query) -> str | None:
    """The same, where nothing but counts, sums, minima and maxima is carried along."""
    if isinstance(query.output, Aggregation):
        return uncountable_value(query.output) or countable(query)
    return countable(query)


def uncountable_value(output: Aggregation) -> str | None:
    """Why the matches of a sequence have to be known one by one for what is aggregated."""
    for function, operand in aggregated_values(output):
        if len(aliases(operand)) > 1:
            return (
                f"{print_aggregate(Call(function, operand))} is of values of different components"
            )
        if function == "count distinct":
            return "COUNT(DISTINCT …) has to tell values from each other"
    return None


def _counters(choice: Pattern) -> int:
    """How many pairs of states of its machine there are of which one leads to the other."""
    if is_sequence(choice):
        parts = choice.parts if isinstance(choice, Seq) else (choice,)
        length = sum(isinstance(part, Event) for part in parts)
        return (length + 1) * (length + 2) // 2
    return sum(state_graph(choice).after)


def is_sequence(choice: Pattern) -> bool:
    """Is it a sequence of single events, between which only single events are negated?"""
    return not has_optional(choice) and all(
        isinstance(part.part if isinstance(part, Neg) else part, Event)
        and isinstance((part.part if isinstance(part, Neg) else part).quantifier, One)  # type: ignore[union-attr]
        for part in (choice.parts if isinstance(choice, Seq) else (choice,))
    )
