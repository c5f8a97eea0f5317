"""`SUPPRESS` and `KEEP`: of all matches of a query only some, by the order in which they come."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from engines.account import Account
from engines.columns.layout import Rows
from engines.input.event_table import Events
from engines.results.chunks import MatchChunk, RowChunk
from engines.results.counted_matches import CountedMatches
from engines.results.tables import ranked_codes
from optimizer.ir.query import Construction, Query, picks_matches, whole_ticks


def picked_matches(
    chunks: Iterator[RowChunk],
    queries: Sequence[Query],
    events: Events,
    account: Account,
    outputs: Mapping[str, str],
) -> Iterator[RowChunk]:
    """The rows of all events; those of queries that give only some of their matches come last.

    `outputs` are the operators that this is charged to, and whose rows it makes fewer.
    """
    picking = {query.name: query for query in queries if picks_matches(query)}
    held: dict[str, list[MatchChunk]] = {}
    for chunk in chunks:
        if chunk.query in picking and isinstance(chunk, MatchChunk):
            held.setdefault(chunk.query, []).append(chunk)
        else:
            yield chunk
    for name, found in held.items():
        with account.charge(outputs[name]):
            given = _picked([CountedMatches(chunk) for chunk in found if len(chunk)], events)
        account.count(outputs[name], 0, sum(map(len, given)) - sum(map(len, found)))
        yield from given


def _picked(chunks: list[CountedMatches], events: Events) -> list[MatchChunk]:
    """The matches of a query that are given, of all that it has."""
    if not chunks:
        return []
    output = chunks[0].of.output
    assert isinstance(output, Construction)
    times = np.concatenate([chunk.times()[2] for chunk in chunks])
    order = _order(chunks, times, events)
    left_out = np.zeros(len(times), np.int64)
    if output.suppress is not None:
        keys = ranked_codes(pa.chunked_array([chunk.keys() for chunk in chunks]))[1]
        width = whole_ticks(output.suppress, events.tick, "time of SUPPRESS")
        order = not_suppressed(order, keys.astype(np.int64), times, width, left_out)
    for kept in output.keep:
        order = order[: kept.number] if kept.end == "first" else order[-kept.number :]
    wanted = np.zeros(len(times), bool)
    wanted[order] = True
    given: list[MatchChunk] = []
    start = 0
    for chunk in chunks:
        mine = slice(start, start + len(chunk))
        start += len(chunk)
        if wanted[mine].any():
            given.append(chunk.counted(left_out[mine]).take(np.flatnonzero(wanted[mine])))
    return given


def _order(chunks: list[CountedMatches], times: Rows, events: Events) -> Rows:
    """By the time at which they are given, then their last event, then what is written of them."""
    last = np.concatenate([chunk.last_rows() for chunk in chunks])
    columns: dict[str, npt.NDArray[np.int64] | pa.ChunkedArray] = {
        "time": times,
        "last": events.ticks[last],
    }
    if events.sequence is not None:
        columns["sequence"] = events.sequence[last]
    columns["text"] = pa.chunked_array([chunk.texts().cast(pa.large_string()) for chunk in chunks])
    table = pa.table(columns)
    found = pc.sort_indices(table, sort_keys=[(name, "ascending") for name in columns])
    order: Rows = found.to_numpy().astype(np.int64)
    return order


def not_suppressed(order: Rows, keys: Rows, times: Rows, width: int, left_out: Rows) -> Rows:
    """Of matches in order those that come `width` or more behind the last one given of their key,
    or are the first.

    The numbers of those that are left out behind each are added to its `left_out`.
    """
    by_key = order[np.argsort(keys[order], kind="stable")]
    starts = np.flatnonzero(np.append(True, np.diff(keys[by_key]) != 0)[: len(by_key)])
    ends = np.append(starts[1:], len(by_key))
    chosen = np.zeros(len(times), bool)
    chosen[by_key[starts]] = True
    several = ends - starts > 1
    for start, end in zip(starts[several].tolist(), ends[several].tolist(), strict=True):
        own = times[by_key[start:end]]
        at = 0
        while at < len(own):
            behind = int(np.searchsorted(own, own[at] + width, "left"))
            first = by_key[start + at]
            chosen[first] = True
            left_out[first] += behind - at - 1
            at = behind
    return order[chosen[order]]
