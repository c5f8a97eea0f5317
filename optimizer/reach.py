"""How far queries look around a slice of the stream, and which of them see the same events of it.

A stream that is longer than a slice is cut; what looks equally far runs over the same events.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from optimizer.ir.alternatives import alternatives
from optimizer.ir.pattern import Proj, walk
from optimizer.ir.query import Construction, Query
from optimizer.places import waits
from workloads.errors import TooLargeError

SLICE_EVENTS = 500_000  # of a slice; a stream that has no more is not cut


def waits_for_window(query: Query) -> bool:
    """Can events after a match's last decide whether it is one?"""
    if not isinstance(query.output, Construction):
        return False
    if any(isinstance(node, Proj) for node in walk(query.pattern)):
        return True
    try:
        return any(map(waits, alternatives(query.pattern)))
    except TooLargeError:
        return True  # which is said when it runs


def is_unbounded(query: Query) -> bool:
    """Does it need all events at once? The next event of a key may never come."""
    return query.window.is_count and (query.slide is not None or waits_for_window(query))


class ReachClass(NamedTuple):
    """What groups of queries must agree in to run over the same events of a slice.

    `back` and `ahead` are nanoseconds; `events` and `key` are those of windows counted in events.
    """

    back: int = 0
    ahead: int = 0
    events: int = 0
    key: tuple[str, ...] = ()
    unbounded: bool = False


def class_of(queries: Sequence[Query]) -> ReachClass:
    """The class of queries that run as one group."""
    first = queries[0]
    if not first.window.is_count:
        return ReachClass(
            max(query.window.size for query in queries),
            max((q.window.size for q in queries if waits_for_window(q)), default=0),
        )
    if any(map(is_unbounded, queries)):
        return ReachClass(unbounded=True)
    return ReachClass(events=first.window.size, key=first.key)


def visits(
    classes: Iterable[ReachClass], rate: float, values: dict[tuple[str, ...], float]
) -> dict[ReachClass, float]:
    """How often each class visits an event of a long stream, in which so many come in a second.

    Events that slices reach back to are visited again. `values` are numbers of values of keys.
    """
    found = list(dict.fromkeys(classes))
    counted = {c: c.events * values.get(c.key, 1.0) for c in found}
    reached = {c: rate * (c.back + c.ahead) / 1e9 + counted[c] for c in found}
    held = max((rate * c.back / 1e9 + counted[c] for c in found), default=0.0)
    step = max(SLICE_EVENTS, held)  # a slice has no fewer events than are carried over to it
    return {c: 1 + reached[c] / step for c in found}
