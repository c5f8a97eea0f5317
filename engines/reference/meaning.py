"""The matches of a pattern in a window: enumerate every binding, keep what the meaning allows.

A binding of the positive components is enumerated first; then its groups, its conditions and its
negations are checked, each negation by enumerating its own bindings in the region it looks at.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from engines.reference.shape import alternatives, existential, open_groups
from engines.reference.values import Binding, Row, true
from optimizer.ir.pattern import (
    And,
    Event,
    GroupWithout,
    Neg,
    Pattern,
    Proj,
    Seq,
    Symbol,
    events,
    positive_events,
)
from workloads import expressions as ex
from workloads.errors import TooLargeError
from workloads.syntax import (
    All,
    Exactly,
    One,
    Plus,
)
from workloads.workload import Stream

MAX_STEPS = 10_000_000
Test = Callable[[Row], bool]


class Region(NamedTuple):
    """Where to look: what lies after the opening, what before the closing, what in it at all."""

    opened: Test
    closed: Test
    anywhere: Test


class WindowView(NamedTuple):
    """What bindings are enumerated under: the window if it is given, the bindings around."""

    window: Region | None
    outer: Binding
    skip: frozenset[str]  # existential aliases
    open: frozenset[str]  # aliases of ALL: their groups are not settled until all is bound


def rows_of(
    pattern: Pattern, bound: Binding, skip: frozenset[str] = frozenset()
) -> tuple[Row, ...]:
    """The events bound by a pattern's positive components, some aliases apart."""
    names = [e.alias for e in positive_events(pattern) if e.alias not in skip]
    return tuple(row for name in names for row in bound.get(name, ()))


def extent(match: Binding) -> tuple[Row, Row]:
    """A match's first and last event."""
    rows = sorted((e for group in match.values() for e in group), key=lambda e: e.key)
    return rows[0], rows[-1]


class Matcher:
    """Matches over the events of one partition, sorted by key; `width` is the window's."""

    def __init__(
        self,
        stream: Stream,
        conditions: tuple[ex.Expression, ...],
        events: list[Row],
        width: int,
        steps: Iterator[int],
    ) -> None:
        self.stream, self.conditions, self.width = stream, conditions, width
        self.events, self._steps = events, steps
        self._instances: dict[Symbol, list[Row]] = {}

    def matches(self, pattern: Pattern, window: Region | None = None) -> Iterator[Binding]:
        """Of an OR-free pattern: in the given window, or wherever they fit in one."""
        skip = existential(pattern)
        seen = set()
        for bound in self._bind(pattern, {}, WindowView(window, {}, skip, open_groups(pattern))):
            kept = {alias: group for alias, group in bound.items() if alias not in skip}
            region = window or self._window_of(kept)
            rest = [e for alias in skip for e in bound[alias]]
            if all(region.opened(e) and region.closed(e) for e in rest) and self._holds(
                pattern, bound, {}, region
            ):
                kept = {alias: bound[alias] for alias in kept}
                identity = tuple((alias, *map(id, kept[alias])) for alias in sorted(kept))
                if identity not in seen:
                    seen.add(identity)
                    yield kept

    def instances(self, symbol: Symbol) -> list[Row]:
        """The events of a type that satisfy its predicates."""
        if symbol not in self._instances:
            column, condition = self.stream.type, self.stream.types.get(symbol.type)
            self._instances[symbol] = [
                e
                for e in self.events
                if (
                    (column is not None and str(e.values[column]) == symbol.type)
                    or (condition is not None and true(condition, {"": (e,)}))
                )
                and all(true(predicate, {"": (e,)}) for predicate in symbol.predicates)
            ]
        return self._instances[symbol]

    def _window_of(self, kept: Binding) -> Region:
        """The window of a match that is returned: from last - w to first + w, both exclusive."""
        first, last = extent(kept)
        opens, closes = last.position - self.width, first.opens + self.width
        return Region(
            lambda e: e.opens > opens,
            lambda e: e.position < closes,
            lambda e: e.opens > opens and e.key <= last.key,
        )

    # --- enumeration ---------------------------------------------------------------------------

    def _bind(self, pattern: Pattern, bound: Binding, look: WindowView) -> Iterator[Binding]:
        """Extend `bound` by a pattern's positive components, in every way that fits."""
        match pattern:
            case Event(_, alias):
                for group in self._groups(pattern, look):
                    extended = bound | {alias: group}
                    if self._fits(extended, look) and self._agrees(pattern, extended, look):
                        yield extended
            case Seq(parts) | And(parts):
                yield from self._bind_parts(pattern, parts, 0, bound, look)
            case Proj(_, part):
                yield from self._bind(part, bound, look)
            case _:
                yield bound

    def _bind_parts(
        self, node: Seq | And, parts: tuple[Pattern, ...], i: int, bound: Binding, look: WindowView
    ) -> Iterator[Binding]:
        if i == len(parts):
            yield bound
            return
        before = [e for part in parts[:i] for e in rows_of(part, bound)]
        for extended in self._bind(parts[i], bound, look):
            mine = rows_of(parts[i], extended)
            if isinstance(node, And) or all(b.before(m) for b in before for m in mine):
                yield from self._bind_parts(node, parts, i + 1, extended, look)

    def _groups(self, event: Event, look: WindowView) -> Iterator[tuple[Row, ...]]:
        """What one component can be bound to, its neighbours apart."""
        rows = self.instances(event.symbol)
        if look.window is not None:
            rows = [e for e in rows if look.window.anywhere(e)]
        match event.quantifier:
            case One():
                yield from ((row,) for row in rows)
            case Plus():
                yield from self._chains(rows, 1, None)
            case GroupWithout(absent, least, most):
                yield from (c for c in self._chains(rows, least, most) if self._unbroken(c, absent))
            case Exactly(count):
                yield from self._chains(rows, count, count)
            case All():
                keys = sorted({row.key for row in rows})
                for first, last in itertools.combinations_with_replacement(keys, 2):
                    yield tuple(row for row in rows if first <= row.key <= last)

    def _chains(self, rows: list[Row], least: int, most: int | None) -> Iterator[tuple[Row, ...]]:
        """Choices of so many rows, each before the next, not wider than a window."""
        stack: list[tuple[Row, ...]] = [(row,) for row in rows]
        while stack:
            self._step()
            chain = stack.pop()
            if len(chain) >= least:
                yield chain
            if len(chain) != most:
                first, last = chain[0], chain[-1]
                stack += [
                    (*chain, row)
                    for row in rows
                    if last.before(row) and row.position - first.opens < self.width
                ]

    def _unbroken(self, chain: tuple[Row, ...], absent: tuple[Pattern, ...]) -> bool:
        """Is nothing of what must not be there between two events of a group?"""
        symbols = [event.symbol for part in absent for event in events(part)]
        return not any(
            before.key < e.key < after.key
            for before, after in itertools.pairwise(chain)
            for symbol in symbols
            for e in self.instances(symbol)
        )

    def _fits(self, bound: Binding, look: WindowView) -> bool:
        self._step()
        rows = [e for a in bound.keys() - look.skip for e in bound[a]]
        if not rows:
            return True
        return max(e.position for e in rows) - min(e.opens for e in rows) < self.width

    def _agrees(self, event: Event, bound: Binding, look: WindowView) -> bool:
        """The conditions on the newest alias; those of E^n and ALL wait until all is bound."""
        everything = look.outer | bound
        return isinstance(event.quantifier, (Exactly, All)) or all(
            true(c, everything)
            for c in self._tied(event, everything)
            if not ex.aliases(c) & look.open
        )

    def _tied(self, event: Event, bound: Binding) -> Iterator[ex.Expression]:
        """The conditions that speak of a component event by event, with nothing unbound."""
        for c in self.conditions:
            if event.alias in ex.aliases(c) <= bound.keys() and not ex.has_group_call(c):
                yield c

    def _step(self) -> None:
        if next(self._steps) > MAX_STEPS:
            raise TooLargeError(
                f"the reference engine gives up after {MAX_STEPS:,} steps: it is brute force, "
                "meant for small streams; use --engine local"
            )

    # --- groups, conditions, negations ---------------------------------------------------------

    def _holds(self, pattern: Pattern, bound: Binding, outer: Binding, region: Region) -> bool:
        """Do groups, conditions and negations allow this binding of all positive components?"""
        for event in positive_events(pattern):
            if isinstance(event.quantifier, All):
                group = bound[event.alias]
                kept = tuple(e for e in group if self._belongs(event, e, outer | bound))
                if not kept or (kept[0].key, kept[-1].key) != (group[0].key, group[-1].key):
                    return False
                bound[event.alias] = kept
        everything = outer | bound
        return all(
            true(condition, everything)
            for condition in self.conditions
            if (named := ex.aliases(condition)) <= everything.keys()
            and (not named <= outer.keys() or not outer)
        ) and self._clear(pattern, bound, outer, region)

    def _belongs(self, event: Event, e: Row, bound: Binding) -> bool:
        """Do the conditions, event by event, let this event into the group?"""
        candidate = bound | {event.alias: (e,)}
        return all(true(c, candidate) for c in self._tied(event, candidate))

    def _clear(self, node: Pattern, bound: Binding, outer: Binding, region: Region) -> bool:
        """Are all negations absent, all groups whole, and no event used twice in an AND?"""
        match node:
            case Seq(parts):
                gaps = [self._gap(parts, i, bound, region) for i in range(len(parts))]
            case And(parts):
                used = [e for part in parts for e in rows_of(part, bound, existential(node))]
                if len(set(used)) < len(used):
                    return False
                whole = Region(region.anywhere, region.anywhere, region.anywhere)
                gaps = [whole if isinstance(part, Neg) else region for part in parts]
            case Proj(_, part):
                return self._clear(part, bound, outer, region)
            case _:
                parts, gaps = (node,), [region]
        return all(
            self._clear(part, bound, outer, region)
            if isinstance(part, (Seq, And, Proj))
            else self._clear_leaf(part, bound, outer, gap)
            for part, gap in zip(parts, gaps, strict=True)
        )

    def _occurrences(self, negation: Neg, scope: Binding, gap: Region) -> Iterator[Binding]:
        """The matches of what is negated, where it must not be."""
        for choice in alternatives(negation.part):
            look = WindowView(gap, scope, existential(choice), open_groups(choice))
            for found in self._bind(choice, {}, look):
                if self._holds(choice, found, scope, gap):
                    yield found

    def blockers(
        self, node: Pattern, bound: Binding, region: Region | None = None
    ) -> Iterator[tuple[Neg, Binding]]:
        """The negations that keep a binding from being a match, with what occurs of each."""
        region = region or self._window_of(bound)
        match node:
            case Seq(parts):
                gaps = [self._gap(parts, i, bound, region) for i in range(len(parts))]
            case And(parts):
                gaps = [Region(region.anywhere, region.anywhere, region.anywhere)] * len(parts)
            case Proj(_, part):
                yield from self.blockers(part, bound, region)
                return
            case _:
                return
        for part, gap in zip(parts, gaps, strict=True):
            if isinstance(part, Neg):
                yield from ((part, found) for found in self._occurrences(part, bound, gap))
            else:
                yield from self.blockers(part, bound, region)

    def _clear_leaf(self, leaf: Any, bound: Binding, outer: Binding, gap: Region) -> bool:
        scope = outer | bound
        match leaf:
            case Neg():
                return not any(True for _ in self._occurrences(leaf, scope, gap))
            case Event(symbol, alias, Exactly()):
                between = (
                    e
                    for before, after in itertools.pairwise(bound[alias])
                    for e in self.instances(symbol)
                    if before.key < e.key < after.key
                )
                return not any(self._belongs(leaf, e, scope) for e in between)
            case Event(symbol, alias, All()):
                left_out = [e for e in self.instances(symbol) if e not in bound[alias]]
                return not any(
                    gap.opened(e) and gap.closed(e) and self._belongs(leaf, e, scope)
                    for e in left_out
                )
            case _:
                return True

    def _gap(self, parts: tuple[Pattern, ...], i: int, bound: Binding, region: Region) -> Region:
        """What lies between a part's neighbours; up to the region's end where there is none."""
        before = next((rows for p in reversed(parts[:i]) if (rows := rows_of(p, bound))), ())
        after = next((rows for p in parts[i + 1 :] if (rows := rows_of(p, bound))), ())

        def opened(e: Row) -> bool:
            return all(b.before(e) for b in before) if before else region.opened(e)

        def closed(e: Row) -> bool:
            return all(e.before(a) for a in after) if after else region.closed(e)

        return Region(opened, closed, lambda e: opened(e) and closed(e))
