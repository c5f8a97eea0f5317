"""Candidates for sharing among counted queries: queries as steps, and frequent sequences of steps
by Apriori.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal as OneOf
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from optimizer.ir.pattern import Symbol
from optimizer.ir.query import Window

Symbols: TypeAlias = frozenset[Symbol]


class Step(NamedTuple):
    """One event of a sequence, and what must not occur between it and the next one.

    A negation belongs to the step before it, as in the segments that Chop-Connect runs: stretches
    of equal steps count the same wherever they stand.
    """

    symbol: Symbol
    negated: Symbols = frozenset()

    def __str__(self) -> str:
        return " ".join([str(self.symbol), *sorted(f"!{symbol}" for symbol in self.negated)])


class SharedSetting(NamedTuple):
    """What queries must have in common, besides steps, to share anything."""

    key: tuple[str, ...]
    is_count: bool  # are windows counted in events?
    order: tuple[str, ...] = ()  # the columns that say which event is before which
    keeps_all: bool = False  # all events at once, as windows of so many events that slide do
    added: tuple[str, ...] = ()  # of keys that differ by component


class CountSetting(NamedTuple):
    """How a query looks at the stream."""

    key: tuple[str, ...]
    window: Window
    slide: int | None = None
    order: tuple[str, ...] = ()
    added: tuple[str, ...] = ()

    @property
    def shared(self) -> SharedSetting:
        """What others that share with it have too: windows and slides may differ."""
        is_count = self.window.is_count
        keeps_all = is_count and self.slide is not None
        return SharedSetting(self.key, is_count, self.order, keeps_all, self.added)


@dataclass(frozen=True)
class QuerySteps:
    """A query that can be chopped: its name, its steps from first to last, its setting."""

    name: str
    steps: tuple[Step, ...]
    setting: CountSetting


Ints: TypeAlias = NDArray[np.int64]
FEWEST_QUERIES = 2
MAX_CANDIDATE_STEPS = 1_000_000  # of all candidates, at all their places


class LetterText(NamedTuple):
    """Queries as letters: those of query q at `start[q]` up to `start[q + 1]`."""

    letters: Ints
    start: Ints

    @property
    def owner(self) -> Ints:
        """The query of each position."""
        return np.repeat(np.arange(len(self.start) - 1), np.diff(self.start))


class Level(NamedTuple):
    """All frequent stretches of one length, and where each begins, in order of position."""

    length: int
    first: Ints  # the places of stretch i are first[i] up to first[i + 1]
    places: Ints


def text_of(words: Sequence[Sequence[int]]) -> LetterText:
    """The text of sequences of letters."""
    start = pointers(np.array([len(word) for word in words], np.int64))
    letters = np.fromiter((letter for word in words for letter in word), np.int64, int(start[-1]))
    return LetterText(letters, start)


def levels(text: LetterText) -> Iterator[Level]:
    """Every stretch of at least two letters that at least two queries have, shortest first."""
    owner = text.owner
    numbers, _ = _frequent(_single(text), owner)
    length = 1
    while True:
        length += 1
        numbers, places = _frequent(_joined(numbers, owner), owner)
        if not len(places):
            return
        yield Level(length, pointers(np.bincount(numbers[places])), places)


def stretches(text: LetterText) -> Iterator[Ints]:
    """At each position the number of the stretch that begins there: of length 2, 3, … without end.

    Frequent or not: equal numbers are equal stretches; -1 where the query is too short.
    """
    owner, numbers = text.owner, _single(text)
    while True:
        numbers = _joined(numbers, owner)
        yield numbers[:-1]


def pointers(sizes: Ints) -> Ints:
    """Where each of several stretches of these sizes begins, and where the last one ends."""
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes, dtype=np.int64)])


def _single(text: LetterText) -> Ints:
    numbers = np.full(len(text.letters) + 1, -1, np.int64)  # nothing begins past the end
    _, numbers[:-1] = np.unique(text.letters, return_inverse=True)
    return numbers


def _joined(numbers: Ints, owner: Ints) -> Ints:
    """One number for each pair of neighbouring stretches of one query."""
    joined = np.full_like(numbers, -1)
    pairs = (numbers[:-1] >= 0) & (numbers[1:] >= 0)
    pairs[:-1] &= owner[:-1] == owner[1:]
    at = np.flatnonzero(pairs)
    if len(at):
        keys = numbers[at] * (numbers.max() + 1) + numbers[at + 1]
        _, joined[at] = np.unique(keys, return_inverse=True)
    return joined


def _frequent(numbers: Ints, owner: Ints) -> tuple[Ints, Ints]:
    """Only stretches of enough queries, numbered anew, and their places, grouped by number."""
    at = np.flatnonzero(numbers >= 0)
    kept = np.full_like(numbers, -1)
    if not len(at):
        return kept, at
    at = at[np.argsort(numbers[at], kind="stable")]
    stretch, query = numbers[at], owner[at]
    # Within a stretch places are in order, so another query begins where the owner changes.
    new_stretch = np.diff(stretch, prepend=-1) != 0
    new_query = new_stretch | (np.diff(query, prepend=-1) != 0)
    queries = np.bincount(stretch, weights=new_query)
    enough = queries >= FEWEST_QUERIES
    renumbered = np.cumsum(enough) - 1
    places = at[enough[stretch]]
    kept[places] = renumbered[numbers[places]]
    return kept, places


CandidateKind = OneOf["substring", "prefix", "suffix", "bitmark"]
CANDIDATE_KINDS: tuple[CandidateKind, ...] = ("substring", "prefix", "suffix", "bitmark")
SUBSTRINGS: tuple[CandidateKind, ...] = ("substring",)
_SUBSTRING, _PREFIX, _SUFFIX, _BITMARK = range(4)


class CandidatePosition(NamedTuple):
    """Where a candidate serves a query: the number of the step that it begins with."""

    query: str
    position: int


@dataclass(frozen=True)
class Candidate:
    """One candidate, by itself; `steps` of a bitmark have no negations, as these differ."""

    steps: tuple[Step, ...]
    kind: CandidateKind
    places: tuple[CandidatePosition, ...]

    @property
    def queries(self) -> tuple[str, ...]:
        """The queries that it serves, in order."""
        return tuple(dict.fromkeys(place.query for place in self.places))

    @cached_property
    def id(self) -> str:
        """The same for the same steps and places, in every process."""
        content = [self.kind == "bitmark", list(map(str, self.steps)), sorted(self.places)]
        digest = hashlib.sha256(json.dumps(content, separators=(",", ":")).encode())
        return "share-" + digest.hexdigest()[:12]


@dataclass(frozen=True, eq=False)
class Candidates(Sequence[Candidate]):
    """Many candidates for the same queries.

    The places of candidate i are `first[i]` up to `first[i + 1]`, in order of query and position;
    no two of one candidate overlap. `base[i]` is the candidate that i is a variant of, with only
    some of its places, or i itself. Where they are not `complete`, longer ones were left out, as
    there are too many.
    """

    of: tuple[QuerySteps, ...]
    kind: NDArray[np.int8]
    length: Ints
    base: Ints
    first: Ints
    query: Ints  # of each place
    position: Ints
    complete: bool = True

    def __len__(self) -> int:
        return len(self.length)

    def __getitem__(self, i: int) -> Candidate:  # type: ignore[override]  # no slices
        if not -len(self) <= i < len(self):
            raise IndexError(i)
        i %= len(self)
        kind = CANDIDATE_KINDS[self.kind[i]]
        places = slice(self.first[i], self.first[i + 1])
        steps = self.steps(i)
        return Candidate(
            tuple(Step(step.symbol) for step in steps) if kind == "bitmark" else steps,
            kind,
            tuple(
                CandidatePosition(self.of[q].name, p)
                for q, p in zip(
                    self.query[places].tolist(), self.position[places].tolist(), strict=True
                )
            ),
        )

    def __iter__(self) -> Iterator[Candidate]:
        return map(self.__getitem__, range(len(self)))

    def steps(self, i: int) -> tuple[Step, ...]:
        """The steps of candidate i, as at its first place."""
        place = int(self.first[i])
        begin = int(self.position[place])
        return self.of[int(self.query[place])].steps[begin : begin + int(self.length[i])]

    @property
    def places(self) -> Ints:
        """How many places each candidate serves."""
        return np.diff(self.first)

    @property
    def holder(self) -> Ints:
        """The candidate of each place."""
        return np.repeat(np.arange(len(self)), self.places)

    @cached_property
    def queries(self) -> Ints:
        """How many queries each candidate serves."""
        return _queries(self.holder, self.query, len(self))

    @cached_property
    def start(self) -> Ints:
        """Where each query begins if all stand behind one another."""
        return pointers(np.array([len(query.steps) for query in self.of], np.int64))

    def restricted(self, kept: NDArray[np.bool_], proper: bool = True) -> Candidates:
        """Variants: each candidate with only those of its places that are kept.

        Those that keep fewer than two queries are left out, and with `proper` those that lose none.
        """
        holder = self.holder
        sizes = np.bincount(holder[kept], minlength=len(self))
        queries = _queries(holder[kept], self.query[kept], len(self))
        chosen = queries >= FEWEST_QUERIES
        if proper:
            chosen &= sizes < self.places
        kept = kept & chosen[holder]
        return Candidates(
            self.of,
            self.kind[chosen],
            self.length[chosen],
            self.base[chosen],
            pointers(sizes[chosen]),
            self.query[kept],
            self.position[kept],
        )

    def followed_by(self, variants: Candidates) -> Candidates:
        """These and then variants of them, of which equal ones are kept once."""
        older = np.flatnonzero(self.base != np.arange(len(self))).tolist()
        seen = {self.content(i) for i in older}
        new = []
        for i in range(len(variants)):
            content = variants.content(i)
            if content not in seen:
                seen.add(content)
                new.append(i)
        return _concatenated([self, variants.only(np.array(new, np.int64))])

    def only(self, ids: Ints) -> Candidates:
        """The candidates of these numbers, in this order; `base` stays as it is."""
        sizes = self.places[ids]
        at = ranges(self.first[ids], sizes)
        return Candidates(
            self.of,
            self.kind[ids],
            self.length[ids],
            self.base[ids],
            pointers(sizes),
            self.query[at],
            self.position[at],
        )

    def content(self, i: int) -> tuple[int, bytes, bytes]:
        """Equal for equal variants of one candidate."""
        places = slice(self.first[i], self.first[i + 1])
        return int(self.base[i]), self.query[places].tobytes(), self.position[places].tobytes()


def ranges(first: Ints, sizes: Ints) -> Ints:
    """The numbers first[0], first[0] + 1, … of each range behind one another."""
    begin = np.repeat(first - pointers(sizes)[:-1], sizes)
    return begin + np.arange(len(begin))


def mine(
    queries: Iterable[QuerySteps], kinds: Collection[CandidateKind] = SUBSTRINGS
) -> Candidates:
    """All candidates: at least two steps that at least two queries have that may share.

    Where all places of a substring begin (or end) their queries it is called a prefix (or suffix).
    Further `kinds` give further candidates: "prefix" and "suffix" serve only those queries that
    begin or end with a substring; "bitmark" those with the same symbols whatever they negate. The
    shorter ones come first, and those too long for `MAX_CANDIDATE_STEPS` are left out.
    """
    of = tuple(queries)
    text = interned([(query.setting.shared, step) for step in query.steps] for query in of)
    found = [_none(of)]
    number, complete = 0, True
    for level in levels(text):
        number += len(level.places) * level.length
        if number > MAX_CANDIDATE_STEPS:
            complete = False
            break
        every = _served(of, text, level)
        if "substring" in kinds:
            found.append(every)
        for kind, kept in ((_PREFIX, every.position == 0), (_SUFFIX, _at_end(every))):
            if CANDIDATE_KINDS[kind] in kinds:
                part = every.restricted(kept, proper="substring" in kinds)
                if kind == _SUFFIX and "prefix" in kinds:  # whole queries were found as prefixes
                    inner = np.maximum.reduceat(part.position, part.first[:-1]) > 0
                    part = part.only(np.flatnonzero(inner))
                found.append(replace(part, kind=np.full(len(part), kind, np.int8)))
    if "bitmark" in kinds:
        found += _bitmarks(of, text)
    mined = _concatenated(found)
    return replace(mined, base=np.arange(len(mined)), complete=complete)


def interned(words: Iterable[Iterable[Hashable]]) -> LetterText:
    """The text of sequences of anything; equal things are equal letters."""
    numbers: dict[Hashable, int] = {}
    return text_of([[numbers.setdefault(thing, len(numbers)) for thing in w] for w in words])


def _none(of: tuple[QuerySteps, ...]) -> Candidates:
    none = np.zeros(0, np.int64)
    return Candidates(of, none.astype(np.int8), none, none, np.zeros(1, np.int64), none, none)


def _served(of: tuple[QuerySteps, ...], text: LetterText, level: Level) -> Candidates:
    """The candidates of a level, each at all its places that do not overlap."""
    places, first = _without_overlaps(level, text.owner)
    query = text.owner[places]
    number = len(first) - 1
    found = Candidates(
        of,
        np.full(number, _SUBSTRING, np.int8),
        np.full(number, level.length),
        np.arange(number),
        first,
        query,
        places - text.start[query],
    )
    for kind, holds in ((_SUFFIX, _at_end(found)), (_PREFIX, found.position == 0)):
        found.kind[np.logical_and.reduceat(holds, first[:-1])] = kind
    return found


def _without_overlaps(level: Level, owner: Ints) -> tuple[Ints, Ints]:
    """A level's places without those that overlap an earlier one of the same stretch and query.

    From the left, so that the most places stay.
    """
    places, stretch = level.places, np.repeat(np.arange(len(level.first) - 1), np.diff(level.first))
    same = (np.diff(stretch) == 0) & (np.diff(owner[places]) == 0)
    if not (same & (np.diff(places) < level.length)).any():
        return places, level.first
    kept = np.ones(len(places), np.bool_)
    last = 0
    for i in np.flatnonzero(same) + 1:  # repeats within a query, of which there are few
        if i == 1 or not same[i - 2]:
            last = places[i - 1]
        kept[i] = places[i] - last >= level.length
        if kept[i]:
            last = places[i]
    return places[kept], pointers(np.bincount(stretch[kept]))


def _at_end(candidates: Candidates) -> NDArray[np.bool_]:
    """Which places end their query."""
    ends = np.diff(candidates.start)[candidates.query]
    found: NDArray[np.bool_] = (
        candidates.position + np.repeat(candidates.length, candidates.places) == ends
    )
    return found


def _bitmarks(of: tuple[QuerySteps, ...], text: LetterText) -> Iterator[Candidates]:
    """Stretches of the same symbols, in one setting, that do not all negate the same."""
    symbols = interned(
        [(query.setting.shared, step.symbol) for step in query.steps] for query in of
    )
    for level, exact in zip(levels(symbols), stretches(text), strict=False):
        every = _served(of, symbols, level)
        found = exact[every.start[every.query] + every.position]
        different = found != np.repeat(found[every.first[:-1]], every.places)
        ids = np.flatnonzero(np.logical_or.reduceat(different, every.first[:-1]))
        every.kind[:] = _BITMARK
        yield every.only(ids)


def _queries(holder: Ints, query: Ints, number: int) -> Ints:
    """How many different queries each candidate's places are in; these stand in order."""
    new = (np.diff(holder, prepend=-1) != 0) | (np.diff(query, prepend=-1) != 0)
    return np.bincount(holder[new], minlength=number)


def _concatenated(several: Sequence[Candidates]) -> Candidates:
    def joined(name: str) -> Ints:
        return np.concatenate([getattr(candidates, name) for candidates in several])

    return Candidates(
        several[0].of,
        joined("kind").astype(np.int8),
        joined("length"),
        joined("base"),
        pointers(joined("places")),
        joined("query"),
        joined("position"),
    )
