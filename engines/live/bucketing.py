"""Which bucket an event's key is in: the same in every process, for as long as a state is kept.

Equal keys are in one bucket; nothing else is asked of the numbers, but that they spread. They must
never change: a saved state is of the keys of its bucket.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as at

from engines.events import Events

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
