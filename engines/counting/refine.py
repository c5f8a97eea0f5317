"""Which counters always hold the same number: found once for a whole group of queries.

The product of a stretch of stream has an *entry* for each pair of states of a machine: how many
ways lead from the one to the other. Entries that evolve alike are one counter: for sequences that
is one counter per distinct substring of the workload (docs/design.md#counting-is-linear). It is
found by refinement, without a notion of substrings: two entries are the same if they start the same
and every letter sums the same entries into them.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

Int64s = npt.NDArray[np.int64]
NOTHING = -1  # what a letter sums into an entry that it empties


@dataclass
class Sums:
    """What letters sum into entries: entry `of[i]` into entry `into[i]` by the letter `label[i]`.

    `start` says how each entry begins; entries with different ones are never the same.
    """

    start: list[tuple[int, int]] = field(default_factory=list)
    into: list[int] = field(default_factory=list)
    label: list[int] = field(default_factory=list)
    of: list[int] = field(default_factory=list)

    def entry(self, start: tuple[int, int]) -> int:
        """A new entry."""
        self.start.append(start)
        return len(self.start) - 1

    def add(self, into: int, label: int, of: int) -> None:
        """A letter sums an entry into another."""
        self.into.append(into)
        self.label.append(label)
        self.of.append(of)


def refine(sums: Sums, tags: Sums | None = None, tag_color: Int64s | None = None) -> Int64s:
    """A color for each entry, the same for two if and only if they always hold the same number.

    `tags` are sums of other entries into these, whose colors `tag_color` are known.
    """
    color = numbered(sums.start)
    into, label = np.array(sums.into, np.int64), np.array(sums.label, np.int64)
    of = np.array(sums.of, np.int64)
    known = np.zeros(0, np.int64)
    if tags is not None and tag_color is not None and tags.of:
        into = np.append(into, np.array(tags.into, np.int64))
        label = np.append(label, -1 - np.array(tags.label, np.int64))  # apart from the others
        known = tag_color[np.array(tags.of, np.int64)]
    if not len(into):
        return color
    colors = 0
    while (found := int(color.max()) + 1) != colors:
        colors = found
        source = np.append(np.where(of == NOTHING, NOTHING, color[of]), known)
        color = _signatures(color, into, label, source)
    return color


def _signatures(color: Int64s, into: Int64s, label: Int64s, source: Int64s) -> Int64s:
    """Colors by an entry's own color and the multiset of (label, source) summed into it."""
    pair = _distinct(label, source)
    ranked = np.lexsort((pair, into))
    into, pair = into[ranked], pair[ranked]
    firsts = np.flatnonzero(np.diff(into, prepend=-1))
    sizes = np.diff(np.append(firsts, len(into)))
    entries = into[firsts]
    found = color.copy()
    for k in range(int(sizes.max(initial=0))):
        has = sizes > k
        signature = _distinct(found[entries[has]], pair[firsts[has] + k])
        # Numbers of longer signatures follow those of all others.
        found[entries[has]] = signature + int(found.max()) + 1
    return np.unique(found, return_inverse=True)[1].astype(np.int64)


def _distinct(a: Int64s, b: Int64s) -> Int64s:
    """A number for each distinct pair."""
    low_a, low_b = int(a.min(initial=0)), int(b.min(initial=0))
    joined = (a - low_a) * (int(b.max(initial=0)) - low_b + 1) + (b - low_b)
    numbers: Int64s = np.unique(joined, return_inverse=True)[1].astype(np.int64)
    return numbers


def numbered(keys: Sequence[Hashable]) -> Int64s:
    """A number for each distinct key, in the order of their first occurrence."""
    numbers: dict[Hashable, int] = {}
    return np.array([numbers.setdefault(key, len(numbers)) for key in keys], np.int64)
