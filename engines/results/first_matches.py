"""`LIMIT k`: of the matches of a key that end at one moment, the first by their events' times."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from engines.account import Account
from engines.columns.groups import EventGroups
from engines.input.event_table import Events
from engines.results.chunks import MatchChunk, RowChunk
from engines.results.counted_matches import CountedMatches
from engines.results.tables import ranked_codes
from optimizer.ir.query import Construction, MatchLimit, Query

MOST_HELD = 500_000  # matches of a query; from then on those are dropped that cannot be given


def first_matches(
    chunks: Iterator[RowChunk],
    queries: Sequence[Query],
    events: Events,
    account: Account,
    outputs: Mapping[str, str],
) -> Iterator[RowChunk]:
    """The rows of a batch of events; those of queries with a limit last, and only its first.

    `outputs` are the operators that this is charged to, and whose rows it makes fewer.
    """
    limits = {
        query.name: query.output.limit
        for query in queries
        if isinstance(query.output, Construction) and query.output.limit is not None
    }
    if not limits:
        yield from chunks
        return
    held: dict[str, list[MatchChunk]] = {}

    def kept(name: str) -> list[MatchChunk]:
        with account.charge(outputs[name]):
            found = _first(held[name], limits[name], events)
        dropped = sum(map(len, held[name])) - sum(map(len, found))
        account.count(outputs[name], 0, -dropped)
        return found

    for chunk in chunks:
        if not isinstance(chunk, MatchChunk) or chunk.query not in limits:
            yield chunk
            continue
        found = held.setdefault(chunk.query, [])
        found.append(chunk)
        if sum(map(len, found)) > MOST_HELD:
            held[chunk.query] = kept(chunk.query)
    for name in held:
        yield from kept(name)


def _first(chunks: list[MatchChunk], limit: MatchLimit, events: Events) -> list[MatchChunk]:
    """The matches that are among the first of their key and last moment."""
    chunks = [chunk for chunk in chunks if len(chunk)]
    if not chunks:
        return []
    # Where there are no more than are wanted, nothing has to be compared.
    over = _too_many(chunks, limit, events)
    few = [found for chunk, rows in over if (found := chunk.take(np.flatnonzero(~rows)))]
    many = [found for chunk, rows in over if (found := chunk.take(np.flatnonzero(rows)))]
    return few + _compared(many, limit, events) if many else chunks


def _too_many(
    chunks: list[MatchChunk], limit: MatchLimit, events: Events
) -> list[tuple[MatchChunk, npt.NDArray[np.bool_]]]:
    """The chunks, with which of their matches end where more do than are wanted."""
    keys = ranked_codes(pa.chunked_array([chunk.keys() for chunk in chunks]))[1]
    last = [chunk.last_rows() for chunk in chunks]
    ends = moment_numbers(last, events)[np.concatenate(last)].astype(np.int64)
    place = (keys.astype(np.int64) + 1) * (int(ends.max()) + 1) + ends
    _, which, counts = np.unique(place, return_inverse=True, return_counts=True)
    over = (counts > limit.number)[which]
    starts = np.cumsum([0, *map(len, chunks)]).tolist()
    return [(chunk, over[at : at + len(chunk)]) for chunk, at in zip(chunks, starts, strict=False)]


def _compared(chunks: list[MatchChunk], limit: MatchLimit, events: Events) -> list[MatchChunk]:
    """The matches that are among the first of their key and last moment, of at least one."""
    keys = ranked_codes(pa.chunked_array([chunk.keys() for chunk in chunks]))[1]
    moments = moment_numbers([rows for chunk in chunks for rows in event_rows(chunk)], events)
    ends = np.concatenate([moments[chunk.last_rows()] for chunk in chunks])
    places = pa.concat_arrays([match_places(chunk, limit.aliases, moments) for chunk in chunks])
    table = pa.table({"key": keys, "end": ends, "place": places})
    order = pc.sort_indices(table, sort_keys=[(n, "ascending") for n in table.column_names])
    order = order.to_numpy().astype(np.int64)
    is_new = np.ones(len(order), np.bool_)
    is_new[1:] = (keys[order[1:]] != keys[order[:-1]]) | (ends[order[1:]] != ends[order[:-1]])
    starts = np.flatnonzero(is_new)
    sizes = np.diff(np.append(starts, len(order)))
    at = np.arange(len(order)) - np.repeat(starts, sizes)
    kept = order[at < limit.number]
    cut = np.flatnonzero(sizes > limit.number)
    if len(cut):
        kept = _settled(chunks, kept, order, starts[cut], sizes[cut], places, limit.number)
    wanted = np.zeros(len(order), np.bool_)
    wanted[kept] = True
    given, start = [], 0
    for chunk in chunks:
        rows = np.flatnonzero(wanted[start : start + len(chunk)])
        start += len(chunk)
        if len(rows):
            given.append(chunk if len(rows) == len(chunk) else chunk.take(rows))
    return given


def _settled(
    chunks: list[MatchChunk],
    kept: npt.NDArray[np.int64],
    order: npt.NDArray[np.int64],
    starts: npt.NDArray[np.int64],
    sizes: npt.NDArray[np.int64],
    places: pa.Array,
    number: int,
) -> npt.NDArray[np.int64]:
    """The rows to keep, where the limit cuts through matches at the same moments: by their texts.

    `starts` and `sizes` are, in `order`, the matches of which only a `number` is given.
    """
    before, behind = order[starts + number - 1], order[starts + number]
    same = pc.equal(places.take(pa.array(before)), places.take(pa.array(behind)))
    texts: dict[int, str] = {}
    chosen = set(kept.tolist())
    unclear: list[list[int]] = []
    for start, size in zip(*(x[np.asarray(same)].tolist() for x in (starts, sizes)), strict=True):
        rows = order[start : start + size]
        mine = places.take(pa.array(rows))
        unclear.append(rows[np.asarray(pc.equal(mine, mine[number - 1]))].tolist())
    # All at once, as making a few texts takes about as long as making many.
    read_texts(chunks, np.array(sorted(chain.from_iterable(unclear)), np.int64), texts)
    for tied in unclear:
        room = len(chosen.intersection(tied))
        chosen.difference_update(tied)
        chosen.update(sorted(tied, key=texts.__getitem__)[:room])
    return np.array(sorted(chosen), np.int64)


def read_texts(
    chunks: list[MatchChunk], rows: npt.NDArray[np.int64], texts: dict[int, str]
) -> None:
    """Add the texts of some rows of all chunks; matches are not left out for others yet."""
    start = 0
    for chunk in chunks:
        own = rows[(rows >= start) & (rows < start + len(chunk))]
        if len(own):
            written = CountedMatches(chunk.take(own - start)).texts().to_pylist()
            texts.update(zip(own.tolist(), written, strict=True))
        start += len(chunk)


def event_rows(chunk: MatchChunk) -> list[npt.NDArray[np.int64]]:
    """The table's rows of the events of all matches."""
    columns = chunk.aliases().values()
    return [np.asarray(c.rows if isinstance(c, EventGroups) else c) for c in columns]


def moment_numbers(
    columns: Sequence[npt.NDArray[np.int64]], events: Events
) -> npt.NDArray[np.uint32]:
    """For each row of the table that is used, the number of its moment, from 1 on."""
    used = np.unique(np.concatenate(columns))
    sequence = np.zeros(len(used), np.int64) if events.sequence is None else events.sequence[used]
    ticks = events.ticks[used]
    order = np.lexsort((sequence, ticks))
    changes = np.ones(len(used), np.uint32)
    changes[1:] = (np.diff(ticks[order]) != 0) | (np.diff(sequence[order]) != 0)
    found = np.zeros(len(events), np.uint32)
    found[used[order]] = np.cumsum(changes)
    return found


def match_places(
    chunk: MatchChunk, aliases: Sequence[str], moments: npt.NDArray[np.uint32]
) -> pa.Array:
    """Each match as bytes that compare as lists of moments do, component by component.

    A component's moments, the first byte first, end with a zero, which is before all of them.
    """
    columns = chunk.aliases()
    lengths = np.full(len(chunk), len(aliases), np.int64)
    for alias in aliases:
        column = columns.get(alias)
        if column is not None:
            lengths += column.sizes if isinstance(column, EventGroups) else 1
    offsets = np.append(0, np.cumsum(lengths))
    found = np.zeros(int(offsets[-1]), ">u4")
    ends = offsets[:-1].copy()
    for alias in aliases:
        column = columns.get(alias)
        if isinstance(column, EventGroups):
            sizes = np.asarray(column.sizes)
            inside = np.arange(len(column.rows)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
            found[np.repeat(ends, sizes) + inside] = moments[column.rows]
            ends += sizes
        elif column is not None:
            found[ends] = moments[column]
            ends += 1
        ends += 1
    buffers = [None, pa.py_buffer((4 * offsets).astype(np.int64)), pa.py_buffer(found.tobytes())]
    return pa.Array.from_buffers(pa.large_binary(), len(chunk), buffers)
