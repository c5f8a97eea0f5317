"""`generate`: the events of a spec, in batches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa

from workloads.generators.columns import (
    BLOCK_ROWS,
    AttributeColumn,
    PhaseClock,
    TimeColumn,
    TypeColumn,
    generator,
    labelled,
    schema,
)
from workloads.generators.disorder import Block, delayed
from workloads.generators.distributions import SpecError
from workloads.generators.spec import StreamSpec


def generate(spec: StreamSpec, batch_rows: int = BLOCK_ROWS) -> Iterator[pa.RecordBatch]:
    """The stream in batches of `batch_rows` events, the last one shorter.

    The events do not depend on `batch_rows`. Memory holds a batch, a block, and with disorder the
    events of that many ticks.
    """
    if batch_rows < 1:
        raise SpecError(f"a batch has at least one row, not {batch_rows}")
    blocks = _blocks(spec)
    ordered = delayed(blocks) if spec.disorder else (events for events, _, _ in blocks)
    return _rebatched(ordered, batch_rows)


def generate_table(spec: StreamSpec) -> pa.Table:
    """The whole stream in memory."""
    return pa.Table.from_batches(generate(spec), schema(spec))


def _blocks(spec: StreamSpec) -> Iterator[Block]:
    """Blocks of events in order of time, with their times and delays.

    Every block is drawn whole and the last one cut, so that a longer stream begins with the
    shorter one.
    """
    columns = schema(spec)
    clock, types, times = PhaseClock(spec), TypeColumn(spec), TimeColumn(spec)
    attributes = [AttributeColumn(spec, name) for name in spec.attributes]
    for block, first in enumerate(range(0, spec.events, BLOCK_ROWS)):
        rows = min(BLOCK_ROWS, spec.events - first)
        phases = clock.phases(first)
        type_codes = types.draw(block, phases)
        ticks = times.draw(block, phases)
        arrays = [pa.array(ticks).cast(columns.field(0).type)]
        if spec.sequence is not None:
            arrays.append(pa.array(np.arange(first, first + BLOCK_ROWS)))
        if spec.type is not None:
            arrays.append(labelled(spec.types, type_codes))
        arrays += [attribute.draw(block, phases, type_codes) for attribute in attributes]
        events = pa.RecordBatch.from_arrays([a.slice(0, rows) for a in arrays], schema=columns)
        delays = generator(spec.seed, "delay", block).integers(0, spec.disorder + 1, BLOCK_ROWS)
        yield events, ticks[:rows], delays[:rows]


def _rebatched(blocks: Iterable[pa.RecordBatch], rows: int) -> Iterator[pa.RecordBatch]:
    """The same rows in batches of one size."""
    held: list[pa.RecordBatch] = []
    count = 0
    for block in blocks:
        offset = 0
        while offset < block.num_rows:
            piece = block.slice(offset, rows - count)
            held.append(piece)
            count += piece.num_rows
            offset += piece.num_rows
            if count == rows:
                yield pa.concat_batches(held) if len(held) > 1 else held[0]
                held, count = [], 0
    if held:
        yield pa.concat_batches(held)
