"""A bucket of keys: the events that wait in it, and the state of its queries."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as at

from engines.input.event_table import Events, from_table
from engines.live.run import Generation, LiveGenerations, StateSize
from engines.live.state_bytes import digest_of, from_bytes, joined, parted, to_bytes
from engines.local.slices import between
from engines.program import DEFAULT_OPTIONS, RunContext, RunOptions
from engines.results.tables import Results, empty_results

HOME = "\0home"  # a column of events that arrive: is this the bucket that answers for the event?

UInt64s = npt.NDArray[np.uint64]

_PRIME = np.uint64(0x100000001B3)  # FNV's, as the base of a polynomial over a text's bytes
_SHIFTS = ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB))  # the finalizer of splitmix64


def buckets_of(events: Events, key: Sequence[str], number: int) -> npt.NDArray[np.int64]:
    """The bucket of each event, and -1 where the key has a null; without a key there is one."""
    if not key:
        return np.zeros(len(events), np.int64)
    mixed = np.zeros(len(events), np.uint64)
    null = np.zeros(len(events), bool)
    for name in key:
        column = events.column(name)
        null |= np.asarray(pc.is_null(column))
        mixed = _mix(mixed * _PRIME + _numbers(column))
    return np.where(null, -1, (mixed % np.uint64(number)).astype(np.int64))


def _numbers(column: pa.ChunkedArray) -> UInt64s:
    """A number for each value, the same for equal ones; that of a null does not matter."""
    kind = column.type
    if at.is_string(kind) or at.is_large_string(kind) or at.is_binary(kind):
        coded = pa.chunked_array(column).combine_chunks().dictionary_encode()
        texts = _text_numbers(coded.dictionary)
        if not len(texts):
            return np.zeros(len(coded), np.uint64)
        found: UInt64s = texts[pc.fill_null(coded.indices, 0).to_numpy(zero_copy_only=False)]
        return found
    if at.is_floating(kind):
        doubles: npt.NDArray[np.float64] = pc.fill_null(column.cast(pa.float64()), 0.0).to_numpy()
        return (doubles + 0.0).view(np.uint64)  # -0.0 + 0.0 is 0.0
    if at.is_date32(kind) or at.is_time32(kind):
        column = column.cast(pa.int32())
    integers: npt.NDArray[np.int64] = pc.fill_null(column.cast(pa.int64()), 0).to_numpy()
    return integers.view(np.uint64)


def _text_numbers(texts: pa.Array) -> UInt64s:
    """Each text as a polynomial of its bytes."""
    array = texts.cast(pa.large_binary())
    offsets = np.frombuffer(array.buffers()[1], np.int64)[array.offset :][: len(array) + 1]
    if array.buffers()[2] is None:
        return np.zeros(len(array), np.uint64)
    content = np.frombuffer(array.buffers()[2], np.uint8)[: offsets[-1]]
    lengths = np.diff(offsets)
    powers = np.full(int(lengths.max(initial=0)) + 1, _PRIME, np.uint64)
    powers[0] = 1
    powers = np.multiply.accumulate(powers)
    place = np.arange(len(content)) - np.repeat(offsets[:-1], lengths)
    # One more than each byte, so that texts that end in zero bytes differ from shorter ones.
    terms = (content.astype(np.uint64) + np.uint64(1)) * powers[place]
    sums = np.concatenate([[np.uint64(0)], np.cumsum(terms, dtype=np.uint64)])
    return _mix(sums[offsets[1:]] - sums[offsets[:-1]])


def _mix(values: UInt64s) -> UInt64s:
    for shift, factor in _SHIFTS:
        values = (values ^ (values >> np.uint64(shift))) * np.uint64(factor)
    return values ^ (values >> np.uint64(31))


_Version = tuple[int | None, tuple[tuple[str, bytes], ...]]  # a time, and digests by generation
REMEMBERED = 256 * 2**20  # bytes of states that are remembered beside being saved


class _Memory:
    """What buckets held at the end of their last turns here, for as long as nothing else happens.

    A cache: what it has of a bucket is right only if the saved state is still the same, which its
    time and a digest tell. A turn that is run again, or was run elsewhere meanwhile, finds another.
    """

    def __init__(self) -> None:
        self._held: dict[Hashable, tuple[_Version, int, dict[str, Any]]] = {}
        self._bytes = 0

    def take(self, place: Hashable, version: _Version) -> dict[str, Any] | None:
        """What is remembered of a bucket with this version of its state, once."""
        if place not in self._held:
            return None
        known, size, memory = self._held.pop(place)
        self._bytes -= size
        return memory if known == version else None

    def put(self, place: Hashable, version: _Version, size: int, memory: dict[str, Any]) -> None:
        """Remember what a state is read as, which takes so many bytes."""
        self._held[place] = (version, size, memory)
        self._bytes += size
        while self._bytes > REMEMBERED:  # what was used longest ago comes first
            _, size, _ = self._held.pop(next(iter(self._held)))
            self._bytes -= size


_OWN = ""  # the part of a state that is no generation's


@dataclass(frozen=True)
class Turn:
    """What comes of a turn.

    `taken` is how many events the queries were given, and `waiting` how many are not yet theirs.
    `late` are events whose time had passed before they came. `state` is None where nothing is held.
    `due` is the first time that gives rows, or lets go of state, though nothing more arrives.
    """

    results: Results
    late: pa.Table
    taken: int
    waiting: int
    held: Mapping[str, StateSize]
    state: bytes | None
    due: int | None


@dataclass(frozen=True)
class _BucketState:
    """What a bucket holds: events that wait, and the state of the queries up to a time."""

    waiting: pa.Table
    until: int | None = None
    live: Mapping[str, bytes | memoryview] = field(default_factory=dict)  # by generation
    due: int | None = None
    held: Mapping[str, StateSize] = field(default_factory=dict)

    @property
    def version(self) -> _Version:
        """What tells it from what the bucket held at other times."""
        return self.until, tuple((name, digest_of(part)) for name, part in self.live.items())


class Bucket:
    """Takes turns for any number of buckets with the same queries, each with its own state.

    `schema` has the columns that arrive, in types that `from_table` leaves as they are.
    """

    def __init__(
        self,
        generations: Mapping[str, Generation],
        schema: pa.Schema,
        tick: int,
        options: RunOptions = DEFAULT_OPTIONS,
    ) -> None:
        first = next(iter(generations.values()))
        self._stream, self._schema = first.program.workload.stream, schema
        self._live = LiveGenerations(generations, tick, options)
        self._time_type = self._events(schema.empty_table()).time_type
        self._memory = _Memory()

    @property
    def context(self) -> RunContext:
        """What all turns have counted and found out."""
        return self._live.context

    @property
    def groups(self) -> dict[str, tuple[str, ...]]:
        """The queries that have one state together, by the name of the first of them."""
        return self._live.groups

    def turn(
        self,
        state: bytes | None,
        arrived: Sequence[pa.Table],
        until: int | None,
        place: Hashable = None,
    ) -> Turn:
        """All events up to the time `until` have come; None: that is known of no time yet.

        `place` is what the bucket is called, where turns here may follow each other.
        """
        before = self._read(state)
        late = self._schema.empty_table()
        waiting = before.waiting
        if arrived:
            new = self._events(pa.concat_tables(arrived))
            if until is not None:
                late = self._answered_for(between(new, None, until + 1).table)
                new = between(new, until + 1, None)
            waiting = pa.concat_tables([waiting, new.table.select(self._schema.names)])
        events, taken = self._events(waiting), 0
        found = empty_results(self._time_type)
        after = replace(before, waiting=events.table)
        if until is not None and until != before.until:
            ready, events = between(events, None, until + 1), between(events, until + 1, None)
            after = replace(after, waiting=events.table, until=until)
            taken = len(ready)
            if before.live or len(ready):
                memory = None if place is None else self._memory.take(place, before.version)
                if memory is None:
                    self._live.restore(before.live)
                else:
                    self._live.recall(memory)
                found = self._live.add(ready, until)
                live = self._live.save()
                after = replace(after, live=live, due=self._live.due, held=self._live.held)
                if place is not None:
                    size = sum(map(len, live.values())) + self._live.memory_bytes
                    self._memory.put(place, after.version, size, self._live.memory())
        state, due = _written(after), _due(after, events)
        return Turn(found, late, taken, len(events), after.held, state, due)

    def finish(self, state: bytes) -> Turn:
        """The rows that are left: no more events will come."""
        before = self._read(state)
        self._live.restore(before.live)
        left = self._events(before.waiting)
        found = self._live.add(left, None)
        return Turn(found, self._schema.empty_table(), len(left), 0, {}, None, None)

    def _events(self, table: pa.Table) -> Events:
        return from_table(table, self._stream)

    def _answered_for(self, table: pa.Table) -> pa.Table:
        if HOME in table.column_names:
            table = table.filter(table.column(HOME))
        return table.select(self._schema.names)

    def _read(self, state: bytes | None) -> _BucketState:
        if state is None:
            return _BucketState(self._schema.empty_table())
        parts = parted(state)
        tables, about = from_bytes(parts.pop(_OWN))
        none = self._schema.empty_table()
        # A column that was of no use to the queries of that time is null in what waited then.
        waiting = pa.concat_tables([none, tables["waiting"]], promote_options="default")
        return _BucketState(
            waiting.select(none.column_names),
            about["until"],
            parts,
            about["due"],
            {name: StateSize(*held) for name, held in about["held"].items()},
        )


def _written(after: _BucketState) -> bytes | None:
    if not after.live and not after.waiting.num_rows:
        return None
    about = {"until": after.until, "due": after.due, "held": dict(after.held)}
    own, _ = to_bytes({"waiting": after.waiting}, about)
    return joined({_OWN: own, **after.live})


def _due(after: _BucketState, waiting: Events) -> int | None:
    times = [] if after.due is None else [after.due]
    if len(waiting):
        times.append(int(waiting.ticks[0]))
    return min(times, default=None)
