"""From an OR-free pattern to the steps that find its matches.

Single events are bound first, from left to right, then E+, E^n and ALL E; every condition and
negation is checked as soon as what it needs is bound.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum, auto

from engines.local.bind import BindOne, Bounds, Narrows, Rival
from engines.local.bind_groups import BindAll, BindChain, Side, WholeGroup
from engines.local.choices import Place, choices, places, unkept
from engines.local.negation import Absent
from engines.local.regions import Inside, MatchRegion
from engines.local.steps import Filter, Plan, Step
from optimizer.ir.pattern import Event, Neg, Pattern, Symbol
from workloads import expressions as ex
from workloads.syntax import All, Exactly, One, Plus

Conditions = tuple[ex.Expression, ...]
# From the bound aliases that count for a match's extent to the step that puts it into windows.
WindowStep = Callable[[tuple[str, ...]], Step]


class Mode(Enum):
    """Where the region comes from that first and last negations and groups look at."""

    GIVEN = auto()  # the seed has it: a negation's gap, or a window
    MATCH = auto()  # the match's own first and last event
    WINDOW = auto()  # each window of an aggregate query that holds the match
    FREE = auto()  # nothing looks at it


@dataclass(frozen=True)
class _Check:
    """A step that waits until its aliases are bound, and the region known if it needs it."""

    step: Step
    needs: frozenset[str]
    at_edge: bool


def depends_on_window(pattern: Pattern) -> bool:
    """Can a match in one window be none in another that holds all its events?"""
    skip = unkept(pattern)
    found = places(pattern)
    kept = {p.leaf.alias for p in found if isinstance(p.leaf, Event)} - skip
    for place in found:
        leaf = place.leaf
        looks_around = isinstance(leaf, Neg) or isinstance(leaf.quantifier, All)
        if looks_around and place.gap.at_edge:
            return True
        if isinstance(leaf, Event) and leaf.alias in skip:
            enclosed = all(
                any(kept.intersection(part) for part in side)
                for side in (place.earlier, place.later)
            )
            if not enclosed:
                return True
    return False


def plan_choice(
    pattern: Pattern,
    conditions: Conditions,
    mode: Mode,
    window_step: WindowStep | None = None,
    outer: frozenset[str] = frozenset(),
    wide: bool = False,
) -> Plan:
    """The plan of an OR-free pattern; `outer` are the aliases bound around a negation.

    `wide`: the region that is given may be wider than a window.
    """
    return _Planner(pattern, conditions, mode, window_step, outer, wide).plan()


@dataclass
class _Planner:
    pattern: Pattern
    conditions: Conditions
    mode: Mode
    window_step: WindowStep | None
    outer: frozenset[str]
    wide: bool
    steps: list[Step] = field(default_factory=list)
    bound: set[str] = field(default_factory=set)

    def plan(self) -> Plan:
        self.places = places(self.pattern)
        self.components = {p.leaf.alias: p for p in self.places if isinstance(p.leaf, Event)}
        self.own = frozenset(self.components)
        self.skip = unkept(self.pattern)
        self.asked = [c for c in self.conditions if self._is_asked(c)]
        self.waiting = self._checks()
        self.region_known = self.mode is Mode.GIVEN
        self._check_what_is_ready()
        order = self._order()
        for i, place in enumerate(order):
            if self.mode is Mode.WINDOW and not self.region_known and _is(place, All):
                self._open_region()
            self._bind(place, order[i + 1 :])
            self._check_what_is_ready()
        if self.mode is not Mode.FREE and not self.region_known:
            self._open_region()
        assert not self.waiting or self.mode is Mode.FREE, "a check that nothing makes ready"
        reads = {a for c in self.asked for a in ex.aliases(c)} | self.inner_reads
        return Plan(
            tuple(self.steps),
            tuple(a for a in self.components if a not in self.skip),
            tuple(a for a in self.components if a in self.skip),
            frozenset(reads - self.own),
            self._chain(),
        )

    def _is_asked(self, condition: ex.Expression) -> bool:
        """Its aliases are all bound here, and not already around this pattern."""
        named = ex.aliases(condition)
        return named <= self.own | self.outer and (not self.outer or bool(named & self.own))

    def _order(self) -> list[Place]:
        """Kept single events, those that only have to exist, then groups by how they narrow."""
        ranks = {One: 0, Plus: 2, Exactly: 3, All: 4}

        def rank(place: Place) -> int:
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
                found.append(_Check(Filter(condition), needs, at_edge=False))
        self.inner_reads: set[str] = set()
        negations = ((p, p.leaf) for p in self.places if isinstance(p.leaf, Neg))
        return found + [self._absence(place, negation) for place, negation in negations]

    def _is_member_test(self, condition: ex.Expression) -> bool:
        """Does it choose the members of an E^n or ALL, and so is used where that is bound?"""
        if ex.has_group_call(condition):
            return False
        groups = (self.components[a] for a in ex.aliases(condition) & self.own)
        return any(_is(place, Exactly, All) for place in groups)

    def _absence(self, place: Place, negation: Neg) -> _Check:
        # Between events that only have to exist there may be more than a window.
        wide = self.wide or bool(place.gap.aliases & self.skip)
        around = self.outer | self.own
        plans = tuple(
            plan_choice(choice, self.conditions, Mode.GIVEN, None, around, wide)
            for choice in choices(negation.part)
        )
        reads = frozenset().union(*(plan.reads for plan in plans))
        self.inner_reads |= reads
        needs = place.gap.aliases | (reads & self.own)
        return _Check(Absent(place.gap, plans), needs, place.gap.at_edge)

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
        kept = tuple(a for a in self.components if a not in self.skip)
        if self.mode is Mode.MATCH:
            if self.skip or any(check.at_edge for check in self.waiting):
                self.steps.append(MatchRegion(kept))
        else:
            assert self.window_step is not None
            self.steps.append(self.window_step(tuple(a for a in kept if a in self.bound)))
        self.region_known = True
        skipped = tuple(sorted(self.skip))
        if skipped:
            self.waiting.append(_Check(Inside(skipped), self.skip, at_edge=True))
        self._check_what_is_ready()

    # --- binding -------------------------------------------------------------------------------

    def _bind(self, place: Place, later: list[Place]) -> None:
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
                self.steps.append(BindOne(event, bounds, rivals, narrows))
            case Plus() | Exactly():
                tied = self._tied(event.alias)
                self.steps.append(BindChain(event, bounds, tied, rivals, narrows))
                taken = {Filter(c) for c in tied}
                self.waiting = [c for c in self.waiting if c.step not in taken]
            case All():
                self._bind_all(place, event, bounds, rivals, narrows, not later)
        self.bound.add(event.alias)

    def _tied(self, alias: str) -> Conditions:
        """The conditions, event by event, that tell which events can be in a group."""
        ready = self.bound | self.outer | {alias}
        return tuple(
            c for c in self.asked if alias in ex.aliases(c) <= ready and not ex.has_group_call(c)
        )

    def _bind_all(
        self,
        place: Place,
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

    def _side(self, place: Place, neighbours: tuple[str, ...] | None, before: bool) -> Side:
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

    def _bounds(self, place: Place) -> Bounds:
        kept = self.bound - self.skip
        return Bounds(
            _nearest(place.earlier, self.bound),
            _nearest(place.later, self.bound),
            not any(kept.intersection(part) for part in place.earlier),
            not any(kept.intersection(part) for part in place.later),
        )

    def _narrows(self, place: Place, later: list[Place]) -> Narrows:
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
        single = all(isinstance(e, Event) and _quantified(e, One, Plus, All) for e in leaves)
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


def _is(place: Place, *kinds: type) -> bool:
    return isinstance(place.leaf, Event) and _quantified(place.leaf, *kinds)


def _quantified(event: Event, *kinds: type) -> bool:
    return isinstance(event.quantifier, kinds)
