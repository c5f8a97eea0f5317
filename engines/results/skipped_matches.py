"""`AFTER MATCH SKIP PAST LAST EVENT`: of the matches of a key those that begin behind one another.

They come in the order of their first, then their last event. So a match is decided when all that
begin with it have come, and what is known of those before is where the last one given ended.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from engines.account import Account
from engines.columns.groups import EventGroups
from engines.input.event_table import Events
from engines.results.chunks import MatchChunk, RowChunk
from engines.results.first_matches import event_rows, match_places, moment_numbers, read_texts
from engines.results.tables import ranked_codes
from optimizer.ir.query import Query

MOST_HELD = 500_000  # matches of a query; from then on those are dropped that cannot be given

Int64s: TypeAlias = npt.NDArray[np.int64]
# The time and sequence number of the last event of the last match given, by query and key: as far
# as matches that are not decided yet can begin at or before it.
LastEnds: TypeAlias = dict[str, dict[str, tuple[int, int]]]


def matches_apart(
    chunks: Iterator[RowChunk],
    queries: Sequence[Query],
    ends: LastEnds,
    stop: int | None,
    account: Account,
    outputs: Mapping[str, str],
) -> Iterator[RowChunk]:
    """The rows of a slice; those of queries that skip what overlaps last.

    The slice has all matches that begin in it, and ends before the time `stop`. `ends` is what the
    slices before have left, and is changed to what this one leaves. `outputs` are the operators
    that this is charged to, and whose rows it makes fewer.
    """
    skipping = {query.name: query for query in queries if query.skips_past}
    if not skipping:
        yield from chunks
        return
    held: dict[str, list[MatchChunk]] = {}
    most = dict.fromkeys(skipping, MOST_HELD)

    def settle(name: str, choose: Callable[[_Candidates], list[MatchChunk]]) -> list[MatchChunk]:
        found = [chunk for chunk in held[name] if len(chunk)]
        with account.charge(outputs[name]):
            given = choose(_Candidates(found, skipping[name].skips_past)) if found else []
        account.count(outputs[name], 0, sum(map(len, given)) - sum(map(len, found)))
        return given

    for chunk in chunks:
        if not isinstance(chunk, MatchChunk) or chunk.query not in skipping:
            yield chunk
            continue
        name = chunk.query
        held.setdefault(name, []).append(chunk)
        if sum(map(len, held[name])) > most[name]:
            held[name] = settle(name, _Candidates.first_of_each_begin)
            most[name] = max(MOST_HELD, 2 * sum(map(len, held[name])))
    for name in skipping:
        before = ends.pop(name, {})
        if name in held:
            yield from settle(name, lambda found: found.apart(before))  # noqa: B023
        if stop is not None:
            left = {key: end for key, end in before.items() if end[0] >= stop}
            if left:
                ends[name] = left


class _Candidates:
    """Matches of a query, at least one, by key and by the moments at which they begin and end."""

    def __init__(self, chunks: list[MatchChunk], aliases: tuple[str, ...]) -> None:
        self._chunks, self._aliases = chunks, aliases
        events = chunks[0].events
        self._moments = moment_numbers([r for chunk in chunks for r in event_rows(chunk)], events)
        self._texts, codes = ranked_codes(pa.chunked_array([chunk.keys() for chunk in chunks]))
        self._keys = codes.astype(np.int64)
        extents = [_extent(chunk, self._moments) for chunk in chunks]
        self._first = np.concatenate([first for first, _ in extents])
        self._last = np.concatenate([last for _, last in extents])
        self._ticks, self._sequence = _by_moment(self._moments, events)

    def first_of_each_begin(self) -> list[MatchChunk]:
        """Of the matches that begin at one moment only one can be given."""
        return self._taken(self._ordered())

    def apart(self, ends: dict[str, tuple[int, int]]) -> list[MatchChunk]:
        """Those that begin behind the one before; `ends` gets to have where the last ones end."""
        given: list[int] = []
        rows = self._ordered()
        key, end = -2, 0
        texts = self._texts.to_pylist()
        columns = (x[rows].tolist() for x in (self._keys, self._first, self._last))
        for row, own, first, last in zip(rows.tolist(), *columns, strict=True):
            if own != key:
                key = own
                name = "" if key < 0 else texts[key]
                end = self._number(ends[name]) if name in ends else 0
            if first > end:
                given.append(row)
                end = last
                ends[name] = (int(self._ticks[last]), int(self._sequence[last]))
        return self._taken(np.array(given, np.int64))

    def _number(self, end: tuple[int, int]) -> int:
        """The number of the last moment that is not behind another."""
        ticks = self._ticks[1:]
        low = int(np.searchsorted(ticks, end[0], "left"))
        high = int(np.searchsorted(ticks, end[0], "right"))
        return low + int(np.searchsorted(self._sequence[1:][low:high], end[1], "right"))

    def _ordered(self) -> Int64s:
        """The first match of each that begin alike, by key and beginning."""
        order = np.lexsort((self._last, self._first, self._keys))
        keys, first, last = (x[order] for x in (self._keys, self._first, self._last))
        is_new = np.ones(len(order), np.bool_)
        is_new[1:] = (keys[1:] != keys[:-1]) | (first[1:] != first[:-1])
        begin = np.cumsum(is_new) - 1
        alike = last == last[is_new][begin]  # none of its beginning ends earlier
        order, begin = order[alike], begin[alike]
        starts = np.flatnonzero(np.append(True, begin[1:] != begin[:-1]))
        sizes = np.diff(np.append(starts, len(order)))
        found: Int64s = order[starts]
        several = np.flatnonzero(sizes > 1).tolist()
        if several:
            places = self._places(order[np.repeat(sizes > 1, sizes)])
            tied: dict[int, list[int]] = {}  # by their moments, the first of each beginning
            for group in several:
                rows = order[starts[group] : starts[group] + sizes[group]].tolist()
                least = min(places[row] for row in rows)
                tied[group] = [row for row in rows if places[row] == least]
            texts: dict[int, str] = {}  # which decide where moments do not, read all at once
            unclear = [row for rows in tied.values() if len(rows) > 1 for row in rows]
            read_texts(self._chunks, np.array(sorted(unclear), np.int64), texts)
            for group, rows in tied.items():
                found[group] = min(rows, key=texts.__getitem__) if len(rows) > 1 else rows[0]
        return found

    def _places(self, rows: Int64s) -> dict[int, bytes]:
        """The moments of the events of some matches, component by component."""
        wanted = np.zeros(len(self._keys), np.bool_)
        wanted[rows] = True
        found: dict[int, bytes] = {}
        start = 0
        for chunk in self._chunks:
            own = np.flatnonzero(wanted[start : start + len(chunk)])
            if len(own):
                places = match_places(chunk.take(own), self._aliases, self._moments)
                found.update(zip((own + start).tolist(), places.to_pylist(), strict=True))
            start += len(chunk)
        return found

    def _taken(self, rows: Int64s) -> list[MatchChunk]:
        wanted = np.zeros(len(self._keys), np.bool_)
        wanted[rows] = True
        given, start = [], 0
        for chunk in self._chunks:
            own = np.flatnonzero(wanted[start : start + len(chunk)])
            start += len(chunk)
            if len(own):
                given.append(chunk if len(own) == len(chunk) else chunk.take(own))
        return given


def _extent(chunk: MatchChunk, moments: npt.NDArray[np.uint32]) -> tuple[Int64s, Int64s]:
    """The moments of the first and of the last event of each match."""
    first = np.full(len(chunk), np.iinfo(np.int64).max)
    last = np.zeros(len(chunk), np.int64)
    for column in chunk.aliases().values():
        if isinstance(column, EventGroups):
            found = moments[column.rows].astype(np.int64)
            np.minimum.at(first, column.owner, found)
            np.maximum.at(last, column.owner, found)
        else:
            found = moments[column].astype(np.int64)
            np.minimum(first, found, out=first)
            np.maximum(last, found, out=last)
    return first, last


def _by_moment(moments: npt.NDArray[np.uint32], events: Events) -> tuple[Int64s, Int64s]:
    """The time and the sequence number of each moment, by its number."""
    rows = np.flatnonzero(moments)
    ticks = np.zeros(int(moments.max(initial=0)) + 1, np.int64)
    sequence = np.zeros_like(ticks)
    ticks[moments[rows]] = events.ticks[rows]
    if events.sequence is not None:
        sequence[moments[rows]] = events.sequence[rows]
    return ticks, sequence
