"""Queries that read one another's rows, run in rounds over the events of a slice.

The rows that a slice decides depend on rows of other queries around it. So a query that makes
events runs over as much more of the stream as those that read them reach, and the reach of a chain
is the sum of the windows along it. Nothing is kept from one slice to the next, but where situations
make events: what tells of those that have begun.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from engines.columns.columns import Columns
from engines.input.event_table import Events
from engines.limits import maker_stopped_reason
from engines.local.carried import SituationGroup
from engines.local.news import of_symbols
from engines.local.slices import Slice, SliceReach, reach_of, rows_between
from engines.program import Program, RunContext
from engines.results.chunks import RowChunk
from engines.results.produced import (
    ProducedEvents,
    RowsToEvents,
    with_produced,
    without_numbers,
)
from optimizer.ir.pattern import events as components
from optimizer.ir.produced import chains_of, is_chain_sliced, rounds_of
from optimizer.ir.query import Query, is_about_situations, is_inner

_NOTHING: Mapping[ChainPart, Columns] = {}


@dataclass(frozen=True, eq=False)
class ChainPart:
    """Queries of one round that read the same events, and whose rows are wanted alike.

    `wanted` is how far around a slice their rows are, and `reach` what they look at for these. What
    `carries` events from slice to slice is about situations of one key.
    """

    program: Program
    wanted: SliceReach
    reach: SliceReach
    reads: tuple[str, ...]
    carries: bool

    @property
    def key(self) -> tuple[str, ...]:
        return self.program.workload.queries[0].key


class Chain:
    """Queries of which some read rows of others; `program` has no other queries."""

    def __init__(self, program: Program, tick: int) -> None:
        self.program = program
        queries = program.workload.queries
        self.is_timed = is_chain_sliced(queries)
        self._wanted = _wanted(queries, tick) if self.is_timed else {}
        self._rounds = [list(self._parts(round_, tick)) for round_ in rounds_of(queries)]
        self._into = {
            query.name: query.into
            for query in queries
            if any(query.into in other.reads for other in queries)
        }

        self._inner = {query.name for query in queries if is_inner(query)}

    def _parts(self, queries: Sequence[Query], tick: int) -> Iterator[ChainPart]:
        whole = SliceReach()
        groups: dict[tuple[SliceReach, tuple[str, ...], Hashable], list[Query]] = {}
        for query in queries:
            own = "" if self.program.sharing else query.name
            key = query.key if self.is_timed and is_about_situations(query) else None
            place = (self._wanted.get(query.name, whole), query.reads, (own, key))
            groups.setdefault(place, []).append(query)
        for (wanted, reads, _), members in groups.items():
            carries = self.is_timed and is_about_situations(members[0])
            # What carries events has what it needs of those before a slice.
            reach = reach_of(members, tick) if self.is_timed and not carries else whole
            program = self.program.of_queries(query.name for query in members)
            yield ChainPart(program, wanted, reach, reads, carries)

    def carried_groups(self, tick: int) -> dict[ChainPart, SituationGroup]:
        """What parts take along from slice to slice: as much as their rows are read back."""
        queries = self.program.workload.queries
        slides = tuple(max(q.slide // tick, 1) for q in queries if q.slide is not None)
        found = {}
        for part in (part for round_ in self._rounds for part in round_ if part.carries):
            names = ", ".join(query.name for query in part.program.workload.queries)
            margin, ahead = part.wanted.back - 1, part.wanted.ahead
            found[part] = SituationGroup(part.program, part.key, tick, names, margin, ahead, slides)
        return found

    @property
    def reach(self) -> SliceReach:
        """What is needed of the stream around a slice."""
        parts = [part for round_ in self._rounds for part in round_]
        further = [_further(part.wanted, part.reach) for part in parts if not part.carries]
        return SliceReach(
            max(reach.back for reach in further),
            max([reach.ahead for reach in further] + [part.wanted.ahead for part in parts]),
        )

    def chunks(
        self, piece: Slice, context: RunContext, carried: Mapping[ChainPart, Columns] = _NOTHING
    ) -> Iterator[RowChunk]:
        """The rows that are decided in a slice, as they are found.

        `carried` are the events of the parts that take such along.
        """
        from engines.local.run import apart, column_chunks, count_symbols, event_chunks

        made: dict[str, ProducedEvents] = {}
        events = piece.events
        to_events = RowsToEvents(self.program.workload, events)
        for round_ in self._rounds:
            self._stop_readers(context)
            found: dict[str, list[ProducedEvents]] = {}
            for part in round_:
                for query in part.program.workload.queries:
                    if query.name in self._into:
                        found[query.name] = [to_events.none(query.name)]
                wider = _around(piece, part.wanted)
                context.since = wider.start
                columns = carried.get(part)
                if columns is not None:
                    rows = column_chunks(part.program, columns, context)
                    count_symbols(part.program, columns, context)
                else:
                    read = self._read(part, events, made, context)
                    rows_read = Slice(read, wider.start, wider.stop).rows(part.reach)
                    rows = event_chunks(part.program, rows_between(read, *rows_read), context)
                for chunk in apart(part.program, rows, context):
                    decided = without_numbers(chunk.between(wider.start, wider.stop))
                    if chunk.query in self._into and len(decided):
                        with context.account.charge(self._operator(chunk.query)):
                            found[chunk.query].append(to_events.of(decided))
                    if chunk.query not in self._inner:
                        yield decided.between(piece.start, piece.stop)
                context.since = None
            for name, several in found.items():
                made[several[0].type] = _joined(several)
                number = len(made[several[0].type])
                context.account.count(self._operator(name), number, number)

    def _stop_readers(self, context: RunContext) -> None:
        """Stop queries that read the rows of one that was stopped: they would be of some only."""
        stopped = context.ledger.stopped
        makers = {query.into: query.name for query in self.program.workload.queries}
        for query in self.program.workload.queries:
            for name in query.reads:
                if makers[name] in stopped and query.name not in stopped:
                    stopped[query.name] = maker_stopped_reason(query.name, makers[name])

    def _operator(self, query: str) -> str:
        return self.program.ids.produced(self.program.workload.query(query))

    def _read(
        self, part: ChainPart, events: Events, made: dict[str, ProducedEvents], context: RunContext
    ) -> Events:
        """The events that queries read: of the stream, and of what others have made."""
        if not part.reads:
            return events
        asked = part.program.workload.of_stream
        symbols = {e.symbol for query in asked.queries for e in components(query.pattern)}
        # Where windows begin with the first event of a partition, that may be any.
        if not any(query.has_own_clock for query in part.program.workload.queries):
            program = part.program.over(asked)
            events = (
                of_symbols(program, events, symbols, context.account)
                if symbols
                else rows_between(events, 0, 0)
            )
        return with_produced(
            events, [made[name] for name in part.reads], part.program.workload.stream
        )


def chains_in(program: Program, tick: int) -> tuple[Program, list[Chain]]:
    """The queries of a program that are in no chain, and its chains."""
    chains = chains_of(program.workload.queries)
    chained = {name for names in chains for name in names}
    others = [q.name for q in program.workload.queries if q.name not in chained]
    return program.of_queries(others), [Chain(program.of_queries(n), tick) for n in chains]


def _wanted(queries: Sequence[Query], tick: int) -> dict[str, SliceReach]:
    """How far around a slice the rows of each query are wanted: as far as others read them."""
    wanted = {query.name: SliceReach() for query in queries}
    makers = {query.into: query.name for query in queries if query.into is not None}
    for round_ in reversed(rounds_of(queries)):
        for query in round_:
            further = _further(wanted[query.name], reach_of([query], tick))
            for name in query.reads:
                known = wanted[makers[name]]
                wanted[makers[name]] = SliceReach(
                    max(known.back, further.back), max(known.ahead, further.ahead)
                )
    return wanted


def _further(wanted: SliceReach, reach: SliceReach) -> SliceReach:
    """What is looked at for rows that are wanted around a slice."""
    return SliceReach(wanted.back + reach.back - 1, wanted.ahead + reach.ahead)


def _around(piece: Slice, wanted: SliceReach) -> Slice:
    start = None if piece.start is None else piece.start - wanted.back + 1
    stop = None if piece.stop is None else piece.stop + wanted.ahead
    return Slice(piece.events, start, stop)


def _joined(several: Sequence[ProducedEvents]) -> ProducedEvents:
    import pyarrow as pa

    return ProducedEvents(
        several[0].type,
        np.concatenate([each.start for each in several]),
        np.concatenate([each.end for each in several]),
        pa.concat_tables([each.fields for each in several]),
    )
