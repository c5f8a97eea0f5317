"""The times that queries need of a table: asked of Spark first, and pushed to its scan then.

A table has no footers that this process could read. But where events of a symbol are, Spark can be
asked, by what their conditions say of columns. A match has an event of each of its symbols, and all
that its rows depend on lies less than a window from any of these. So only those times are read:
Parquet's files, row groups and pages are skipped by their own statistics of the time.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from engines.access.blocks import ALWAYS, Int64s
from engines.access.chains import Spots, chained
from engines.access.forced_probes import forced_names, named_symbols
from engines.execution import Access
from engines.spark.batch.packing import ticks
from engines.spark.batch.pushed_filters import PushedFilter, filter_of
from optimizer.access.anchors import NeededEvents, NotIndexedError, needed_events
from optimizer.ir.pattern import Symbol
from optimizer.ir.query import BoundWorkload
from workloads.workload import NANOSECONDS, Stream

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

MOST_RANGES = 64  # that are pushed; more are made longer
MOST_ENTRIES = 1_000_000  # that come to the driver
MOST_SYMBOLS = 62  # that are asked for: a bit each
MICROSECONDS = 1_000  # nanoseconds

Range = tuple[int, int]  # the first and the last tick


@dataclass(frozen=True)
class TableRanges:
    """The ranges of times that are read of a table, or why all of it is."""

    ranges: tuple[Range, ...] | None
    why: str


def table_ranges(
    events: DataFrame, schema: pa.Schema, workload: BoundWorkload, wanted: Access
) -> TableRanges:
    """The times that a workload needs of a table's events; `schema` is that of what arrives."""
    stream = workload.stream
    kind = schema.field(stream.time).type
    if stream.format is not None or not _has_literals(kind):
        return TableRanges(None, f"times of type {kind} cannot be told to Spark's scan")
    try:
        needs = [needed_events(query) for query in workload.queries]
    except NotIndexedError as error:
        return TableRanges(None, f"a query needs all events: {error}")
    names = forced_names(wanted)
    only = None
    if names is not None:
        only = set().union(*(named_symbols(name, needs) for name in names))
    filters = _filters(needs, stream, schema, only)
    for needed in needs:
        for reading in needed.readings:
            if not any(symbol in filters for stage in reading for symbol in stage):
                why = "its conditions say nothing of single columns that Spark could look for"
                return TableRanges(None, f"query {needed.query} needs all events: {why}")
    spots = _probed(events, filters, stream, kind)
    if spots is None:
        why = f"more than {MOST_ENTRIES:,} events meet the conditions of single components"
        return TableRanges(None, why)
    tick = _tick(kind, stream)
    step = 1 if stream.sequence is None else 0
    found = [each for needed in needs for each in _ranges_of(needed, spots, tick, step)]
    ranges = coarsened(merged(found))
    entries = sum(len(each) for each in spots.values())
    why = f"{entries:,} events meet conditions, and {len(ranges):,} ranges of time can matter"
    return TableRanges(tuple(ranges), why)


def _filters(
    needs: Iterable[NeededEvents],
    stream: Stream,
    schema: pa.Schema,
    only: Collection[Symbol] | None,
) -> dict[Symbol, PushedFilter]:
    """By symbol what Spark is asked for, where that is more than the type."""
    found = {}
    chains = (reading for needed in needs for reading in needed.readings)
    for symbol in dict.fromkeys(s for reading in chains for stage in reading for s in stage):
        if only is not None and symbol not in only:
            continue
        tests = filter_of(symbol, stream, schema)
        if tests is not None and all(
            any(test.column != stream.type for test in each) for each in tests.alternatives
        ):
            found[symbol] = tests
    return dict(list(found.items())[:MOST_SYMBOLS])


def _probed(
    events: DataFrame, filters: Mapping[Symbol, PushedFilter], stream: Stream, kind: pa.DataType
) -> dict[Symbol, Int64s] | None:
    """The times of the events that pass each filter; None where they are too many."""
    from pyspark.sql import functions as sf

    places = {name: "`" + name.replace("`", "``") + "`" for name in events.columns}
    tests = [each.column(places) for each in filters.values()]
    bits = reduce(
        lambda a, b: a + b,
        (sf.when(test, sf.lit(1 << n)).otherwise(sf.lit(0)) for n, test in enumerate(tests)),
    )
    time = sf.col(places[stream.time])
    tick = ticks(time, kind, events.schema[stream.time].dataType.simpleString())
    passing = events.where(reduce(lambda a, b: a | b, tests))
    chosen = passing.select(tick.cast("bigint").alias("tick"), bits.cast("bigint").alias("bits"))
    table = chosen.limit(MOST_ENTRIES + 1).toArrow()
    if len(table) > MOST_ENTRIES:
        return None
    at, has = (table.column(name).to_numpy().astype(np.int64) for name in ("tick", "bits"))
    return {symbol: np.sort(at[(has >> number) & 1 == 1]) for number, symbol in enumerate(filters)}


def _ranges_of(
    needed: NeededEvents, spots: Mapping[Symbol, Int64s], tick: int, step: int
) -> Iterable[Range]:
    """Less than a window around the events of one symbol of each reading, those in chains."""
    window = min(-(-needed.window // tick), ALWAYS)
    anywhere = Spots(np.array([-ALWAYS]), np.array([ALWAYS]))
    for reading in needed.readings:
        stages = [
            [Spots(spots[s], spots[s]) if s in spots else anywhere for s in stage]
            for stage in reading
        ]
        masks = chained(stages, window, step)
        hits = [
            each.low[mask]
            for stage, own, symbols in zip(stages, masks, reading, strict=True)
            for each, mask, symbol in zip(stage, own, symbols, strict=True)
            if symbol in spots
        ]
        fewest = min(hits, key=len)
        low, high = fewest - (window - 1), fewest + (window - 1)
        yield from zip(low.tolist(), high.tolist(), strict=True)


def merged(ranges: Iterable[Range]) -> list[Range]:
    """Ranges in order, of which no two touch."""
    found: list[Range] = []
    for low, high in sorted(ranges):
        if found and low <= found[-1][1] + 1:
            found[-1] = (found[-1][0], max(found[-1][1], high))
        else:
            found.append((low, high))
    return found


def coarsened(ranges: Sequence[Range], most: int = MOST_RANGES) -> list[Range]:
    """At most so many ranges: those with the least between them become one."""
    if len(ranges) <= most:
        return list(ranges)
    gaps = np.array([b[0] - a[1] for a, b in pairwise(ranges)], object)
    order = np.argsort(gaps, kind="stable")
    kept = np.sort(order[len(gaps) - (most - 1) :]).tolist()  # the widest gaps
    starts, ends = [0, *(gap + 1 for gap in kept)], [*kept, len(ranges) - 1]
    return [(ranges[a][0], ranges[b][1]) for a, b in zip(starts, ends, strict=True)]


def in_ranges(ranges: Sequence[Range], time: Column, kind: pa.DataType, spark_kind: str) -> Column:
    """Whether a time is in one of the ranges, in words that Spark pushes down to files."""
    from pyspark.sql import functions as sf

    def literal(tick: int) -> Column:
        if pa.types.is_date(kind):
            return sf.date_from_unix_date(sf.lit(tick))
        if pa.types.is_timestamp(kind):
            moment = sf.timestamp_micros(sf.lit(tick))
            return moment.cast(spark_kind)  # the session's zone is UTC
        return sf.lit(tick).cast(spark_kind)

    least, greatest = _limits(kind)
    inside: list[Column] = [
        (time >= literal(max(low, least))) & (time <= literal(min(high, greatest)))
        for low, high in ranges
        if low <= greatest and high >= least
    ]
    return reduce(lambda a, b: a | b, inside) if inside else sf.lit(False)


def _has_literals(kind: pa.DataType) -> bool:
    if pa.types.is_timestamp(kind):
        return bool(kind.unit == "us")
    return bool(pa.types.is_signed_integer(kind) or pa.types.is_date32(kind))


def _limits(kind: pa.DataType) -> Range:
    """The ticks that a time of such a type can have."""
    if pa.types.is_date(kind):
        return -719_162, 2_932_896  # of the years 1 to 9999
    if pa.types.is_timestamp(kind):
        return -62_135_596_800 * 10**6, 253_402_300_800 * 10**6 - 1
    half = 1 << (kind.bit_width - 1)
    return -half, half - 1


def _tick(kind: pa.DataType, stream: Stream) -> int:
    """Nanoseconds in a tick."""
    if pa.types.is_date(kind):
        return 86_400 * 10**9
    return MICROSECONDS if pa.types.is_timestamp(kind) else NANOSECONDS[stream.unit]
