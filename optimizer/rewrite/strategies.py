"""STRATEGY NEXT and STRICT as negations, so that every engine runs them.

STRICT: `SEQ(A a, B+ b, C c)` becomes `SEQ(A a, !Any, B:+ b, !Any, C c)`. The events of an AND may
come in any order, and each order is a sequence of its own.

NEXT: in the gap behind a component nothing may lie that a match could have taken there, which is
what the next component takes, or the group goes on with: `SEQ(A a, B+ b, C c)` becomes
`SEQ(A a, !B, B+{!B, !C} b, !B, !C, C c)`. Behind an optional component the one after it may come
next as well, and each choice of those that are there is a reading of its own. The conditions that
speak only of what is bound by then are asked of the negated events too. Between the events of a
group nothing can be asked that ties them to others, and no number be counted: such queries are left
as they are.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import product

from optimizer.bind.conditions import canonical, ordered_unique
from optimizer.ir.pattern import (
    ANY,
    NEVER,
    And,
    Event,
    GroupWithout,
    Neg,
    Or,
    Pattern,
    Seq,
    alternatives,
    events,
    group_sizes,
    in_sequence,
    positive_events,
)
from optimizer.ir.query import Query
from workloads import expressions as ex
from workloads.errors import TooLargeError
from workloads.syntax import All, Exactly, One, Plus

NAME = "strategy"
MAX_ORDERS = 720  # of the events of an AND


def without_strategy(query: Query) -> Query:
    """The query whose every match counts; itself where there is none with the same matches."""
    match query.strategy:
        case "strict":
            found = _strict(query)
        case "next":
            found = _next(query)
        case _:
            found = None
    return query if found is None else found


# --- STRICT ---------------------------------------------------------------------------------------


def _strict(query: Query) -> Query | None:
    found: list[Pattern] = []
    try:
        choices = alternatives(query.pattern)
    except TooLargeError:
        return None
    for choice in choices:
        if any(isinstance(event.quantifier, All) for event in positive_events(choice)):
            return None  # its events may be simultaneous
        anywhere: tuple[Pattern, ...] = ()
        if isinstance(choice, And):  # what must not be in the window stays beside the sequences
            anywhere = tuple(part for part in choice.parts if isinstance(part, Neg))
            choice = And(tuple(part for part in choice.parts if not isinstance(part, Neg)))
        for order in _orders(choice):
            if order is None or len(found) >= MAX_ORDERS:
                return None
            sequence = _without_gaps(order)
            found.append(And((sequence, *anywhere)) if anywhere else sequence)
    pattern = NEVER if not found else found[0] if len(found) == 1 else Or(tuple(found))
    left = {event.alias for event in events(pattern)}  # without negations in gaps
    conditions = tuple(
        ex.with_previous(c, ex.PREVIOUS) for c in query.conditions if ex.aliases(c) <= left
    )
    return replace(query, pattern=pattern, conditions=conditions, strategy="any")


def _orders(node: Pattern) -> Iterator[tuple[Pattern, ...] | None]:
    """The orders in which the events of a pattern can come; None where a group has no place.

    Negations are where they were in a SEQ; those in an AND make it one that has no such order.
    """
    match node:
        case Event() | Neg():
            yield (node,)
        case Seq(parts):
            yield from _one_after_the_other(parts)
        case And(parts):
            if not all(_is_plain(part) for part in parts):
                yield None
                return
            yield from _interleaved(parts)
        case _:
            yield None


def _one_after_the_other(parts: Sequence[Pattern]) -> Iterator[tuple[Pattern, ...] | None]:
    if not parts:
        yield ()
        return
    for first in _orders(parts[0]):
        for rest in _one_after_the_other(parts[1:]):
            yield None if first is None or rest is None else (*first, *rest)


def _is_plain(part: Pattern) -> bool:
    match part:
        case Event(quantifier=One()):
            return True
        case Seq(parts) | And(parts):
            return all(map(_is_plain, parts))
        case _:
            return False


def _interleaved(parts: Sequence[Pattern]) -> Iterator[tuple[Pattern, ...] | None]:
    if not parts:
        yield ()
        return
    for first in _orders(parts[0]):
        for rest in _interleaved(parts[1:]):
            if first is None or rest is None:
                yield None
            else:
                yield from _merged(first, rest)


def _merged(one: tuple[Pattern, ...], other: tuple[Pattern, ...]) -> Iterator[tuple[Pattern, ...]]:
    if not one or not other:
        yield one + other
        return
    yield from ((one[0], *rest) for rest in _merged(one[1:], other))
    yield from ((other[0], *rest) for rest in _merged(one, other[1:]))


def _without_gaps(parts: tuple[Pattern, ...]) -> Pattern:
    """A sequence whose events are in consecutive moments; nothing else can lie in its gaps."""
    places = [i for i, part in enumerate(parts) if isinstance(part, Event)]
    found: list[Pattern] = list(parts[: places[0]])
    for place in places:
        event = parts[place]
        assert isinstance(event, Event)
        if place != places[0]:
            found.append(Neg(Event(ANY, f":{event.alias}")))
        found.append(_consecutive(event))
    found += parts[places[-1] + 1 :]
    return found[0] if len(found) == 1 else Seq(tuple(found))


def _consecutive(event: Event) -> Event:
    match event.quantifier:
        case Plus() | Exactly() | GroupWithout():
            least, most = group_sizes(event.quantifier)
            absent = Neg(Event(ANY, f"{event.alias}:"))
            return replace(event, quantifier=GroupWithout((absent,), least, most))
        case _:
            return event


# --- NEXT -----------------------------------------------------------------------------------------


def _next(query: Query) -> Query | None:
    if any(ex.prev_alias(condition) is not None for condition in query.conditions):
        return None  # what a group goes on with is tied to its last event
    parts = in_sequence(query.pattern)
    optional = [part.alias for part in parts if isinstance(part, Event) and part.optional]
    found: list[Pattern] = []
    copied: list[ex.Expression] = []
    for left_out in product((False, True), repeat=len(optional)):
        absent = frozenset(alias for alias, out in zip(optional, left_out, strict=True) if out)
        reading = _NextGaps(query, parts, absent)
        sequence = reading.rewritten()
        if sequence is None:
            return None
        found.append(sequence)
        copied += reading.copied
    return replace(
        query,
        pattern=found[0] if len(found) == 1 else Or(tuple(found)),
        conditions=ordered_unique([*query.conditions, *copied]),
        strategy="any",
    )


@dataclass
class _NextGaps:
    """A sequence without some of its optional components, and what must not lie in its gaps."""

    query: Query
    parts: tuple[Pattern, ...]
    left_out: frozenset[str]
    copied: list[ex.Expression] = field(default_factory=list)

    def rewritten(self) -> Pattern | None:
        """The sequence with those negations; None where conditions tie what they are about."""
        found: list[Pattern] = []
        bound: list[Event] = []
        components = [part for part in self.parts if isinstance(part, Event)]
        for part in self.parts:
            if not isinstance(part, Event):
                found.append(part)
                continue
            if part.alias in self.left_out:
                continue
            if bound:
                before = bound[-1]
                if goes_on(before):
                    found.append(self._absent(before, f"{before.alias}>", bound))
                for rival in following_components(components, before):
                    near = "" if rival is part else before.alias
                    found.append(self._absent(rival, f"{near}>{rival.alias}", [*bound, rival]))
            bound.append(part)
            settled = self._settled(part, following_components(components, part), bound)
            if settled is None:
                return None
            found.append(replace(settled, optional=False))
        return found[0] if len(found) == 1 else Seq(tuple(found))

    def _absent(self, event: Event, alias: str, bound: Sequence[Event]) -> Neg:
        """No event that a component could take when these are bound, itself the last of them."""
        names = {each.alias for each in bound}
        self.copied += [
            canonical(ex.rename(condition, {event.alias: alias}))
            for condition in self._asked(event, names)
        ]
        return Neg(Event(self.query.passed_over(event).symbol, alias))

    def _asked(self, event: Event, names: set[str]) -> list[ex.Expression]:
        """The conditions on an event of a component that speak of nothing but these."""
        return [
            condition
            for condition in self.query.conditions
            if event.alias in (named := ex.aliases(condition))
            and named <= names
            and not ex.is_of_group(condition, event.alias)
        ]

    def _settled(
        self, event: Event, following: Sequence[Event], bound: Sequence[Event]
    ) -> Event | None:
        """A component with what must not lie between its events; None where that is tied."""
        match event.quantifier:
            case One() | Exactly():
                return event
            case Plus():
                return self._without(event, following, bound)
            case GroupWithout(_, least, most) if least == most:
                # Until it is whole, nothing but the group can be gone on with.
                return self._without(event, (), bound)
            case _:
                return None

    def _without(
        self, event: Event, following: Sequence[Event], bound: Sequence[Event]
    ) -> Event | None:
        """A group between two of whose members there is no other, and nothing that follows it."""
        names = {each.alias for each in bound}
        tied = self._asked(event, names) or self._of_groups(event, names)
        rivals = [event, *following]
        for rival in following:
            tied = tied or self._asked(rival, {*names, rival.alias})
        if tied:
            return None
        absent = tuple(
            Neg(Event(self.query.passed_over(rival).symbol, f"{event.alias}:{number}"))
            for number, rival in enumerate(rivals, 1)
        )
        return replace(event, quantifier=GroupWithout(absent, *group_sizes(event.quantifier)))

    def _of_groups(self, event: Event, names: set[str]) -> list[ex.Expression]:
        """The conditions on the whole of a group, which the next event has to wait for."""
        return [
            condition
            for condition in self.query.conditions
            if event.alias in ex.aliases(condition) <= names
            and ex.is_of_group(condition, event.alias)
        ]


def goes_on(event: Event) -> bool:
    """May a group have a further event, however many it has?"""
    return group_sizes(event.quantifier)[1] is None


def following_components(components: Sequence[Event], event: Event) -> list[Event]:
    """Those that may come next behind a component: up to the first that is not optional."""
    found: list[Event] = []
    for component in components[components.index(event) + 1 :]:
        found.append(component)
        if not component.optional:
            break
    return found
