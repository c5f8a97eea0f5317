"""The nearest miss of a query among some events: the one thing that a match would have to lack.

Each relaxation of the query is evaluated by the reference, within a budget of steps. Where no
single one gives a match, the most components that go together are looked for, and of the one that
is missing the events that come nearest.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from engines.reference.meaning import MAX_STEPS, Matcher, extent
from engines.reference.rows import WindowEnd, found_matches, matcher_of
from engines.reference.selection import skipped_events
from engines.reference.shape import alternatives
from engines.reference.special_windows import is_instance
from engines.reference.values import Binding, Row, true, value
from engines.why.failing_parts import failing_parts
from engines.why.relaxations import (
    Relaxation,
    only_components,
    relaxations,
    searched,
    without_strategy,
)
from optimizer.ir.latest import latest_parts
from optimizer.ir.pattern import ANY_TYPE, Event, Neg, Seq, Symbol, positive_events
from optimizer.ir.query import Query
from workloads import expressions as ex
from workloads.errors import TooLargeError, UnsupportedError
from workloads.printing import print_expression
from workloads.workload import Stream, print_nanoseconds

BUDGET_STEPS = 150_000  # of one search
MOST_MATCHES = 500  # among which the nearest is looked for
SHOWN_CANDIDATES = 3
_ORDER = ("slide", "negation", "strategy", "window", "order", "condition", "key", "component")


def _anything(bound: Binding) -> bool:
    return True


@dataclass(frozen=True)
class NearMiss:
    """Events that would be a match but for one thing: what, why, and by which events.

    `bound` are the events by component; `by` those that decide it, each with the role that it has.
    """

    kind: str
    what: str
    because: str
    bound: Mapping[str, tuple[Row, ...]]
    by: tuple[tuple[str, Row], ...] = ()
    fails: int = 1  # things that are asked for and do not hold

    def rank(self, at: int | None) -> tuple[Any, ...]:
        """The nearest is first: by what fails, then by how far it is from a time."""
        return (self.fails, -len(self.bound), _distance(self.bound, at), _ORDER.index(self.kind))


@dataclass
class MissSearch:
    """Looks for near misses of a query among the events of one partition."""

    stream: Stream
    tick: int
    rows: list[Row]
    at: int | None = None
    was_cut: bool = field(default=False, init=False)  # did a search end at its budget?

    def matches(self, query: Query, window: WindowEnd | None = None) -> list[Binding]:
        """The first matches of a query, each once; of an aggregate also those of one window."""
        found: dict[tuple[Any, ...], Binding] = {}
        steps = itertools.count(MAX_STEPS - BUDGET_STEPS)
        try:
            for bound in found_matches(query, self.stream, self.rows, self.tick, steps, window):
                same = tuple((a, *(id(row.values) for row in bound[a])) for a in sorted(bound))
                found[same] = bound
                if len(found) >= MOST_MATCHES:
                    self.was_cut = True
                    break
        except TooLargeError:
            self.was_cut = True
        except UnsupportedError:  # events of one key without an order, which runs refuse
            pass
        return list(found.values())

    def nearest(self, query: Query, fits: Callable[[Binding], bool] = _anything) -> Binding | None:
        """Of the matches of a query, the one nearest to the time, then with the most events."""
        found = list(filter(fits, self.matches(query)))
        return min(
            found, key=lambda b: (_distance(b, self.at), -_size(b), _length(b)), default=None
        )

    def near_misses(self, query: Query) -> list[NearMiss]:
        """What would be a match with one thing less asked for, or else what comes nearest to it."""
        wanted = searched(query)
        slides = query.slide is not None or query.from_first
        if slides and (bound := self.nearest(wanted)) is not None:
            return [self._slide_miss(bound)]
        found = self._single(wanted)
        if not found and wanted.strategy != "any":
            found = self._single(searched(without_strategy(wanted)))
        if not found:
            found = self._furthest(searched(without_strategy(wanted)))
        return sorted(found, key=lambda miss: miss.rank(self.at))

    # --- one thing less ------------------------------------------------------------------------

    def _single(self, query: Query) -> list[NearMiss]:
        found = []
        for relaxation in relaxations(query):
            in_order = relaxation.kind == "order" and partial(_is_disordered, query)
            bound = self.nearest(relaxation.query, in_order or _anything)
            if bound is not None:
                found.append(self._miss(query, relaxation, bound))
        return found

    def _miss(self, query: Query, relaxation: Relaxation, bound: Binding) -> NearMiss:
        because, by = "", tuple[tuple[str, Row], ...]()
        what = relaxation.dropped
        match relaxation.kind:
            case "condition":
                assert relaxation.condition is not None
                because = said_values(relaxation.condition, bound)
                by = _about(relaxation.condition, bound)
            case "negation":
                because, by = self._blocked(query, relaxation, bound)
            case "window":
                what, because = self._window_text(query, bound)
            case "order":
                rows = sorted(_rows(bound), key=lambda pair: pair[1].key)
                because = "they come in the order " + ", ".join(alias for alias, _ in rows)
            case "strategy":
                because, by = self._left_out(query, relaxation.query, bound)
        return NearMiss(relaxation.kind, what, because, bound, by)

    def _blocked(
        self, query: Query, relaxation: Relaxation, bound: Binding
    ) -> tuple[str, tuple[tuple[str, Row], ...]]:
        """What occurs of a negation, in the first of the ways."""
        plain = query
        if query.strategy == "latest" and relaxation.negation is not None:
            if relaxation.negation.until:
                return self._until(query, bound)
            plain = without_strategy(query)
        matcher = self._matcher(plain)
        own = _rebound(matcher, bound)
        for choice in alternatives(plain.pattern):
            if {event.alias for event in positive_events(choice)} != own.keys():
                continue
            try:
                for negation, found in matcher.blockers(choice, own):
                    if negation == relaxation.negation:
                        return "it occurs", tuple(_rows(found))
            except TooLargeError:
                self.was_cut = True
        return "it occurs", ()

    def _until(self, query: Query, bound: Binding) -> tuple[str, tuple[tuple[str, Row], ...]]:
        until = latest_parts(query.pattern).until
        first, last = extent(bound)
        for row in self._instances(until) if until is not None else ():
            if first.key < row.key < last.key and until is not None:
                return "it ends what waited for its key", ((until.alias, row),)
        return "it ends what waited for its key", ()

    def _left_out(
        self, query: Query, plain: Query, bound: Binding
    ) -> tuple[str, tuple[tuple[str, Row], ...]]:
        """Why a strategy does not let a match count."""
        components = [e for e in positive_events(query.pattern) if e.alias in bound]
        if query.strategy == "latest":
            if latest_parts(query.pattern).together:
                return "another match of its key is complete first", ()
            because, by = self._until(query, bound)
            if by:
                return because, by
            for event, after in itertools.pairwise(components):
                mine, following = bound[event.alias][0], bound[after.alias][0]
                for row in self._instances(event):
                    if mine.key < row.key < following.key:
                        return f"a later {event.alias} took the place of this one", (
                            (event.alias, row),
                        )
            return "its events had gone into another sequence of the key", ()
        matcher = self._matcher(plain)
        own = _rebound(matcher, bound)
        if query.strategy == "next":
            for row in skipped_events(components, own, matcher):
                return "an event between is left out that it could have taken", (("between", row),)
            return "", ()
        keys = sorted(row.key for _, row in _rows(own))
        for row in matcher.events:
            if keys[0] < row.key < keys[-1] and row.key not in keys:
                return "another event of the partition lies between", (("between", row),)
        return "two of its events are simultaneous with others", ()

    @staticmethod
    def _slide_miss(bound: Binding) -> NearMiss:
        because = "no window that is reported holds all of its events: they straddle two"
        return NearMiss("slide", "SLIDE", because, bound)

    def _window_text(self, query: Query, bound: Binding) -> tuple[str, str]:
        window = query.window
        if query.join is not None:
            return "WITHIN", "the earlier event is out of its side's window"
        if window.session:
            what = f"WITHIN SESSION {self._length(window.size)}"
            return what, "its events are in more than one session"
        if window.is_count:
            rows = _rebound(self._matcher(query), bound)
            first, last = (extent(rows)[i].position for i in (0, 1))
            what = f"WITHIN {window.size:,} EVENTS"
            return what, f"its events are the first and the last of {last - first + 1:,}"
        first_row, last_row = extent(bound)
        length = (last_row.key[0] - first_row.key[0]) * self.tick
        size = window.size - 1 if window.is_inclusive else window.size
        what = f"WITHIN {self._length(size)}" + (" INCLUSIVE" if window.is_inclusive else "")
        return what, f"from its first to its last event it is {self._length(length)}"

    @staticmethod
    def _length(nanoseconds: int) -> str:
        return print_nanoseconds(nanoseconds)

    # --- the most that goes together -----------------------------------------------------------

    def _furthest(self, query: Query) -> list[NearMiss]:
        """All components but one, or the longest beginning that there is."""
        aliases = [event.alias for event in positive_events(query.pattern)]
        found: list[NearMiss] = []
        for left_out in aliases:
            found += self._missing(query, [a for a in aliases if a != left_out], left_out)
        for length in range(len(aliases) - 2, 0, -1):
            if found:
                break
            found = self._missing(query, aliases[:length], aliases[length])
        if not found and aliases:
            # No component at all has an event: the nearest of each.
            found = [miss for alias in aliases for miss in self._missing(query, [], alias)]
        return found

    def _missing(self, query: Query, kept: Sequence[str], missing: str) -> list[NearMiss]:
        bound: Binding = {}
        if kept:
            smaller = only_components(query, frozenset(kept))
            nearest = None if smaller is None else self.nearest(smaller)
            if nearest is None:
                return []
            bound = nearest
        event = next(e for e in positive_events(query.pattern) if e.alias == missing)
        candidates = sorted(
            (
                (self._fails(query, event, row, bound), row)
                for row in self.rows
                if is_instance(self.stream, Symbol(event.symbol.type), row)
                and not any(row.values is other.values for _, other in _rows(bound))
            ),
            key=lambda pair: (len(pair[0]), _row_distance(pair[1], bound, self.at)),
        )
        named = "any" if event.symbol.type == ANY_TYPE else event.symbol.type
        if not candidates:
            kind = Symbol(event.symbol.type)
            has_one = any(is_instance(self.stream, kind, row) for _, row in _rows(bound))
            because = f"no {'other ' if has_one else ''}event of type {named} is there"
            return [NearMiss("component", f"{named} {missing}", because, bound, (), 9)]
        fails, _ = candidates[0]
        because = "; ".join(fails)
        by = tuple((missing, other) for _, other in candidates[:SHOWN_CANDIDATES])
        return [NearMiss("component", f"{named} {missing}", because, bound, by, len(fails) or 1)]

    def _fails(self, query: Query, event: Event, row: Row, bound: Binding) -> list[str]:
        """What an event lacks to be a component beside those that are bound."""
        own = {event.alias: (row,)}
        found = []
        for predicate in event.symbol.predicates:
            for part in failing_parts(predicate, lambda part: true(part, {"": (row,)})):
                named = ex.rename(part, {"": event.alias})
                found.append(f"{print_expression(named)}: {said_values(named, own)}")
        every = {**bound, **own}
        for condition in query.conditions:
            named_ones = ex.aliases(condition)
            about = event.alias in named_ones <= every.keys()
            if about and not ex.has_group_call(condition) and not true(condition, every):
                found.append(f"{print_expression(condition)}: {said_values(condition, every)}")
        found += self._misplaced(query, event, row, bound)
        return found

    def _misplaced(self, query: Query, event: Event, row: Row, bound: Binding) -> Iterator[str]:
        if not bound:
            return
        if len(list(alternatives(query.pattern))) == 1 and _is_plain_sequence(query):
            order = [e.alias for e in positive_events(query.pattern)]
            place = order.index(event.alias)
            for alias, other in _rows(bound):
                if order.index(alias) < place and not other.key < row.key:
                    yield f"it is not after {alias}"
                elif order.index(alias) > place and not row.key < other.key:
                    yield f"it is not before {alias}"
        if query.window.is_timed and not query.window.session:
            first, last = extent({**bound, event.alias: (row,)})
            length = last.key[0] - first.key[0]
            if length >= query.window.ticks(self.tick):
                far = self._length(length * self.tick)
                yield f"it makes the match {far} long, and the window is " + self._length(
                    query.window.size
                )

    def _instances(self, event: Event) -> list[Row]:
        rows = sorted(self.rows, key=lambda row: row.key)
        return [row for row in rows if is_instance(self.stream, event.symbol, row)]

    def _matcher(self, query: Query) -> Matcher:
        steps = itertools.count(MAX_STEPS - BUDGET_STEPS)
        return matcher_of(query, self.stream, self.rows, self.tick, steps)


def said_values(condition: ex.Expression, bound: Mapping[str, tuple[Row, ...]]) -> str:
    """The values that a condition compares: `b.amount is 200`."""
    said: dict[str, None] = {}
    for node in ex.walk(condition):
        if isinstance(node, ex.Call) and ex.aliases(node) <= bound.keys():
            said[f"{print_expression(node)} is {_shown(value(node, dict(bound)))}"] = None
            continue
        if isinstance(node, ex.Attribute) and node.alias in bound:
            values = [row.values[node.name] for row in bound[node.alias]]
            shown = _shown(values[0] if len(values) == 1 else values)
            said[f"{print_expression(node)} is {shown}"] = None
    return ", ".join(said)


def _shown(value: Any) -> str:
    text = "null" if value is None else repr(value) if isinstance(value, str) else str(value)
    return text if len(text) <= 160 else text[:157] + "..."


def _is_disordered(query: Query, bound: Binding) -> bool:
    """Do its events not come in the order of a sequence?"""
    groups = [bound[event.alias] for event in positive_events(query.pattern)]
    pairs = itertools.pairwise(groups)
    return not all(a.key < b.key for before, after in pairs for a in before for b in after)


def _is_plain_sequence(query: Query) -> bool:
    pattern = query.pattern
    return isinstance(pattern, Seq) and all(isinstance(p, Event | Neg) for p in pattern.parts)


def _about(condition: ex.Expression, bound: Binding) -> tuple[tuple[str, Row], ...]:
    named = ex.aliases(condition)
    return tuple((alias, row) for alias, row in _rows(bound) if alias in named)


def _rows(bound: Mapping[str, tuple[Row, ...]]) -> list[tuple[str, Row]]:
    return [(alias, row) for alias, group in bound.items() for row in group]


def _rebound(matcher: Matcher, bound: Binding) -> Binding:
    """The same events as a matcher has them, whose positions are its own."""
    own = {id(row.values): row for row in matcher.events}
    return {alias: tuple(own[id(row.values)] for row in group) for alias, group in bound.items()}


def _distance(bound: Mapping[str, tuple[Row, ...]], at: int | None) -> int:
    """How far a time is from the stretch of a match."""
    times = [row.key[0] for group in bound.values() for row in group]
    if at is None or not times:
        return 0
    return max(min(times) - at, at - max(times), 0)


def _length(bound: Binding) -> int:
    times = [row.key[0] for group in bound.values() for row in group]
    return max(times) - min(times)


def _size(bound: Binding) -> int:
    return sum(map(len, bound.values()))


def _row_distance(row: Row, bound: Binding, at: int | None) -> int:
    if at is not None:
        return abs(row.key[0] - at)
    times = [other.key[0] for _, other in _rows(bound)]
    return min((abs(row.key[0] - time) for time in times), default=0)
