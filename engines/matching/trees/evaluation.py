"""Operators run over the events of a query, within a limit on partial matches."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import assert_never

import numpy as np
import numpy.typing as npt

from engines.account import charged
from engines.columns.groups import EventGroups
from engines.columns.vectors import Mask
from engines.limits import PartialLimit, PartialLimitError, refuse
from engines.matching.trees.buffers import (
    Buffer,
    Moments,
    SelectedEvents,
    TooWideError,
    chunks,
    concatenated,
    fitting,
    in_order,
    of_places,
    together,
)
from engines.matching.trees.closures import Room, apart, bind_groups, whole_groups
from engines.matching.trees.conditions import (
    Search,
    followed,
    free,
    gates,
    inside,
    kept,
    latest_rows,
    prepare,
    shortened,
)
from engines.matching.trees.latest import Latest
from engines.matching.trees.marks import Marker, taken
from engines.matching.trees.walks import walked
from engines.program import RunContext
from kernels.joins import cpu as joins
from optimizer.ir.pattern import Symbol
from optimizer.plan import join_operators as op
from optimizer.plan.join_operators import Operator
from workloads.syntax import All


def most_at_once(picked: SelectedEvents, rows: Buffer, width: int) -> int:
    """How many rows of one partition there are at the same time: from their last event until
    their window has closed."""
    if not len(rows):
        return 0
    # Positions of partitions are more than a window apart, so a row of another has left.
    leaving = np.sort(picked.position[rows.first] + width)
    left = np.searchsorted(leaving, picked.position[rows.last], "right")
    return int((np.arange(1, len(rows) + 1) - left).max())


def kept_since(picked: SelectedEvents, held: Buffer, comers: Buffer, most: int) -> Moments:
    """For each row that comes the moment at which the oldest row that is still held ended.

    Held are the latest `most` rows of those that end before it.
    """
    ended = picked.moment[held.last]
    before = np.searchsorted(ended, picked.moment[comers.last]) - most
    # The row may be one of another partition, and is then before all that matters.
    return np.where(before < 0, joins.NEVER, ended[np.maximum(before, 0)])


def gone(
    picked: SelectedEvents,
    held: Buffer,
    rows: npt.NDArray[np.integer],
    comers: Buffer,
    others: npt.NDArray[np.integer],
    most: int,
) -> Mask:
    """The pairs whose row of `held` was given up before the other one came."""
    ended, came = picked.moment[held.last[rows]], picked.moment[comers.last[others]]
    since = kept_since(picked, held, comers, most)[others]
    found: Mask = (ended < came) & (ended < since)
    return found


def dropped(picked: SelectedEvents, held: Buffer, width: int, most: int, since: int) -> int:
    """How many rows are given up for later ones, from a place on, while their window is open."""
    if len(held) <= most:
        return 0
    old_last, new_last = held.last[:-most], held.last[most:]
    given_up = picked.position[new_last] < picked.position[held.first[:-most]] + width
    given_up &= picked.moment[old_last] < picked.moment[new_last]
    given_up &= new_last >= since
    return int(np.count_nonzero(given_up))


CHUNKS_HELD = 8  # rows of an inner buffer, in chunks
BUFFERS_HELD = 8  # buffers of that size that are held for other queries


class _Overflow(Exception):  # noqa: N818 - never leaves this file
    """An inner operator has more rows than are to be held at once."""


@dataclass(frozen=True, slots=True)
class _Stretch:
    """Matches that end in places from `start` to before `stop`.

    Their events are in `low` to before `stop`, what is negated in `low` to before `high`.
    """

    start: int
    stop: int
    low: int
    high: int


Made = tuple[Operator, int]  # an operator, and the width of the window that it is made in


@dataclass
class SharedBuffers:
    """Buffers that several queries read, each held until its last reader had it.

    `tick` is the stream's, by which windows have a width.
    """

    tick: int = 1
    readers: Counter[Made] = field(default_factory=Counter)
    known: dict[Made, Buffer] = field(default_factory=dict)
    held: int = 0  # rows of all of them

    def announce(self, root: Operator, width: int) -> None:
        """Say that a query will read an operator, and what it reads itself the first time."""
        self.readers[root, width] += 1
        if self.readers[root, width] == 1 and (root, width) not in self.known:
            inner = root.window.ticks(self.tick) if isinstance(root, op.Within) else width
            for part in op.inputs(root):
                self.announce(part, inner)

    def renew(self, roots: Iterable[Made]) -> None:
        """Start again with these readers only; what none of them reads is let go."""
        self.readers.clear()
        for root, width in roots:
            self.announce(root, width)
        for made in [known for known in self.known if not self.readers[known]]:
            self.drop(made)

    def keep(self, made: Made, buffer: Buffer) -> None:
        self.known[made] = buffer
        self.held += len(buffer)

    def drop(self, made: Made) -> None:
        if made in self.known:
            self.held -= len(self.known.pop(made))


class TreeEvaluation:
    """One query's operators over picked events.

    Raises `TooWideError` where memory would not be bounded, and `PartialLimitError` where it holds
    or makes too many partial matches; either may come after some rows were given.
    """

    def __init__(
        self,
        picked: SelectedEvents,
        width: int,
        query: str,
        context: RunContext,
        shared: SharedBuffers | None = None,
        ids: Mapping[Operator, str] | None = None,
        latest: Latest | None = None,
    ) -> None:
        """`ids` are those of the operators in the plan, which work is charged to."""
        self.picked, self.width, self.query = picked, width, query
        self.limits, self.partial = context.limits, context.options.partial
        self.ledger, self.account, self.counts = context.ledger, context.account, context.counts
        self.ids, self.latest = ids or {}, latest
        self.matched = 0  # rows of the root so far
        self._shared = shared
        self._made = 0

    def matches(self, root: Operator) -> Iterator[Buffer]:
        """The rows of an operator, in parts; no part is empty."""
        size = len(self.picked)
        whole = _Run(self, _Stretch(0, size, 0, size), self._shared)
        try:
            try:
                yield from self._counted(_unless_begun(whole.rows(root)))
            except _Overflow:
                yield from self._counted(self._in_stretches(root, 0, size))
        except TooWideError as error:
            if self.partial is None:
                raise
            raise PartialLimitError(self.query, str(error), self.partial) from error

    def _counted(self, rows: Iterator[Buffer]) -> Iterator[Buffer]:
        for part in rows:
            self.matched += len(part)
            yield part

    def _in_stretches(self, root: Operator, start: int, stop: int) -> Iterator[Buffer]:
        position = self.picked.position
        # Matches that end at one moment are of one stretch.
        middle = (start + stop) // 2
        middle = max(start, int(np.searchsorted(self.picked.moment, self.picked.moment[middle])))
        for first, behind in ((start, middle), (middle, stop)):
            if first == behind:
                continue
            ends = position[[first, behind - 1]] + np.array([1 - self.width, self.width])
            low, high = joins.places_from(position, ends).tolist()
            stretch = _Stretch(first, behind, low, high)
            try:
                yield from _unless_begun(_Run(self, stretch, None).rows(root))
            except _Overflow:
                if (first, behind) == (start, stop) or 4 * (behind - first) < first - low:
                    # Hardly anything would be new in a shorter one.
                    why = "one window holds too many partial matches"
                    raise TooWideError(why, given_until=first) from None
                yield from self._in_stretches(root, first, behind)

    def check(self, operator: Operator, held: Buffer) -> None:
        """Raise an error where an operator holds more than it may."""
        if self.partial is None or self.partial.on_limit != "stop" or not op.is_partial(operator):
            return
        if len(held) > self.partial.most:
            most = most_at_once(self.picked, held, self.width)
            if most > self.partial.most:
                found = f"one of its operators holds {most:,} partial matches of one key"
                raise PartialLimitError(self.query, found, self.partial)

    def count(self, made: int, bound: int = 0) -> None:
        """Add to the rows that were made, or only bound, which may become too many."""
        self._made += made + bound
        self.counts.made += made
        if self._made > self.limits.work:
            refuse(self.query, f"it has made {self._made:,} partial matches")


class _Run:
    """Operators over one stretch of the events."""

    def __init__(
        self,
        evaluation: TreeEvaluation,
        stretch: _Stretch,
        shared: SharedBuffers | None,
        seed: Buffer | None = None,
        held: dict[Operator, Buffer] | None = None,
        width: int | None = None,
    ) -> None:
        """`seed` are the rows that `Inside` looks at, and `held` what was read for others.

        `width` is that of the window, where it is not the query's.
        """
        self._of, self._stretch, self._shared = evaluation, stretch, shared
        self._seed, self._held = seed, held
        self._picked = evaluation.picked
        self._width = evaluation.width if width is None else width
        self._completed: dict[Operator, npt.NDArray[np.int64]] = {}  # rows by their last event

    def rows(self, root: Operator) -> Iterator[Buffer]:
        """The rows of the root that belong to the stretch."""
        for chunk in self._stream(root, negated=False):
            own = chunk
            start, stop = self._stretch.start, self._stretch.stop
            if self._stretch.low < start or stop < self._stretch.high:
                inside = (chunk.last >= start) & (chunk.last < stop)
                own = chunk if inside.all() else chunk.take(np.flatnonzero(inside))
            if len(own):
                yield own

    def _stream(self, operator: Operator, negated: bool) -> Iterator[Buffer]:
        """The rows of an operator; in parts where nobody else reads them."""
        shared = self._shared
        made = operator, self._width
        if shared is not None and (shared.readers[made] > 1 or made in shared.known):
            yield self._buffer(operator, negated)
            return
        if shared is not None:
            shared.readers[made] = 0
        yield from self._chunks(operator, negated)

    def _buffer(self, operator: Operator, negated: bool) -> Buffer:
        """All rows of an operator, by their last event."""
        if self._held is not None and operator in self._held:
            return self._held[operator]
        shared = self._shared
        made = operator, self._width
        readers = 0 if shared is None else shared.readers[made]
        if shared is not None and made in shared.known:
            self._of.counts.reused += 1
            found = shared.known[made]
        else:
            most = CHUNKS_HELD * self._of.limits.chunk
            parts, size = [], 0
            for part in self._chunks(operator, negated):
                parts.append(part)
                size += len(part)
                if size > most and not isinstance(operator, op.Scan):
                    raise _Overflow
            found = concatenated(parts, width=len(op.symbols(operator))).sorted()
            if not negated:
                self._of.check(operator, found)
            if shared is not None and readers > 1 and shared.held + size <= BUFFERS_HELD * most:
                shared.keep(made, found)
        if shared is not None and readers > 0:
            shared.readers[made] -= 1
            if readers == 1:
                shared.drop(made)
        if self._held is not None:
            self._held[operator] = found
        return found

    def _chunks(self, operator: Operator, negated: bool) -> Iterator[Buffer]:
        """The rows of an operator in parts; what they take is charged to it."""
        id = self._of.ids.get(operator)
        made = self._made(operator, negated)
        if (
            self._of.partial is not None
            and not negated
            and isinstance(operator, op.Join | op.Walk | op.Closure)
        ):
            made = (self._within_limit(operator, part, self._of.partial) for part in made)
        if id is None:
            yield from made
            return
        account = self._of.account
        for part in charged(account, id, made):
            if not isinstance(operator, op.Scan):  # whose rows are there, whoever reads them
                account.count(id, 0, len(part))
            yield part

    def _made(self, operator: Operator, negated: bool) -> Iterator[Buffer]:
        self._of.counts.ran += 1
        picked = self._picked
        match operator:
            case op.Scan(symbol):
                yield self._events(symbol, negated)
            case op.Keep(part, conditions):
                for chunk in self._stream(part, negated):
                    yield kept(conditions, picked, chunk)
            case op.Within(part, window):
                width = window.ticks(picked.columns.events.tick)
                longer = _Run(self._of, self._stretch, self._shared, width=width)
                for chunk in longer._stream(part, negated):
                    yield fitting(picked, chunk, self._width)
            case op.Join():
                yield from self._joined(operator, negated)
            case op.Walk(parts):
                buffers = [self._buffer(part, negated) for part in parts]
                if self._of.latest is not None and operator.ordered and not negated:
                    buffers[-1] = self._of.latest.rows(operator, buffers[-1])
                yield from self._walked(operator, buffers)
            case op.Push(part, negation, side, conditions):
                for search in self._searches(part, negation, conditions, negated):
                    earliest, latest, tried = gates(search, side, self._width)
                    self._of.counts.tried += tried
                    yield search.part.gated(earliest, latest)
            case op.Latest(parts):
                buffers = [self._buffer(part, negated) for part in parts]
                yield self._counted(latest_rows(picked, buffers, self._width))
            case op.Absent(part, negation, gap, conditions):
                for search in self._searches(part, negation, conditions, negated):
                    yield self._counted(free(search, gap, self._width))
            case op.Marked():
                yield from self._marked(operator, negated)
            case op.Taken(part, reader):
                if self._shared is None:  # nobody else reads it
                    part, reader = part.only(reader), 0
                for chunk in self._stream(part, negated):
                    yield taken(chunk, reader)
            case op.Shorten(part, negation, gap, conditions):
                for search in self._searches(part, negation, conditions, negated):
                    yield self._counted(shortened(search, gap, self._width))
            case op.Reached(part, last, conditions):
                ends = self._buffer(last, negated)
                for chunk in self._stream(part, negated):
                    search = Search(picked, chunk, ends, conditions, self._of.limits.chunk)
                    yield self._counted(followed(search, self._width))
            case op.Inside(negation):
                assert self._seed is not None
                its_rows = None if negation is None else self._buffer(negation, negated=True)
                yield from inside(
                    picked, self._seed, its_rows, operator, self._width, self._of.limits.chunk
                )
            case op.Lacking(part, below):
                held: dict[Operator, Buffer] = {}
                for chunk in self._stream(part, negated):
                    yield self._lacking(chunk, below, held)
            case op.Closure(part, symbol):
                yield from self._grouped(operator, part, symbol, negated)
            case op.Whole(part, _, symbol):
                candidates = self._events(symbol, negated=True).last
                for chunk in self._stream(part, negated):
                    yield from whole_groups(
                        operator, picked, chunk, candidates, self._width, self._room
                    )
            case _:
                assert_never(operator)

    def _within_limit(self, operator: Operator, part: Buffer, limit: PartialLimit) -> Buffer:
        """The rows of an operator of which one event completes no more than the limit."""
        none = np.zeros(len(self._picked), np.int64)
        completed = self._completed.setdefault(operator, none)
        before = completed[part.last]
        completed += np.bincount(part.last, minlength=len(completed))
        if completed.max(initial=0) <= limit.most:
            return part
        if limit.on_limit == "stop":
            found = (
                f"one event completes {int(completed.max()):,} matches or partial matches at once"
            )
            raise PartialLimitError(self._of.query, found, limit)
        # Of those that end with one event, the last ones were begun last.
        order = np.argsort(part.last, kind="stable")
        last = part.last[order]
        later = np.searchsorted(last, last, "right") - np.arange(len(last)) - 1
        keep = later < limit.most - before[order]
        lost = last[~keep]
        np.subtract.at(completed, lost, 1)
        if many := int(np.count_nonzero(lost >= self._stretch.start)):
            self._of.ledger.dropped[self._of.query] += many
        return part.take(np.sort(order[keep]))

    def _searches(
        self, part: Operator, negation: Operator, conditions: op.Conditions, negated: bool
    ) -> Iterator[Search]:
        """Rows in chunks, and what is negated."""
        absent = self._buffer(negation, negated=True)
        for chunk in self._stream(part, negated):
            yield Search(self._picked, chunk, absent, conditions, self._of.limits.chunk)

    def _marked(self, operator: op.Marked, negated: bool) -> Iterator[Buffer]:
        part, *others = op.inputs(operator)
        absent = {other: self._buffer(other, negated=True) for other in others}
        marker = Marker(operator, self._picked, absent, self._width, self._of.limits.chunk)
        for chunk in self._stream(part, negated):
            yield self._counted(marker.rows(chunk))

    def _counted(self, found: tuple[Buffer, int]) -> Buffer:
        self._of.counts.tried += found[1]
        return found[0]

    def _lacking(self, rows: Buffer, found: Operator, held: dict[Operator, Buffer]) -> Buffer:
        """The rows of which operators find nothing."""
        if not len(rows):
            return rows
        absent = np.ones(len(rows), bool)
        seeded = _Run(self._of, self._stretch, self._shared, rows, held, self._width)
        try:
            for part in seeded._chunks(found, negated=True):
                number = part.columns[len(rows.columns)]
                assert not isinstance(number, EventGroups)
                absent[number] = False
        except _Overflow:
            if len(rows) == 1:
                raise
            middle = len(rows) // 2
            halves = (np.arange(middle), np.arange(middle, len(rows)))
            parts = [self._lacking(rows.take(half), found, held) for half in halves]
            return concatenated(parts, len(rows.columns))
        return rows if absent.all() else rows.take(np.flatnonzero(absent))

    @property
    def _room(self) -> Room:
        return Room(self._of.limits.chunk, self._of.limits.join)

    def _grouped(
        self, closure: op.Closure, part: Operator | None, symbol: Symbol, negated: bool
    ) -> Iterator[Buffer]:
        # ALL E may reach past the stretch, and its match is then not of it.
        wide = negated or isinstance(closure.quantifier, All)
        candidates = self._events(symbol, wide).last
        rows: Iterable[Buffer | None] = [None] if part is None else self._stream(part, negated)
        for chunk in rows:
            for found in bind_groups(
                closure, self._picked, chunk, candidates, self._width, self._room
            ):
                self._of.counts.tried += found.tried
                self._of.count(len(found.rows))
                if len(found.rows):
                    yield found.rows

    def _events(self, symbol: Symbol, negated: bool) -> Buffer:
        places = self._picked.of(symbol)
        low = self._stretch.low
        high = self._stretch.high if negated else self._stretch.stop
        if low > 0 or high < len(self._picked):
            first, behind = np.searchsorted(places, [low, high])
            places = places[first:behind]
        return of_places(places)

    def _joined(self, join: op.Join, negated: bool) -> Iterator[Buffer]:
        right = self._buffer(join.right, negated)
        if self._of.latest is not None and join.ordered and not negated:
            right = self._of.latest.rows(join, right)
        left = self._buffer(join.left, negated)
        if not len(left) or not len(right):
            return
        picked = self._picked
        drop = self._dropping(join, left, right)
        earliest = right.earliest
        if drop is not None and join.ordered and op.is_partial(join.left):
            since = kept_since(picked, left, right, drop)
            earliest = since if earliest is None else np.maximum(earliest, since)
        rivals = [pair for pair in join.rivals if self._may_be_one(join, pair)]
        grouped = [
            (i, j)
            for i, j in rivals
            if isinstance(left.columns[i], EventGroups) or isinstance(right.columns[j], EventGroups)
        ]
        ready = prepare(
            picked,
            left,
            right,
            join.conditions,
            tuple(pair for pair in rivals if pair not in grouped),
            left.latest if join.ordered else None,
            earliest if join.ordered else None,
        )
        pairs = picked.kernels.count_pairs(
            picked.moment, picked.position, ready.left, ready.groups, ready.right, ready.group,
            ready.tests, self._width, join.ordered,
        )  # fmt: skip
        self._of.counts.tried += pairs.tried
        combine = in_order if join.ordered else together
        if pairs.counts.max(initial=0) > self._of.limits.join:
            raise TooWideError("one partial match has too many extensions")
        for start, stop, many in chunks(pairs.counts, self._of.limits.chunk):
            rows, others = picked.kernels.fill_pairs(
                picked.moment, picked.position, ready.left, ready.right, ready.tests, self._width,
                join.ordered, pairs, start, stop,
            )  # fmt: skip
            self._of.count(many)
            rows = ready.row(rows)
            if drop is not None and not join.ordered:
                missed = np.zeros(len(rows), bool)
                if op.is_partial(join.left):
                    missed |= gone(picked, left, rows, right, others, drop)
                if op.is_partial(join.right):
                    missed |= gone(picked, right, others, left, rows, drop)
                rows, others = rows[~missed], others[~missed]
            found = combine(left, rows, right, others)
            for i, j in grouped:
                found = apart(found, i, len(left.columns) + j)
            yield kept(ready.rest, picked, found)

    def _walked(self, walk: op.Walk, parts: list[Buffer]) -> Iterator[Buffer]:
        symbols = op.symbols(walk)
        rivals = [(i, j) for i, j in walk.rivals if self._picked.overlap(symbols[i], symbols[j])]
        room = self._of.limits.chunk
        for found in walked(walk, self._picked, parts, self._width, room, rivals):
            self._of.counts.tried += found.tried
            self._of.count(len(found.rows), found.bound)
            if len(found.rows):
                yield found.rows

    def _dropping(self, join: op.Join, left: Buffer, right: Buffer) -> int | None:
        """How many partial matches an input keeps; counts those that it gives up."""
        limit = self._of.partial
        if limit is None or limit.on_limit != "drop-oldest":
            return None
        sides = [(join.left, left)] if join.ordered else [(join.left, left), (join.right, right)]
        for operator, held in sides:
            if op.is_partial(operator):
                start = self._stretch.start
                if many := dropped(self._picked, held, self._width, limit.most, start):
                    self._of.ledger.dropped[self._of.query] += many
        return limit.most

    def _may_be_one(self, join: op.Join, pair: tuple[int, int]) -> bool:
        """May two components be the same event?"""
        sides = zip((join.left, join.right), pair, strict=True)
        symbols = [op.symbols(side)[i] for side, i in sides]
        return self._picked.overlap(*symbols)


def _unless_begun(rows: Iterator[Buffer]) -> Iterator[Buffer]:
    """The rows; what grows too large after some were given cannot be tried in another way."""
    begun = False
    try:
        for part in rows:
            begun = True
            yield part
    except _Overflow:
        if begun:
            raise TooWideError("one match is tried against too many partial matches") from None
        raise
