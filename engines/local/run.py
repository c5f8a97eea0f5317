"""A workload on this machine: over events in memory, and slice by slice."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain

import numpy as np
import pyarrow as pa

from engines.account import charged
from engines.columns.aggregate_inputs import why_uncountable
from engines.columns.columns import Columns
from engines.columns.layout import ArrangedEvents
from engines.counting.folds import TableOrder, keeps_table_order
from engines.counting.rows import counted_rows
from engines.input.event_table import Events, from_table
from engines.input.query_columns import needed_columns
from engines.limits import named_error, row_limit_reason
from engines.local.added_keys import by_added_keys
from engines.local.carried import CarriedGroup, RankedGroup, SituationGroup
from engines.local.chains import Chain, ChainPart, chains_in
from engines.local.clocks import clocked_groups
from engines.local.news import LITTLE, KeyedProgram, by_key, events_of_news
from engines.local.slices import Slice, SliceReach, appended, between, reach_of, rows_between
from engines.matching.aggregate.aggregates import MatchColumns, aggregate_rows
from engines.matching.compact.run import listed_matches
from engines.matching.passes.run import pass_chunks
from engines.matching.stepwise.matches import match_chunks
from engines.matching.stepwise.steps import QueryScan
from engines.matching.trees.buffers import TooWideError
from engines.matching.trees.run import UnfinishedQuery, tree_chunks
from engines.program import (
    CompactUnit,
    CountingUnit,
    PassUnit,
    Program,
    RunContext,
    StepwiseUnit,
    TreeUnit,
    Unit,
)
from engines.results.chunks import AggregateChunk, RowChunk, collected
from engines.results.first_matches import first_matches
from engines.results.json_text import KeyTexts
from engines.results.picked_matches import picked_matches
from engines.results.skipped_matches import LastEnds, matches_apart
from engines.results.tables import Results
from optimizer.engines import compact, counting_engine
from optimizer.ir.aggregates import InputColumn, aggregate_parts
from optimizer.ir.pattern import events as components
from optimizer.ir.produced import chains_of, is_chain_sliced
from optimizer.ir.query import (
    Aggregation,
    Construction,
    Query,
    is_about_situations,
    is_cut_by_time,
    is_unbounded,
    picks_matches,
)
from optimizer.trees.search import refusal
from workloads.errors import UnsupportedError
from workloads.syntax import All


def run_events(program: Program, events: Events, context: RunContext | None = None) -> Results:
    """All results of a program, in no particular order.

    `context` has what the batches before have left, where these events are one of several.
    """
    context = context or RunContext()
    found = apart(program, event_chunks(program, events, context), context)
    return collected(within_limit(found, context), events.time_type)


def event_chunks(program: Program, events: Events, context: RunContext) -> Iterator[RowChunk]:
    """The rows of a program, as they are found.

    A query that the ledger has as stopped when it is asked for more gives no more.
    """
    if not len(events):
        return
    for part in program.separate():
        plain, chains = _unchained(part, events.tick)
        if plain.units:
            columns = prepared(plain, events, context)
            yield from column_chunks(plain, columns, context)
            count_symbols(plain, columns, context)
        for chain_ in chains:
            yield from chain_.chunks(Slice(events, None, None), context)


def _unchained(program: Program, tick: int) -> tuple[Program, list[Chain]]:
    """The queries of a program that neither read rows of others nor make such, and the chains."""
    return chains_in(program, tick) if program.workload.is_chained else (program, [])


def prepared(program: Program, events: Events, context: RunContext) -> Columns:
    """What is made of events once, for all queries that read them."""
    return Columns(program.workload, events, context.account, program.conditions)


def column_chunks(program: Program, columns: Columns, context: RunContext) -> Iterator[RowChunk]:
    """The rows of a program over events that are prepared."""
    for keys, part in program.by_partitions if len(columns.events) else ():
        mine = columns
        if keys:
            with context.account.charge(program.ids.scan):
                events = by_added_keys(columns, keys)
            mine = Columns(part.workload, events, context.account, part.conditions)
        yield from _run_chunks(part, mine, context)


def _run_chunks(program: Program, columns: Columns, context: RunContext) -> Iterator[RowChunk]:
    if len(columns.events):
        found = _Run(program, columns, context).chunks()
        queries, outputs = program.workload.queries, program.outputs
        # What is picked of all matches at once is picked of those that do not overlap.
        picking = [query for query in queries if picks_matches(query)]
        found = matches_apart(found, picking, {}, None, context.account, outputs)
        first = first_matches(found, queries, columns.events, context.account, outputs)
        yield from picked_matches(first, queries, columns.events, context.account, outputs)


def count_symbols(program: Program, columns: Columns, context: RunContext) -> None:
    """Count the events that were tested, and those of each symbol."""
    account, ids, number = context.account, program.ids, len(columns.events)
    account.count(program.conditions, number, number)
    for symbol, instances in columns.counts.items():
        account.count(ids.symbol(symbol), number, instances)


def apart(
    program: Program,
    chunks: Iterator[RowChunk],
    context: RunContext,
    ends: LastEnds | None = None,
    stop: int | None = None,
) -> Iterator[RowChunk]:
    """The rows of a slice without matches that overlap one before, where a query skips these.

    Slices come in order; `ends` is where the matches of those before ended.
    """
    queries = [query for query in program.workload.queries if not picks_matches(query)]
    ends = {} if ends is None else ends
    return matches_apart(chunks, queries, ends, stop, context.account, program.outputs)


def within_limit(chunks: Iterator[RowChunk], context: RunContext) -> Iterator[RowChunk]:
    """The rows that queries may give; one that has more is stopped."""
    limit, given = context.options.row_limit, context.given
    for chunk in chunks:
        if limit is not None and given[chunk.query] + len(chunk) > limit:
            context.ledger.stopped[chunk.query] = row_limit_reason(chunk.query, limit)
            chunk = chunk.head(limit - given[chunk.query])
        given[chunk.query] += len(chunk)
        if len(chunk):
            yield chunk


@dataclass
class _Run:
    program: Program
    columns: Columns
    context: RunContext
    arrangements: dict[tuple[tuple[str, ...], bool, bool], ArrangedEvents] = field(
        default_factory=dict
    )
    uncountable: dict[InputColumn, str | None] = field(default_factory=dict)  # looked at once each

    @property
    def events(self) -> Events:
        return self.columns.events

    def chunks(self) -> Iterator[RowChunk]:
        """The rows of every query that is not stopped."""
        stopped, outputs = self.context.ledger.stopped, self.program.outputs
        units = [
            replace(unit, queries=kept)
            for unit in self.program.units
            if (kept := tuple(q for q in unit.queries if q.name not in stopped))
        ]
        trees = [unit for unit in units if isinstance(unit, TreeUnit)]
        unfinished: list[UnfinishedQuery] = []
        for unit in units:
            if isinstance(unit, CountingUnit):
                found, left = self._count(unit)
                for query, table in found:
                    if query.name not in stopped:
                        yield AggregateChunk(query.name, table)
                for query in left:
                    if refusal(query) is None:
                        trees.append(TreeUnit((query,), None, unit.device))
                    else:
                        unfinished.append(UnfinishedQuery(query))
        yield from tree_chunks(
            trees, self.columns, self.program, self.context, self._aggregate, unfinished
        )
        for unit in units:
            if isinstance(unit, PassUnit):
                yield from pass_chunks(unit, self.columns, self._arranged, self.context, outputs)
            elif isinstance(unit, StepwiseUnit | CompactUnit):
                run = self._bind if isinstance(unit, StepwiseUnit) else self._list
                for query in unit.queries:
                    yield from run(UnfinishedQuery(query))
        for rest in unfinished:
            yield from (self._bind if compact.refusal(rest.query) else self._list)(rest)

    def _count(self, unit: CountingUnit) -> tuple[Iterable[tuple[Query, pa.Table]], list[Query]]:
        """The rows of a unit's queries, and those of them that these events keep from counting."""
        device = self.context.device_of(unit.device)
        on_cpu = device.device == "cpu"
        if not on_cpu and device.device not in counting_engine(unit.engine).DEVICES:
            self.context.fallbacks.add(
                f"{_names(unit.queries)}: {unit.engine} has no kernel for {device.device}: "
                "computing on the CPU instead"
            )
            device = replace(device, device="cpu")
        able: list[Query] = []
        left: list[Query] = []
        for query in unit.queries:
            why = self._no_numbers(query)
            (able if why is None else left).append(query)
            if why is not None:
                self.context.fallbacks.add(f"{query.name}: constructs its matches: {why}")
        if not able:
            return [], left
        unit = replace(unit, queries=tuple(able))
        try:
            tables = counted_rows(
                unit,
                self._arranged_for(unit),
                device,
                self.context.account,
                self.program.outputs,
                self.context.limits.chunk,
            )
        except UnsupportedError as error:
            raise named_error(error, able[0].name) from error
        if tables is None:
            for query in able:
                self.context.fallbacks.add(
                    f"{query.name}: constructs its matches: these events cannot be counted by "
                    f"{unit.engine} (too many combinations of symbols at one time, or an AND over "
                    "simultaneous events)"
                )
            return [], [*left, *able]
        return tables, left

    def _no_numbers(self, query: Query) -> str | None:
        """Why its aggregates cannot be counted: they are not of finite numbers.

        Constructing its matches says what is wrong with a text, and tells an infinite minimum from
        none.
        """
        assert isinstance(query.output, Aggregation)
        columns = {part.column for part in aggregate_parts(query.output)}
        for column in sorted(columns, key=str):
            if column not in self.uncountable:
                self.uncountable[column] = why_uncountable(column, self.columns.input(column))
            if (why := self.uncountable[column]) is not None:
                return why
        return None

    def _arranged_for(self, unit: CountingUnit) -> ArrangedEvents:
        """The events as a unit counts them."""
        if unit.engine == "folds" and keeps_table_order(unit.queries):
            account, number = self.context.account, len(self.events)
            operator = self.program.ids.partition((), False)
            with account.charge(operator):
                order = TableOrder.of(self.events.ticks)
            account.count(operator, number, number)
            return ArrangedEvents(order, self.columns)
        return self._arranged(unit.queries[0])

    def _arranged(self, query: Query) -> ArrangedEvents:
        # Only ALL puts simultaneous events into one group, whose order then shows.
        settled = any(isinstance(e.quantifier, All) for e in components(query.pattern))
        place = (query.key, query.window.is_count, settled)
        if place not in self.arrangements:
            account = self.context.account
            operator = self.program.ids.partition(query.key, query.window.is_count)
            with account.charge(operator):
                layout = self.columns.orders.layout(*place)
            account.count(operator, len(self.events), len(layout))
            self.arrangements[place] = ArrangedEvents(layout, self.columns)
        return self.arrangements[place]

    def _list(self, rest: UnfinishedQuery) -> Iterator[RowChunk]:
        """The matches of a query in order, as far as they are not given yet."""
        query, account = rest.query, self.context.account
        operator, output = self.program.ids.compact(query), self.program.outputs[query.name]
        try:
            limits = self.context.limits
            for chunk in listed_matches(query, self.columns, limits, account, operator, output):
                new = np.flatnonzero(rest.is_new(query.pattern, chunk.last_rows()))
                account.count(operator, 0, len(new))
                account.count(output, len(new), len(new))
                yield chunk if len(new) == len(chunk) else chunk.take(new)
                if query.name in self.context.ledger.stopped:
                    break
        except TooWideError:  # before any match
            yield from self._bind(rest)
        except UnsupportedError as error:
            raise named_error(error, query.name) from error

    def _bind(self, rest: UnfinishedQuery) -> Iterator[RowChunk]:
        """The rows of a query whose components are bound one after the other."""
        query, account = rest.query, self.context.account
        operator, output = self.program.ids.stepwise(query), self.program.outputs[query.name]
        try:
            for chunk in charged(account, operator, self._bound(rest, output)):
                account.count(operator, 0, len(chunk))
                account.count(output, len(chunk), len(chunk))
                yield chunk
                if query.name in self.context.ledger.stopped:
                    break
        except UnsupportedError as error:
            raise named_error(error, query.name) from error
        symbols = dict.fromkeys(event.symbol for event in components(query.pattern))
        account.count(operator, sum(self.columns.counts.get(symbol, 0) for symbol in symbols))

    def _bound(self, rest: UnfinishedQuery, output: str) -> Iterator[RowChunk]:
        query = rest.query
        if not isinstance(query.output, Construction):
            for table in self._aggregate(query):
                yield AggregateChunk(query.name, table)
            return
        scan, keys = self._scan(query)
        yield from match_chunks(query, scan, keys, self.context.account, output, rest.is_new)

    def _aggregate(
        self, query: Query, found: Iterable[MatchColumns] | None = None
    ) -> Iterator[pa.Table]:
        """The rows of a query from its matches."""
        return aggregate_rows(query, *self._scan(query), found)

    def _scan(self, query: Query) -> tuple[QueryScan, KeyTexts]:
        arranged = self._arranged(query)
        width = query.window.ticks(self.events.tick)
        scan = QueryScan(arranged, width, query.name, self.context.limits)
        return scan, KeyTexts(self.events, arranged.layout, query.key)


def _names(queries: Iterable[Query]) -> str:
    return ", ".join(query.name for query in queries)


class SlicedRun:
    """Takes the slices of a stream in order and gives the rows that are decided in each.

    `context` has what goes on from slice to slice: trees that changed, and the queries that were
    stopped at a limit, whose rows of earlier slices stand. Where it begins in the midst of a
    stream, at the time `begins`, the first slice has all earlier events that are needed. In a
    stream that is `endless` only those queries wait for the end that have to.
    """

    def __init__(
        self,
        program: Program,
        tick: int,
        context: RunContext | None = None,
        begins: int | None = None,
        endless: bool = False,
    ) -> None:
        self._program, self.context = program, context or RunContext()
        self._begins = begins
        timed: dict[SliceReach, list[Unit]] = {}
        ranked: dict[tuple[tuple[str, ...], int, str], list[Unit]] = {}
        situated: dict[tuple[tuple[str, ...], str], list[Unit]] = {}
        unbounded: list[Unit] = []
        plain, chains = _unchained(program, tick)
        self._chains = [each for each in chains if each.is_timed]
        unbounded += [u for each in chains if not each.is_timed for u in each.program.units]
        followed, others = clocked_groups(plain, tick) if endless else ([], plain.units)
        for unit in others:
            first = unit.queries[0]
            own = "" if program.sharing else first.name
            if any(map(is_unbounded, unit.queries)):
                unbounded.append(unit)
            elif is_about_situations(first):
                situated.setdefault((first.key, own), []).append(unit)
            elif not first.window.is_count:
                timed.setdefault(reach_of(unit.queries, tick), []).append(unit)
            else:
                size = max(query.window.size for query in unit.queries)
                ranked.setdefault((first.key, size, own), []).append(unit)
        self._timed = {reach: program.only(units) for reach, units in timed.items()}
        self._units, self._plain = timed, plain
        self._carrying: list[CarriedGroup] = [
            RankedGroup(program.only(units), key, size) for (key, size, _), units in ranked.items()
        ]
        self._carrying += [
            SituationGroup(program.only(units), key, tick, own)
            for (key, own), units in situated.items()
        ]
        self._carrying += followed
        self._chained = {
            p: g for each in self._chains for p, g in each.carried_groups(tick).items()
        }
        self._unbounded = program.only(unbounded)
        self._kept: list[pa.Table] = []
        self.ends: LastEnds = {}  # of the matches of slices before

    @cached_property
    def _keyed(self) -> dict[tuple[str, ...], KeyedProgram]:
        return by_key(self._plain, self._units)

    @property
    def reach(self) -> SliceReach:
        """What slices must be cut for."""
        return _widest([*self._timed, *(each.reach for each in self._chains)])

    @property
    def queries(self) -> tuple[Query, ...]:
        """All queries that it runs."""
        return self._program.workload.queries

    @property
    def is_timed(self) -> bool:
        """Are all windows in time, so that events that no query speaks of do not matter?"""
        return not self._groups and not self._unbounded.units

    @property
    def _groups(self) -> list[CarriedGroup]:
        return [*self._carrying, *self._chained.values()]

    @property
    def unbounded(self) -> tuple[str, ...]:
        """The queries that need all events at once."""
        return tuple(query.name for query in self._unbounded.workload.queries)

    def carried(self) -> int:
        """The events that are taken along to the next slice besides those in reach."""
        sizes = (0 if group.carried is None else len(group.carried) for group in self._groups)
        return max(sizes, default=0)

    def carried_events(self) -> dict[str, Events]:
        """The same events, by the group that needs them."""
        return {group.name: group.carried for group in self._groups if group.carried is not None}

    def carry(self, events: Mapping[str, Events]) -> None:
        """Go on with what `carried_events` gave."""
        for group in self._groups:
            group.carried = events.get(group.name)

    def due(self, start: int) -> int | None:
        """The first time from `start` on at which what is carried gives rows, or is let go of."""
        times = [group.due(start) for group in self._groups]
        return min((time for time in times if time is not None), default=None)

    def run(self, piece: Slice) -> Results:
        """The rows that are decided in a slice, all in memory."""
        return collected(self.chunks(piece), piece.events.time_type)

    def chunks(self, piece: Slice) -> Iterator[RowChunk]:
        """The rows that are decided in a slice, as they are found."""
        return self.given(self.job(piece).chunks(self.context), piece)

    def given(self, found: Iterator[RowChunk], piece: Slice) -> Iterator[RowChunk]:
        """Of the rows that were found in a slice those that are given; the slices come in order."""
        return within_limit(self.apart(found, piece), self.context)

    def apart(self, found: Iterator[RowChunk], piece: Slice) -> Iterator[RowChunk]:
        """The same, however many rows a query may give."""
        return apart(self._program, found, self.context, self.ends, piece.stop)

    def job(self, piece: Slice) -> SliceJob:
        """What is to be run for a slice; the slices come in order, and may run in any."""
        if piece.start is None and piece.stop is None:
            self.context.is_whole = True  # nothing comes that trees could change for
            return SliceJob(piece, self._program, whole=[(self._program, piece.events)])
        carried = [(group.program, self._carried_columns(group, piece)) for group in self._carrying]
        chained = {
            part: self._carried_columns(group, piece) for part, group in self._chained.items()
        }
        whole = self._all_events(piece) if self._unbounded.units else []
        return SliceJob(
            piece, self._plain, self._timed, carried, whole, self._keyed, self._chains, chained
        )

    def _carried_columns(self, group: CarriedGroup, piece: Slice) -> Columns:
        if self._begins is not None and piece.start == self._begins:
            events = between(piece.events, None, piece.stop)
        else:
            events = piece.own if group.carried is None else appended(group.carried, piece.own)
        columns = prepared(group.program, events, self.context)
        if len(events):
            operator = group.program.ids.partition(group.key, group.is_ranked)
            with self.context.account.charge(operator):
                group.carried = group.kept(columns, piece.stop)
        if isinstance(group, SituationGroup) and group.ahead and piece.stop is not None:
            events = appended(events, between(piece.events, piece.stop, piece.stop + group.ahead))
            columns = prepared(group.program, events, self.context)
        return columns

    def _all_events(self, piece: Slice) -> list[tuple[Program, Events]]:
        """Keeps the events; with the last slice, all of them are to be run over."""
        table, workload = piece.own.table, self._unbounded.workload
        self._kept.append(table.select(needed_columns(workload, table.column_names)))
        if piece.stop is not None:
            return []
        with self.context.account.charge(self._program.ids.scan):
            events = from_table(pa.concat_tables(self._kept), workload.stream)
        self._kept = []
        return [(self._unbounded, events)]


@dataclass(frozen=True)
class SliceJob:
    """What a program runs for a slice: parts of it with windows in time, by their reach; parts that
    carry events, over these and the slice's; and parts of which all rows are decided now.

    `keyed` are the parts with windows in time once more, by key.
    """

    piece: Slice
    program: Program
    timed: Mapping[SliceReach, Program] = field(default_factory=dict)
    carried: Sequence[tuple[Program, Columns]] = ()
    whole: Sequence[tuple[Program, Events]] = ()
    keyed: Mapping[tuple[str, ...], KeyedProgram] = field(default_factory=dict)
    chains: Sequence[Chain] = ()
    chained: Mapping[ChainPart, Columns] = field(default_factory=dict)

    def chunks(self, context: RunContext) -> Iterator[RowChunk]:
        """The rows that are decided in the slice, as they are found."""
        context.since, context.until = self.piece.start, self.piece.stop
        for chunk in chain(self._timed_chunks(context), self._carried_chunks(context)):
            # Leaving out the other rows is the sinks' work.
            with context.account.charge(f"sink-{chunk.kind}"):
                own = chunk.between(self.piece.start, self.piece.stop)
            yield own
        for each in self.chains:
            yield from each.chunks(self.piece, context, self.chained)
        context.since = context.until = None
        for program, events in self.whole:
            yield from event_chunks(program, events, context)

    def _timed_chunks(self, context: RunContext) -> Iterator[RowChunk]:
        own, events = self.piece.own, self.piece.events
        if len(own) > LITTLE * len(events) or not any(self.keyed):
            yield from _sliced_chunks(KeyedProgram(self.program, self.timed), self.piece, context)
            return
        for key, keyed in self.keyed.items():
            if key:
                events = events_of_news(keyed, self.piece, key, own, context.account)
                yield from _sliced_chunks(keyed, replace(self.piece, events=events), context)
            else:
                yield from _sliced_chunks(keyed, self.piece, context)

    def _carried_chunks(self, context: RunContext) -> Iterator[RowChunk]:
        for program, columns in self.carried:
            if len(columns.events):
                yield from column_chunks(program, columns, context)
                count_symbols(program, columns, context)


def _sliced_chunks(keyed: KeyedProgram, piece: Slice, context: RunContext) -> Iterator[RowChunk]:
    """The rows of parts of a program over the events of a slice that each reaches."""
    if not keyed.timed or not len(piece.events):
        return
    if not keyed.program.sharing:
        for reach, program in keyed.timed.items():
            reached = rows_between(piece.events, *piece.rows(reach))
            yield from event_chunks(program, reached, context)
        return
    columns = prepared(keyed.program, piece.events, context)
    for reach, program in keyed.timed.items():
        yield from column_chunks(program, columns.part(*piece.rows(reach)), context)
    count_symbols(keyed.program, columns, context)


def _widest(reaches: Sequence[SliceReach]) -> SliceReach:
    return SliceReach(
        max((reach.back for reach in reaches), default=1),
        max((reach.ahead for reach in reaches), default=0),
    )


def reach_of_program(program: Program, tick: int) -> SliceReach:
    """What the units of a program that time cuts reach of the events around a slice."""
    plain, chains = _unchained(program, tick)
    timed = [q for q in plain.workload.queries if is_cut_by_time(q)]
    return _widest([reach_of(timed, tick), *(each.reach for each in chains if each.is_timed)])


def unbounded_queries(queries: Iterable[Query]) -> tuple[str, ...]:
    """The queries that need all events at once, however they are cut."""
    every = tuple(queries)
    chained = {
        name
        for chain_ in chains_of(every)
        if not is_chain_sliced([q for q in every if q.name in chain_])
        for name in chain_
    }
    return tuple(q.name for q in every if is_unbounded(q) or q.name in chained)
