"""Apriori over sequences, by level, on arrays (section 4.3.1 of Qi's thesis).

All queries stand behind one another in one array of letters. A level gives every position the
number of the frequent stretch of that length that begins there, or none. A stretch can only be
frequent if both stretches that are one shorter are, so a level is made from pairs of neighbours in
the level before.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

Ints: TypeAlias = NDArray[np.int64]
FEWEST_QUERIES = 2


class Text(NamedTuple):
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


def text_of(words: Sequence[Sequence[int]]) -> Text:
    """The text of sequences of letters."""
    start = pointers(np.array([len(word) for word in words], np.int64))
    letters = np.fromiter((letter for word in words for letter in word), np.int64, int(start[-1]))
    return Text(letters, start)


def levels(text: Text) -> Iterator[Level]:
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


def stretches(text: Text) -> Iterator[Ints]:
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


def _single(text: Text) -> Ints:
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
