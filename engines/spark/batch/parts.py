"""Parts of a shuffled stream: a bucket of keys, or a stretch of time of one key or of all events.

Every event goes to the parts that depend on it: to the bucket of its key, once for each way of
keying that the queries need. A key that has far more events than a bucket should is cut by time
instead; so are queries without a key. Windows counted in events cannot be cut by time: for those,
such a key, or the whole stream, is one part, worked through slice by slice. So it is for situations
of such a key, as events of any time before tell whether one has begun. Without a key, situations
are cut by time, and each stretch is given, beside the events of a window before it, the last moment
before that of each definition's events, which is found first.
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
from engines.local.slices import SliceReach, reach_of
from engines.program import Program
from engines.spark.batch.pushed_filters import ColumnTest, PushedFilter, filter_for
from engines.spark.batch.stretches import bounds, cuts_between, stretches_for
from optimizer.engines.situations import definitions_of
from optimizer.ir.pattern import Symbol
from optimizer.ir.produced import chained_names, names_cut_by_time, routing_keys
from optimizer.ir.query import Query, RowPattern, is_about_situations
from workloads import expressions as ex
from workloads.workload import Stream

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

Key = tuple[str, ...]

HEAVY = 2.0  # times as many events as a bucket should have


@dataclass(frozen=True)
class TaskPart:
    """What a task evaluates: a program over the rows decided from `start` to before `stop`."""

    program: int
    start: int | None = None
    stop: int | None = None


LastMoments = tuple[tuple[int, PushedFilter | None], ...]  # times, and which of their events


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
    members: tuple[PushedFilter | None, ...] = ()  # of situations: whose last moments are asked for
    moments: tuple[LastMoments, ...] = ()  # of each stretch but the first


@dataclass(frozen=True)
class Route:
    """Where the events of one way of keying go: those of some keys by time, others by bucket.

    An event without a key goes nowhere, but for queries to which null is one (`null_is_key`).
    """

    key: Key
    cuts: tuple[Cut, ...]
    first: int
    buckets: int
    filter: PushedFilter | None
    null_is_key: bool = False


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

    `user` also serves queries keyed by `user, item`: the engine tells the finer keys apart. Queries
    that read one another's rows go by what their keys have in common.
    """
    by_query = routing_keys(queries)
    keys = sorted(set(by_query.values()), key=lambda k: (len(k), sorted(k)))
    chosen: list[frozenset[str]] = []
    for key in keys:
        if not any(other and other <= key for other in chosen):
            chosen.append(key)
    routes: dict[Key, tuple[Query, ...]] = {}
    for query in queries:
        wanted = by_query[query.name]
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

    def cut(
        key: tuple[Any, ...],
        mine: Events,
        share: float,
        timed: int,
        ranked: int,
        reach: SliceReach | None = None,
    ) -> Cut:
        """Parts for events that go by time; `timed` and `ranked` are programs, or -1."""
        first = len(parts)
        cuts: tuple[int, ...] | None = None
        if timed < 0:
            reach = SliceReach()
        else:
            reach = reach or reach_of_program(programs[timed], events.tick)
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
        situated: list[Query] = []
        members: tuple[PushedFilter | None, ...] | None = None
        if not key:
            chained = chained_names(workload.queries)
            situated = [q for q in queries if is_about_situations(q) and q.name not in chained]
            members = _member_filters(situated, workload.stream, schema)
        if situated and members is not None:
            number = _added(programs, program, situated)
            back = reach_of(situated, events.tick)
            own = cut((), events, 1.0, number, -1, back)
            passing = filter_for(situated, workload.stream, schema)
            own = replace(own, members=members)
            routes.append(Route((), (own,), len(parts), 0, passing))
            apart = {query.name for query in situated}
            queries = tuple(query for query in queries if query.name not in apart)
            if not queries:
                continue
        all_of = _added(programs, program, queries)
        cut_by_time = names_cut_by_time(queries)
        timed = _added(programs, program, [q for q in queries if q.name in cut_by_time])
        ranked = _added(programs, program, [q for q in queries if q.name not in cut_by_time])
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
        nulls = any(isinstance(query.output, RowPattern) for query in queries)
        routes.append(Route(key, tuple(found), first, buckets, passing, nulls))
    return RoutedParts(tuple(routes), tuple(programs), tuple(parts))


def _member_filters(
    queries: Sequence[Query], stream: Stream, schema: pa.Schema
) -> tuple[PushedFilter | None, ...] | None:
    """The events that each definition of queries is asked of, None for all of them; None where
    Spark cannot tell them.
    """
    found: dict[Symbol, PushedFilter | None] = {}
    for definition in definitions_of(queries):
        name = definition.member.type
        condition = stream.types.get(name)
        if condition == ex.Literal(True):
            found[definition.member] = None
        elif condition is None and stream.type is not None:
            kind = schema.field(stream.type).type
            if not (at.is_string(kind) or at.is_large_string(kind)):
                return None
            test = ColumnTest(stream.type, "in", (name,))
            found[definition.member] = PushedFilter((frozenset({test}),))
        else:
            return None
    return tuple(found.values())


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


def with_last_moments(
    events: DataFrame, parts: RoutedParts, places: dict[str, str], time: Column
) -> RoutedParts:
    """The parts with the last moments that stretches of situations need: one pass finds them all.

    Of each definition the last event before a stretch's reach tells whether what holds there has
    begun before.
    """
    from pyspark.sql import functions as sf

    asked: dict[str, Column] = {}
    for r, route in enumerate(parts.routes):
        for c, cut in enumerate(route.cuts):
            for m, member in enumerate(cut.members):
                for i, edge in enumerate(cut.cuts or ()):
                    before = time <= sf.lit(edge - cut.reach.back)
                    if member is not None:
                        before = before & member.column(places)
                    asked[f"m{r}_{c}_{m}_{i}"] = sf.max(sf.when(before, time))
    if not asked:
        return parts
    row = events.agg(*(column.alias(name) for name, column in asked.items())).first()
    known = {} if row is None else row.asDict()
    routes = []
    for r, route in enumerate(parts.routes):
        cuts = []
        for c, cut in enumerate(route.cuts):
            moments = []
            for i in range(len(cut.cuts or ()) if cut.members else 0):
                ticks = [known.get(f"m{r}_{c}_{m}_{i}") for m in range(len(cut.members))]
                pairs = zip(ticks, cut.members, strict=True)
                moments.append(tuple((int(t), member) for t, member in pairs if t is not None))
            cuts.append(replace(cut, moments=tuple(moments)))
        routes.append(replace(route, cuts=tuple(cuts)))
    return replace(parts, routes=tuple(routes))


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
        required = () if route.null_is_key else route.key
        conditions = [sf.col(places[name]).isNotNull() for name in required]
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
        return _cut_targets(route.cuts[0], places, time)
    found = sf.array(_bucket(route, places))
    for cut in reversed(route.cuts):
        same = reduce(
            lambda a, b: a & b,
            (c.eqNullSafe(sf.lit(v)) for c, v in zip(columns, cut.key, strict=True)),
        )
        found = sf.when(same, _cut_targets(cut, places, time)).otherwise(found)
    return found


def _cut_targets(cut: Cut, places: dict[str, str], time: Column) -> Column:
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
    for number, moments in enumerate(cut.moments, cut.first + 1):
        if moments:
            held = [
                (time == sf.lit(tick)) & (sf.lit(True) if of is None else of.column(places))
                for tick, of in moments
            ]
            held_by_one = sf.coalesce(reduce(lambda a, b: a | b, held), sf.lit(False))
            nothing = sf.array().cast("array<int>")
            found.append(sf.when(held_by_one, sf.array(sf.lit(number))).otherwise(nothing))
    if cut.whole is not None:
        found.append(sf.array(sf.lit(cut.whole)))
    return found[0] if len(found) == 1 else sf.concat(*found)
