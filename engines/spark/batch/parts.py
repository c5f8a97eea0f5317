"""Parts of a shuffled stream: a bucket of keys, or a stretch of time of one key or of all events.

Every event goes to the parts that depend on it: to the bucket of its key, once for each way of
keying that the queries need. A key that has far more events than a bucket should is cut by time
instead; so are queries without a key. Windows counted in events cannot be cut by time: for those,
such a key, or the whole stream, is one part, worked through slice by slice.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as at

from engines.input.event_table import Events, from_table
from engines.local.run import reach_of_program
from engines.local.slices import SliceReach
from engines.program import Program
from engines.spark.batch.pushed_filters import PushedFilter, filter_for
from engines.spark.batch.stretches import bounds, cuts_between, stretches_for
from optimizer.ir.query import Query

if TYPE_CHECKING:
    from pyspark.sql import Column

Key = tuple[str, ...]

HEAVY = 2.0  # times as many events as a bucket should have


@dataclass(frozen=True)
class TaskPart:
    """What a task evaluates: a program over the rows decided from `start` to before `stop`."""

    program: int
    start: int | None = None
    stop: int | None = None


@dataclass(frozen=True)
class Cut:
    """Events of one key, or all: stretches of time, and perhaps one part for all times.

    Parts are numbered from `first` in the order of time; `whole` is the other part.
    """

    key: tuple[Any, ...]
    first: int
    cuts: tuple[int, ...] | None  # None: no query of a window in time
    reach: SliceReach
    whole: int | None


@dataclass(frozen=True)
class Route:
    """Where the events of one way of keying go: those of some keys by time, others by bucket."""

    key: Key
    cuts: tuple[Cut, ...]
    first: int
    buckets: int
    filter: PushedFilter | None


@dataclass(frozen=True)
class RoutedParts:
    """All routes of a program, and what runs where they lead."""

    routes: tuple[Route, ...]
    programs: tuple[Program, ...]
    parts: tuple[TaskPart, ...]


@dataclass(frozen=True)
class Spread:
    """What decides on parts: the cores, buckets for each key, and from how many rows on it pays."""

    cores: int
    buckets: int
    least_rows: int = 50_000


def plan_routes(queries: tuple[Query, ...]) -> dict[Key, tuple[Query, ...]]:
    """Queries by the key that their events are spread by.

    `user` also serves queries keyed by `user, item`: the engine tells the finer keys apart.
    """
    keys = sorted({frozenset(query.key) for query in queries}, key=lambda k: (len(k), sorted(k)))
    chosen: list[frozenset[str]] = []
    for key in keys:
        if not any(other and other <= key for other in chosen):
            chosen.append(key)
    routes: dict[Key, tuple[Query, ...]] = {}
    for query in queries:
        wanted = frozenset(query.key)
        key = next(k for k in chosen if k == wanted or (k and k <= wanted))
        name = tuple(sorted(key))
        routes[name] = (*routes.get(name, ()), query)
    return routes


def plan_parts(
    program: Program, schema: pa.Schema, sample: pa.Table, rows: int, spread: Spread
) -> RoutedParts:
    """Parts for a stream of about so many rows, of which some are known."""
    workload = program.workload
    events = from_table(sample, replace(workload.stream, type=None))
    routes: list[Route] = []
    programs: list[Program] = []
    parts: list[TaskPart] = []

    def cut(key: tuple[Any, ...], mine: Events, share: float, timed: int, ranked: int) -> Cut:
        """Parts for events that go by time; `timed` and `ranked` are programs, or -1."""
        first = len(parts)
        reach = SliceReach()
        cuts: tuple[int, ...] | None = None
        if timed >= 0:
            reach = reach_of_program(programs[timed], events.tick)
            span = int(mine.ticks[-1] - mine.ticks[0]) + 1 if len(mine) else 1
            most = min(int(share * rows / spread.least_rows), 4 * spread.cores)
            cuts = cuts_between(mine.ticks, stretches_for(span, reach, spread.cores, most))
            parts.extend(TaskPart(timed, start, stop) for start, stop in bounds(cuts))
        whole = None
        if ranked >= 0:
            whole = len(parts)
            parts.append(TaskPart(ranked))
        return Cut(key, first, cuts, reach, whole)

    for key, queries in plan_routes(workload.queries).items():
        all_of = _added(programs, program, queries)
        timed = _added(programs, program, [q for q in queries if not q.window.is_count])
        ranked = _added(programs, program, [q for q in queries if q.window.is_count])
        found: list[Cut] = []
        if key:
            for value, share in _heavy(events, key, rows, spread):
                mine = _with_key(events, key, value)
                found.append(cut(value, mine, share, timed, ranked))
        else:
            found.append(cut((), events, 1.0, timed, ranked))
        buckets = spread.buckets if key else 0
        first = len(parts)
        parts.extend([TaskPart(all_of)] * buckets)
        passing = filter_for(queries, workload.stream, schema)
        routes.append(Route(key, tuple(found), first, buckets, passing))
    return RoutedParts(tuple(routes), tuple(programs), tuple(parts))


def _added(programs: list[Program], program: Program, queries: Sequence[Query]) -> int:
    """The number of the program that has only these queries; -1 for none."""
    if not queries:
        return -1
    wanted = program.of_queries(query.name for query in queries)
    for number, known in enumerate(programs):
        if known.workload.queries == wanted.workload.queries:
            return number
    programs.append(wanted)
    return len(programs) - 1


def _heavy(
    events: Events, key: Key, rows: int, spread: Spread
) -> list[tuple[tuple[Any, ...], float]]:
    """Keys that have far more events than a bucket should, and their share of all events."""
    columns = [events.column(name) for name in key]
    if not len(events) or not all(_is_compared_alike(column.type) for column in columns):
        return []
    table = pa.table(columns, [f"k{i}" for i in range(len(key))]).drop_null()
    counts = table.group_by(table.column_names).aggregate([([], "count_all")])
    least = HEAVY * len(events) / spread.buckets
    counts = counts.filter(pc.greater(counts.column("count_all"), least))
    found = []
    for row in counts.sort_by([("count_all", "descending")]).to_pylist():
        share = row.pop("count_all") / len(events)
        if share * rows > spread.least_rows:
            found.append((tuple(row.values()), share))
    return found


def _is_compared_alike(kind: pa.DataType) -> bool:
    """Do Spark and the engine agree on which values of a type are the same?"""
    return bool(at.is_string(kind) or at.is_signed_integer(kind) or at.is_boolean(kind))


def _with_key(events: Events, key: Key, value: tuple[Any, ...]) -> Events:
    """The events of one key, of which only times matter."""
    masks = [pc.equal(events.column(n), v) for n, v in zip(key, value, strict=True)]
    keep = np.asarray(pc.fill_null(reduce(pc.and_, masks), False))
    return replace(
        events, table=events.table.filter(pa.array(keep)), ticks=events.ticks[keep], sequence=None
    )


# --- in Spark ------------------------------------------------------------------------------------


def targets(
    parts: RoutedParts, places: dict[str, str], time: Column
) -> tuple[Column | None, Column]:
    """Which events go anywhere, and the numbers of the parts that each goes to, as an array."""
    from pyspark.sql import functions as sf

    found: list[Column] = []
    passing: list[Column] | None = []
    nowhere = sf.array().cast("array<int>")
    for route in parts.routes:
        here = _route_targets(route, places, time)
        conditions = [sf.col(places[name]).isNotNull() for name in route.key]
        if route.filter is not None:
            conditions.append(route.filter.column(places))
        if not conditions:
            passing = None
            found.append(here)
            continue
        held = reduce(lambda a, b: a & b, conditions)
        found.append(sf.when(held, here).otherwise(nowhere))
        if passing is not None:
            passing.append(held)
    kept = reduce(lambda a, b: a | b, passing) if passing else None
    return kept, found[0] if len(found) == 1 else sf.concat(*found)


def bucket_of(parts: RoutedParts, places: dict[str, str]) -> Column | None:
    """The number of the one part that an event goes to, where that is by its key alone."""
    if len(parts.routes) != 1 or parts.routes[0].cuts:
        return None
    return _bucket(parts.routes[0], places)


def _bucket(route: Route, places: dict[str, str]) -> Column:
    from pyspark.sql import functions as sf

    columns = [sf.col(places[name]) for name in route.key]
    bucket = sf.pmod(sf.xxhash64(*columns), sf.lit(route.buckets)).cast("int")
    return sf.lit(route.first) + bucket


def _route_targets(route: Route, places: dict[str, str], time: Column) -> Column:
    from pyspark.sql import functions as sf

    columns = [sf.col(places[name]) for name in route.key]
    if not columns:
        return _cut_targets(route.cuts[0], time)
    found = sf.array(_bucket(route, places))
    for cut in reversed(route.cuts):
        same = reduce(
            lambda a, b: a & b, (c == sf.lit(v) for c, v in zip(columns, cut.key, strict=True))
        )
        found = sf.when(same, _cut_targets(cut, time)).otherwise(found)
    return found


def _cut_targets(cut: Cut, time: Column) -> Column:
    """The stretches that an event is in, or that reach it."""
    from pyspark.sql import functions as sf

    found: list[Column] = []
    if cut.cuts is not None:

        def stretch(at: Column) -> Column:
            passed = [(at >= sf.lit(edge)).cast("int") for edge in cut.cuts or ()]
            return reduce(lambda a, b: a + b, passed, sf.lit(cut.first))

        # The stretch from s reaches back to events after s - back, and the one up to s ahead to
        # those before s + ahead.
        first, last = stretch(time - cut.reach.ahead), stretch(time + (cut.reach.back - 1))
        found.append(sf.sequence(first, last) if cut.cuts else sf.array(first))
    if cut.whole is not None:
        found.append(sf.array(sf.lit(cut.whole)))
    return found[0] if len(found) == 1 else sf.concat(*found)
