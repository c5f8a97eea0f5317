"""From an OR-free pattern to the steps that construct its matches."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from types import MappingProxyType

import numpy as np

from engines.columns.layout import Equality, Rows
from engines.matching.aggregate.windows import InRanges, InWindows, Windows, somewhere
from engines.matching.stepwise.bind import (
    BindAll,
    BindChain,
    BindOne,
    Bounds,
    Narrows,
    Rival,
    Side,
    WholeGroup,
)
from engines.matching.stepwise.negation import Absent, earliest_end, found_in, latest_start
from engines.matching.stepwise.selection import BindNext, LeavesNothingOut, TakingRules
from engines.matching.stepwise.steps import (
    Extent,
    Filter,
    FilterByPrevious,
    Frame,
    Inside,
    MatchRegion,
    QueryScan,
    Slot,
    Step,
    StepPlan,
    gap_high,
    gap_low,
)
from optimizer.ir.pattern import (
    Event,
    GroupWithout,
    Neg,
    Pattern,
    Position,
    PositionGap,
    Symbol,
    alternatives,
    places,
    positive_events,
    unkept,
)
from workloads import expressions as ex
from workloads.syntax import (
    All,
    Exactly,
    One,
    Plus,
)


@dataclass(frozen=True, eq=False)
class Shorten:
    """`!N` first, last or in an AND: leave the windows in which it is absent.

    N's matches must not depend on the window themselves, and in an AND be single events: of two,
    one could precede the match and one follow it, and windows on either side hold only one.
    """

    gap: PositionGap
    plans: tuple[StepPlan, ...]
    windows: Windows
    extent: Extent

    def apply(self, scan: QueryScan, frame: Frame) -> Iterator[Frame]:
        for plan in self.plans:
            if frame.size:
                frame = somewhere(self._shortened(plan, scan, frame))
        yield frame

    def _shortened(self, plan: StepPlan, scan: QueryScan, frame: Frame) -> Frame:
        start, stop = frame.column(Slot.START), frame.column(Slot.STOP)
        if self.gap.anywhere:
            first, last = self.extent.of(frame)
            behind = scan.layout.after[last]
            # What is simultaneous with a part of the match, or between, is in every window of it.
            before = self._latest(plan, scan, frame, frame.column(Slot.OPENING), behind)
            after = self._earliest(plan, scan, frame, behind, frame.column(Slot.CLOSING))
            stop = np.where(before >= scan.layout.block[first], start, stop)
        elif self.gap.before is None:
            low, high = frame.column(Slot.OPENING), gap_high(self.gap, scan, frame)
            before = self._latest(plan, scan, frame, low, high)
            after = np.full(frame.size, len(scan.layout))
        else:
            low, high = gap_low(self.gap, scan, frame), frame.column(Slot.CLOSING)
            before = np.full(frame.size, -1)
            after = self._earliest(plan, scan, frame, low, high)
        some = np.flatnonzero(before >= 0)
        start = start.copy()
        start[some] = np.maximum(start[some], self.windows.left(before[some]))
        some = np.flatnonzero(after < len(scan.layout))
        stop = stop.copy()
        stop[some] = np.minimum(stop[some], self.windows.entered(after[some]))
        return frame.extended(None, {Slot.START: start, Slot.STOP: stop})

    def _earliest(
        self, plan: StepPlan, scan: QueryScan, frame: Frame, low: Rows, high: Rows
    ) -> Rows:
        """The end of the match of N in a range that ends first; past all rows for none."""
        none = len(scan.layout)
        if plan.chain is not None:
            end = earliest_end(plan.chain, scan, low)
            return np.where(end < high, end, none)
        ends = np.full(frame.size, none)
        for found in found_in(plan, scan, frame, np.arange(frame.size), low, high):
            np.minimum.at(ends, found.column(Slot.SEED), plan.extent.of(found)[1])
        return ends

    def _latest(self, plan: StepPlan, scan: QueryScan, frame: Frame, low: Rows, high: Rows) -> Rows:
        """The start of the match of N in a range that starts last; -1 for none."""
        if plan.chain is not None:
            start = latest_start(plan.chain, scan, high)
            return np.where(start >= low, start, -1)
        starts = np.full(frame.size, -1)
        for found in found_in(plan, scan, frame, np.arange(frame.size), low, high):
            np.maximum.at(starts, found.column(Slot.SEED), plan.extent.of(found)[0])
        return starts


Conditions = tuple[ex.Expression, ...]
NOTHING_AROUND: Mapping[str, Event] = MappingProxyType({})


class Mode(Enum):
    """Where the region comes from that first and last negations and groups look at."""

    GIVEN = auto()  # the seed has it: a negation's gap, or a window
    MATCH = auto()  # the match's own first and last event
    WINDOW = auto()  # each window of an aggregate query that holds the match
    RANGE = auto()  # all of those windows at once


@dataclass(frozen=True)
class _Check:
    """A step that waits until its aliases are bound, and the region known if it needs it."""

    step: Step
    needs: frozenset[str]
    at_edge: bool


def window_mode(pattern: Pattern) -> Mode:
    """How the windows of an aggregate query are looked at for an OR-free pattern."""
    skip = unkept(pattern)
    found = places(pattern)
    kept = {
        p.leaf.alias: p for p in found if isinstance(p.leaf, Event) and p.leaf.alias not in skip
    }
    edges = [place for place in found if _looks_at_window(place, skip, kept.keys())]
    if not edges or (not skip and all(map(_only_shortens, edges))):
        return Mode.RANGE
    # Where only groups without ends of their own are kept, windows are all there is to go by.
    return Mode.GIVEN if all(_is(place, All) for place in kept.values()) else Mode.WINDOW


def _looks_at_window(place: Position, skip: frozenset[str], kept: Collection[str]) -> bool:
    """Does it depend on the window whether, or to what, it is bound or absent?"""
    if isinstance(place.leaf, Event) and place.leaf.alias in skip:
        sides = (place.earlier, place.later)
        if not all(any(set(part) & set(kept) for part in side) for side in sides):
            return True
    return place.gap.at_edge and (isinstance(place.leaf, Neg) or _is(place, All))


def _only_shortens(place: Position) -> bool:
    """Is it a negation that rules out all windows before or after some event?"""
    if not isinstance(place.leaf, Neg):
        return False
    inner = alternatives(place.leaf.part)
    singles = all(isinstance(c, Event) and _quantified(c, One) for c in inner)
    if place.gap.anywhere and not singles:
        return False
    return all(
        not _looks_at_window(p, unkept(choice), ()) for choice in inner for p in places(choice)
    )


def plan_choice(
    pattern: Pattern,
    conditions: Conditions,
    mode: Mode,
    windows: Windows | None = None,
    outer: Mapping[str, Event] = NOTHING_AROUND,
    wide: bool = False,
    next_of: Pattern | None = None,
) -> StepPlan:
    """The plan of an OR-free pattern; `outer` are the components bound around a negation.

    `wide`: the region that is given may be wider than a window. `next_of`: under STRATEGY NEXT, the
    pattern with all its components, optional ones included, of which this one is a reading.
    """
    return _Planner(pattern, conditions, mode, windows, outer, wide, next_of).plan()


@dataclass
class _Planner:
    pattern: Pattern
    conditions: Conditions
    mode: Mode
    windows: Windows | None
    outer: Mapping[str, Event]
    wide: bool
    next_of: Pattern | None = None
    steps: list[Step] = field(default_factory=list)
    bound: set[str] = field(default_factory=set)

    def plan(self) -> StepPlan:
        self.places = places(self.pattern)
        self.components = {p.leaf.alias: p for p in self.places if isinstance(p.leaf, Event)}
        self.own = frozenset(self.components)
        self.skip = unkept(self.pattern)
        self.asked = [c for c in self.conditions if self._is_asked(c)]
        self.waiting = self._checks()
        self.region_known = self.mode is Mode.GIVEN
        self._check_what_is_ready()
        order = self._order()
        if self.next_of is not None:
            order = self._bind_next(order, self.next_of)
        for i, place in enumerate(order):
            if self.mode is Mode.WINDOW and not self.region_known and _is(place, All):
                self._open_region()
            self._bind(place, order[i + 1 :])
            self._check_what_is_ready()
        if not self.region_known:
            self._open_region()
        assert not self.waiting, "a check that nothing makes ready"
        reads = {a for c in self.asked for a in ex.aliases(c)} | self.inner_reads
        return StepPlan(
            tuple(self.steps),
            self._kept(),
            tuple(sorted(self.skip)),
            self._extent(self._kept()),
            frozenset(reads - self.own),
            self._chain(),
        )

    def _is_asked(self, condition: ex.Expression) -> bool:
        """Its aliases are all bound here, and not already around this pattern."""
        named = ex.aliases(condition)
        return named <= self.own | self.outer.keys() and (not self.outer or bool(named & self.own))

    def _order(self) -> list[Position]:
        """Kept single events, those that only have to exist, then groups by how they narrow."""
        ranks = {One: 0, Plus: 2, GroupWithout: 2, Exactly: 3, All: 4}

        def rank(place: Position) -> int:
            assert isinstance(place.leaf, Event)
            single = isinstance(place.leaf.quantifier, One)
            return ranks[type(place.leaf.quantifier)] + (single and place.leaf.alias in self.skip)

        return sorted(self.components.values(), key=rank)

    # --- checks --------------------------------------------------------------------------------

    def _checks(self) -> list[_Check]:
        found: list[_Check] = []
        for condition in self.asked:
            if not self._is_member_test(condition):
                needs = frozenset(ex.aliases(condition) & self.own)
                step = self._filter(condition)
                if isinstance(step, FilterByPrevious) and step.before is not None:
                    needs |= {step.before}
                found.append(_Check(step, needs, at_edge=False))
        self.inner_reads: set[str] = set()
        negations = ((p, p.leaf) for p in self.places if isinstance(p.leaf, Neg))
        return found + [self._absence(place, negation) for place, negation in negations]

    def _filter(self, condition: ex.Expression) -> Filter | FilterByPrevious:
        alias = ex.prev_alias(condition)
        looking_back = ex.with_previous(condition, ex.PREV)
        if alias is None or looking_back == condition:
            return Filter(condition)
        # Under STRATEGY STRICT components are in one order.
        names = list(self.components)
        place = names.index(alias)
        return FilterByPrevious(looking_back, alias, names[place - 1] if place else None)

    def _is_member_test(self, condition: ex.Expression) -> bool:
        """Does it choose the members of an E^n or ALL, and so is used where that is bound?"""
        if ex.has_group_call(condition):
            return False
        groups = (self.components[a] for a in ex.aliases(condition) & self.own)
        return any(_is(place, Exactly, All) for place in groups)

    def _absence(self, place: Position, negation: Neg) -> _Check:
        # Between events that only have to exist there may be more than a window.
        wide = self.wide or bool(place.gap.aliases & self.skip)
        around = {**self.outer, **{e.alias: e for e in positive_events(self.pattern)}}
        plans = tuple(
            plan_choice(choice, self.conditions, Mode.GIVEN, None, around, wide)
            for choice in alternatives(negation.part)
        )
        reads = frozenset().union(*(plan.reads for plan in plans))
        self.inner_reads |= reads
        needs = place.gap.aliases | (reads & self.own)
        step: Step = Absent(place.gap, plans)
        if self.mode is Mode.RANGE and place.gap.at_edge:
            assert self.windows is not None
            step = Shorten(place.gap, plans, self.windows, self._extent(self._kept()))
        return _Check(step, needs, place.gap.at_edge)

    def _kept(self) -> tuple[str, ...]:
        return tuple(alias for alias in self.components if alias not in self.skip)

    def _extent(self, aliases: tuple[str, ...]) -> Extent:
        """Which of some aliases can be the first and the last of them."""
        among = set(aliases)

        def ends(before: bool) -> tuple[str, ...]:
            return tuple(
                alias
                for alias in aliases
                for place in (self.components[alias],)
                if not any(among & set(p) for p in (place.earlier if before else place.later))
            )

        return Extent(ends(before=True), ends(before=False))

    def _check_what_is_ready(self) -> None:
        ready = [
            check
            for check in self.waiting
            if check.needs <= self.bound and (self.region_known or not check.at_edge)
        ]
        self.waiting = [check for check in self.waiting if check not in ready]
        # Conditions cost less than negations, and leave them less to do.
        ready.sort(key=lambda check: not isinstance(check.step, Filter))
        self.steps += [check.step for check in ready]

    def _open_region(self) -> None:
        if self.mode is Mode.MATCH:
            if self.skip or any(check.at_edge for check in self.waiting):
                self.steps.append(MatchRegion(self._extent(self._kept())))
        else:
            assert self.windows is not None
            step = InRanges if self.mode is Mode.RANGE else InWindows
            kept = tuple(alias for alias in self._kept() if alias in self.bound)
            self.steps.append(step(self.windows, self._extent(kept)))
        self.region_known = True
        if self.skip:
            inside = Inside(self._extent(tuple(sorted(self.skip))))
            self.waiting.append(_Check(inside, self.skip, at_edge=True))
        self._check_what_is_ready()

    # --- binding -------------------------------------------------------------------------------

    def _bind_next(self, order: list[Position], whole: Pattern) -> list[Position]:
        """Bind a sequence by STRATEGY NEXT; the components that are left to be bound otherwise."""
        components = tuple(positive_events(whole))
        named = {component.alias for component in components}
        conditions = tuple(c for c in self.conditions if ex.aliases(c) <= named)
        rules = TakingRules(components, conditions, self.own)
        looked_back = {ex.prev_alias(condition) for condition in self.asked}
        # Of E^n no candidate is left out, whatever its last event is.
        if any(
            _is(place, All) or (_is(place, Exactly) and _alias(place) in looked_back)
            for place in order
        ):
            self.waiting.append(_Check(LeavesNothingOut(rules), self.own, at_edge=False))
            return order
        self.steps.append(BindNext(rules))
        self.bound |= self.own
        self._check_what_is_ready()
        return []

    def _bind(self, place: Position, later: list[Position]) -> None:
        event = place.leaf
        assert isinstance(event, Event)
        bounds = self._bounds(place)
        narrows = self._narrows(place, later)
        rivals = tuple(
            Rival(alias, other.leaf.symbol)
            for alias, other in self.components.items()
            if alias in place.rivals & self.bound and isinstance(other.leaf, Event)
        )
        match event.quantifier:
            case One():
                equality = self._equality(event.alias)
                self.steps.append(BindOne(event, bounds, rivals, narrows, equality))
            case Plus() | Exactly() | GroupWithout():
                tied, pairs = self._tied(event.alias), self._pairs(event.alias)
                self.steps.append(BindChain(event, bounds, tied, rivals, narrows, pairs))
                taken = {Filter(c) for c in (*tied, *pairs)}
                self.waiting = [c for c in self.waiting if c.step not in taken]
            case All():
                self._bind_all(place, event, bounds, rivals, narrows, not later)
        self.bound.add(event.alias)

    def _tied(self, alias: str) -> Conditions:
        """The conditions, event by event, that tell which events can be in a group."""
        ready = self.bound | self.outer.keys() | {alias}
        return tuple(
            c for c in self.asked if alias in ex.aliases(c) <= ready and not ex.has_group_call(c)
        )

    def _pairs(self, alias: str) -> Conditions:
        """The conditions that tell whether an event may follow another one in a group."""
        ready = self.bound | self.outer.keys() | {alias}
        return tuple(
            ex.with_previous(c, ex.PREV)
            for c in self.asked
            if ex.prev_alias(c) == alias and ex.aliases(c) <= ready
        )

    def _equality(self, alias: str) -> Equality | None:
        """A condition that says which value a component's attribute has."""
        for condition in self.asked:
            match condition:
                case ex.Comparison("=", ex.Attribute() as left, ex.Attribute() as right):
                    for mine, other in ((left, right), (right, left)):
                        if mine.alias == alias and self._is_single(other.alias):
                            return Equality(mine.name, other.alias, other.name)
        return None

    def _is_single(self, alias: str) -> bool:
        """Is it bound to one event, here or around a negation?"""
        if alias in self.own:
            return alias in self.bound and _is(self.components[alias], One)
        return alias in self.outer and _quantified(self.outer[alias], One)

    def _bind_all(
        self,
        place: Position,
        event: Event,
        bounds: Bounds,
        rivals: tuple[Rival, ...],
        narrows: Narrows,
        is_last: bool,
    ) -> None:
        tied = self._tied(event.alias)
        kept = event.alias not in self.skip
        lower = self._side(place, place.gap.before, before=True)
        upper = self._side(place, place.gap.after, before=False)
        if upper is Side.OPEN and is_last and kept and place.gap.after is None:
            upper = Side.FOLLOWS
        self.steps.append(
            BindAll(event, bounds, place.gap, lower, upper, tied, rivals, narrows, fits=kept)
        )
        if not {lower, upper} <= {Side.GAP, Side.REACH}:
            needs = place.gap.aliases | {event.alias}
            check = WholeGroup(event, place.gap, tied)
            self.waiting.append(_Check(check, needs, place.gap.at_edge))

    def _side(self, place: Position, neighbours: tuple[str, ...] | None, before: bool) -> Side:
        if neighbours is not None:
            return Side.GAP if self.bound.issuperset(neighbours) else Side.OPEN
        if self.region_known:
            return Side.GAP
        return Side.REACH if self._end_is_bound(before) else Side.OPEN

    def _end_is_bound(self, before: bool) -> bool:
        """Is the match's last event (which opens its window), or its first, already bound?"""
        unbound = [p for a, p in self.components.items() if a not in self.bound | self.skip]
        kept = self.bound - self.skip
        return all(
            any(kept.intersection(part) for part in (p.later if before else p.earlier))
            for p in unbound
        )

    def _bounds(self, place: Position) -> Bounds:
        kept = self.bound - self.skip
        return Bounds(
            _nearest(place.earlier, self.bound),
            _nearest(place.later, self.bound),
            not any(kept.intersection(part) for part in place.earlier),
            not any(kept.intersection(part) for part in place.later),
        )

    def _narrows(self, place: Position, later: list[Position]) -> Narrows:
        """An end of the window moves only if no bound event on that side already limits it."""
        kept = self.bound - self.skip
        used = bool(later)
        if isinstance(place.leaf, Event) and place.leaf.alias in self.skip:
            return Narrows(False, False, to_partition=used and not kept)
        return Narrows(
            used and not any(kept.intersection(part) for part in place.later),
            used and not any(kept.intersection(part) for part in place.earlier),
        )

    def _chain(self) -> tuple[Symbol, ...] | None:
        """The symbols of a sequence that only has to occur, with nothing else to check."""
        leaves = [p.leaf for p in self.places]
        plain = not self.asked and not self.skip and not self._has_rivals()
        plain = plain and (not self.wide or len(leaves) == 1)
        symbols = [leaf.symbol for leaf in leaves if isinstance(leaf, Event)]
        # One event is a group of E+, and some event means that there is a group ALL E.
        one = (One, Plus, All)
        single = all(isinstance(e, Event) and _quantified(e, *one) for e in leaves)
        return tuple(symbols) if plain and single else None

    def _has_rivals(self) -> bool:
        return any(place.rivals for place in self.places)


def _nearest(parts: tuple[tuple[str, ...], ...], bound: set[str]) -> tuple[str, ...]:
    """The bound aliases next to a component, up to a part that is wholly bound."""
    found: list[str] = []
    for part in parts:
        found += [alias for alias in part if alias in bound]
        if bound.issuperset(part):
            break
    return tuple(found)


def _is(place: Position, *kinds: type) -> bool:
    return isinstance(place.leaf, Event) and _quantified(place.leaf, *kinds)


def _alias(place: Position) -> str:
    assert isinstance(place.leaf, Event)
    return place.leaf.alias


def _quantified(event: Event, *kinds: type) -> bool:
    return isinstance(event.quantifier, kinds)
