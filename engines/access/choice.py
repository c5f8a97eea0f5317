"""How the stored events of a run are read: all of them, or the row groups that can matter."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from typing import Literal as OneOf

import numpy as np

from engines.access.block_sums import BlockSums, summed_queries
from engines.access.blocks import Blocks, Mask
from engines.access.footers import Footers, open_footers
from engines.access.forced_probes import check_forced, forced_names, named_symbols
from engines.access.index_files import StaleIndexError
from engines.access.made_spots import MadeSpots
from engines.access.needed import come_together
from engines.access.possible import PossibleEvents
from engines.access.probe_choice import ProbeOffers, SpotsByProbes, best_probes
from engines.access.probes import Prober
from engines.access.ranks import Ranks
from engines.access.reading_cost import AccessCosts, ReadingCost
from engines.access.stored_blocks import StoredEvents, open_stored
from engines.access.sum_choice import worth_summing
from engines.access.summed_blocks import SummedBlocks
from engines.access.symbol_spots import Clock, SpotsOf, spots_in_blocks
from engines.execution import Access, EventSource, Execution, Monitor
from engines.input.batches import FileSource
from engines.input.event_files import ParquetFile
from engines.input.event_paths import EventPath
from engines.input.event_table import Faults
from engines.input.query_columns import needed_columns
from engines.input.row_ranges import RowRanges
from engines.limits import EventsError
from optimizer.access.anchors import NeededEvents, NotIndexedError, needed_events
from optimizer.ir.pattern import Symbol
from optimizer.ir.query import BoundWorkload, Query
from optimizer.plan.plan import Solver
from workloads import expressions as ex
from workloads.workload import Stream

if TYPE_CHECKING:
    from engines.spark.batch.source import TableSource

# Of the rows in row groups that are read. Where more are needed, none of them is left out.
MOST_ROWS = 0.5
# What reading must cost by statistics alone before indexes are opened, which takes some time too.
INDEX_NANOSECONDS = 2e7
EVERY_GROUP = "every row group can matter"
FEW_QUERIES = 8  # that are looked at first: where these need all row groups, no others are
REBUILD = "remove them with 'sheaf index EVENTS --remove', and make them anew"
_SAID = {
    "footers": "the statistics in their files",
    "light index": "the light index",
    "secondary index": "what secondary indexes have",
}


@dataclass(frozen=True)
class QueryAccess:
    """The row groups that one query needs, or why it needs all."""

    query: str
    row_groups: int | None = None
    reason: str | None = None

    def document(self) -> dict[str, Any]:
        found = {"query": self.query, "row_groups": self.row_groups, "reason": self.reason}
        return {name: value for name, value in found.items() if value is not None}


@dataclass(frozen=True)
class AccessChoice:
    """What is read, and why.

    `by` is what it was decided by: `footers` are the statistics that Parquet files carry. `groups`
    are by file the row groups that are read; None where all are. Of these, `rows` are gone on
    with: so many `events`, `of_events` in all of the files.
    """

    method: OneOf["scan", "index"]
    why: str
    by: tuple[str, ...] = ()
    queries: tuple[QueryAccess, ...] = ()
    groups: Mapping[str, Sequence[int]] | None = None
    row_groups: int = 0
    of: int = 0
    bytes: int = 0
    of_bytes: int = 0
    events: int = 0
    of_events: int = 0
    span: tuple[int, int] | None = None  # of all events, in ticks
    warnings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()  # what queries ask for and no event has
    probes: tuple[Mapping[str, Any], ...] = ()  # of secondary indexes
    cost: float = 0.0  # nanoseconds, of probes and of reading and running over events
    expected: float = 0.0  # what that was before probes were made
    bound: float = 0.0  # no choice of probes was expected to cost less
    summed: SummedBlocks | None = None  # of what is not read, for aggregates of it
    edges: Mapping[str, Sequence[int]] | None = None  # row groups that these aggregates read
    rows: Mapping[str, RowRanges] | None = None  # of `groups`, by file; all where it is None
    ranges: int | None = None  # of times that are read of a table of Spark's

    def span_seconds(self, tick: int) -> float | None:
        """From the first event to the last, read or not."""
        return None if self.span is None else (self.span[1] - self.span[0]) * tick / 1e9

    def document(self) -> dict[str, Any]:
        """As plain values, for plans and reports."""
        found: dict[str, Any] = {"method": self.method, "why": self.why}
        if self.ranges is not None:
            found["ranges"] = self.ranges
        elif self.method == "index":
            found |= {
                "by": list(self.by),
                "row_groups": self.row_groups,
                "of": self.of,
                "bytes": self.bytes,
                "of_bytes": self.of_bytes,
                "events": self.events,
                "of_events": self.of_events,
                "probes": [dict(probe) for probe in self.probes],
                "cost": round(self.cost),
                "expected": round(self.expected),
                "bound": round(self.bound),
            }
        if self.summed is not None:
            found["summed"] = self.summed.document()
        if self.queries:
            found["queries"] = [query.document() for query in self.queries]
        if self.warnings:
            found["warnings"] = list(self.warnings)
        return found


def choose_access(
    source: FileSource,
    workload: BoundWorkload,
    wanted: Access = "auto",
    obstacle: str | None = None,
    with_sums: bool = True,
    solver: Solver = "greedy",
    with_rows: bool = True,
) -> AccessChoice:
    """How the events of a source are read for a workload.

    An `obstacle` is why they are all needed, whatever the queries. What cannot be pruned is read
    as a whole, also where an index is `wanted`; `why` then has the reason. Where the reader goes by
    them, aggregates may be put together from blocks, `with_sums`, and rows of row groups left out,
    `with_rows`. The `solver` chooses probes, unless components whose events are looked up are named
    (`index:A,b`).
    """
    if wanted == "scan":
        return AccessChoice("scan", "as was asked for")
    if obstacle is not None:
        return AccessChoice("scan", obstacle)
    footers = open_footers(source)
    if footers.reason is not None:
        return AccessChoice("scan", footers.reason)
    options = (wanted, with_sums, with_rows, solver)
    plain = open_stored(footers, with_indexes=False)
    if wanted == "auto" and len(workload.queries) > FEW_QUERIES and footers.number > 1:
        begin = workload.queries[:FEW_QUERIES]
        few, refused = _needs(begin, with_rows)
        # What counts events alone may be told by the statistics in files.
        if not refused and all(one.columns for one in summed_queries(begin, source.tick)):
            found = _Choice(source, workload, few, footers, plain, *options).whole()
            if found is not None and (not plain.is_indexed or found.cost < INDEX_NANOSECONDS):
                return found
    needs, refused = _needs(workload.queries, with_rows)
    if refused:
        first = refused[0]
        return AccessChoice(
            "scan", f"query {first.query} needs all events: {first.reason}", queries=tuple(refused)
        )
    stored = plain if wanted == "auto" else open_stored(footers)
    if footers.number == 0 or (footers.number == 1 and not stored.is_indexed):
        said = tuple(stored.warnings)
        return AccessChoice("scan", "there is one row group at most", warnings=said)
    if wanted == "auto":
        found = _Choice(source, workload, needs, footers, stored, *options).made()
        if not stored.is_indexed or found.cost < INDEX_NANOSECONDS:
            return found
        stored = open_stored(footers)
    try:
        return _Choice(source, workload, needs, footers, stored, *options).made()
    except StaleIndexError as error:  # which only reading it could tell
        warnings = [*stored.warnings, f"{error}: events are read without indexes; {REBUILD}"]
        plain = open_stored(footers, with_indexes=False)
        plain.warnings = warnings
        return _Choice(source, workload, needs, footers, plain, *options).made()
    finally:
        stored.close()


def _needs(
    queries: Iterable[Query], with_blocks: bool
) -> tuple[list[NeededEvents], list[QueryAccess]]:
    found, refused = [], []
    for query in queries:
        try:
            found.append(needed_events(query, with_blocks))
        except NotIndexedError as error:
            refused.append(QueryAccess(query.name, reason=str(error)))
    return found, refused


class _KeptRows(NamedTuple):
    """The rows of each file that are gone on with, and how many of those read are left out."""

    by_file: Mapping[str, RowRanges]
    left_out: int


@dataclass(eq=False)
class _Choice:
    """What is decided by: the events of a source, and what queries need of them."""

    source: FileSource
    workload: BoundWorkload
    needs: list[NeededEvents]
    footers: Footers
    stored: StoredEvents
    wanted: Access
    with_sums: bool
    with_rows: bool
    solver: Solver

    def made(self) -> AccessChoice:
        stream, source = self.workload.stream, self.source
        summable = []
        if self.with_sums:  # of what columns come to, statistics in files know nothing
            every = summed_queries(self.workload.queries, source.tick)
            summable = [one for one in every if self.stored.has_light or not one.columns]
        columns = read_columns(self.needs, stream)
        more = {name for one in summable for name in one.names}
        blocks = self.stored.blocks(source, stream, sorted(columns | more))
        possible = PossibleEvents(blocks, stream)
        reading = self._reading(blocks)
        forced, spots_of = self.wanted != "auto", spots_in_blocks(blocks, possible)
        sums = BlockSums(self.stored, blocks, possible, source, stream)
        prober = Prober(self.stored, blocks, possible, source, stream)
        try:
            spots = SpotsByProbes(spots_of, prober, MadeSpots.of(self.needs, reading.clock))
            names = {one.query.name for one in summable}
            offers = ProbeOffers.of(
                self.needs, spots, reading, self.solver, self._looked_up(), names
            )
            taken = worth_summing(summable, sums, reading, offers.cost, forced)
            names = {one.query.name for one in taken}
            found = best_probes(offers, names, spots, reading, forced)
        finally:
            prober.close()
        rest = [needed for needed in self.needs if needed.query not in names]
        none = np.zeros_like(reading.always)
        edges = np.logical_or.reduce([none, *(sums.read_units(one) for one in taken)])
        cost, expected, bound = (
            nanoseconds + reading.of(edges)
            for nanoseconds in (found.cost, found.expected, found.bound)
        )
        queries = tuple(
            QueryAccess(needed.query, int(mask.sum()))
            for needed, mask in zip(rest, found.masks, strict=True)
        )
        warnings = (*self.stored.warnings, *self._not_looked_up(offers))
        number, of = int(found.kept.sum()), self.stored.units
        apart = [needed for needed in rest if needed.are_ranks]
        left = Ranks(blocks, found.kept[blocks.unit]) if apart else None
        for needed in apart:
            assert left is not None
            if come_together(needed, spots, found.kept, reading.clock, left):
                said = f"query {needed.query} needs all events: its window counts them, and without"
                said += " some others would be in one"
                return AccessChoice("scan", said, queries=queries, warnings=warnings)
        kept = None if apart else self._kept_rows(rest, spots, reading, blocks, found.kept)
        if number == of and not taken and kept is None:
            return AccessChoice(
                "scan",
                EVERY_GROUP,
                queries=queries,
                warnings=warnings,
                cost=cost,
                expected=expected,
                bound=bound,
            )
        by = ["footers"]
        if self.stored.has_light:
            by.append("light index")
        if found.probes:
            by.append("secondary index")
        said = " and ".join(_SAID[each] for each in by)
        why = f"{number:,} of {of:,} row groups can matter, by {said}" if rest else ""
        summed = None
        if taken:
            summed = SummedBlocks.of(sums, taken, edges)
            why = "; ".join(filter(None, (why, summed.sentence)))
        is_known = len(blocks) > 0 and not blocks.always.any()
        span = (int(blocks.low.min()), int(blocks.high.max())) if is_known else None
        sizes = self.footers.sizes(needed_columns(self.workload, source.schema.names))
        times = found.kept.astype(np.int64) + edges  # that each row group is read
        return AccessChoice(
            "index",
            why,
            tuple(by),
            queries,
            self.footers.chosen(found.kept),
            int(times.sum()),
            of,
            int((times * sizes).sum()),
            int(sizes.sum()),
            int((times * reading.rows).sum()) - (0 if kept is None else kept.left_out),
            int(reading.rows.sum()),
            span,
            warnings,
            tuple(self._absent(possible)),
            tuple(found.probes),
            cost,
            expected,
            bound,
            summed,
            self.footers.chosen(edges),
            None if kept is None else kept.by_file,
        )

    def _reading(self, blocks: Blocks) -> ReadingCost:
        source, stream = self.source, self.workload.stream
        rows = np.array([rows for file in self.footers.files for rows in file.rows], np.int64)
        return ReadingCost(
            blocks.always_units(self.stored.units),
            rows,
            AccessCosts.of(
                len(needed_columns(self.workload, source.schema.names)), self.workload.queries
            ),
            Clock(source.tick, 1 if stream.sequence is None else 0, Ranks(blocks)),
            self.with_rows and self.stored.has_light,
        )

    def whole(self) -> AccessChoice | None:
        """That all is read, where these few queries need all row groups by what files say."""
        columns = sorted(read_columns(self.needs, self.workload.stream))
        blocks = self.stored.blocks(self.source, self.workload.stream, columns)
        spots_of = spots_in_blocks(blocks, PossibleEvents(blocks, self.workload.stream))
        reading = self._reading(blocks)
        kept, queries = reading.always, []
        for needed in self.needs:
            mask = reading.part(needed, spots_of).units
            kept = kept | mask
            queries.append(QueryAccess(needed.query, int(mask.sum())))
            if kept.all():
                cost = reading.of(kept)
                warnings = tuple(self.stored.warnings)
                return AccessChoice(
                    "scan",
                    EVERY_GROUP,
                    queries=tuple(queries),
                    warnings=warnings,
                    cost=cost,
                    expected=cost,
                    bound=cost,
                )
        return None

    def _kept_rows(
        self,
        needs: list[NeededEvents],
        spots: SpotsOf,
        reading: ReadingCost,
        blocks: Blocks,
        groups: Mask,
    ) -> _KeptRows | None:
        """What of these row groups is gone on with; None where that is most of it."""
        if not self.with_rows or not self.stored.has_light:
            return None
        of = int(reading.rows[groups].sum())
        found = reading.rows_of(needs, spots, blocks, MOST_ROWS * of)
        if found is None:
            return None
        by_file, first = {}, 0
        for file in self.stored.files:
            rows = sum(file.footer.rows)
            by_file[file.name] = found.between(first, first + rows)
            first += rows
        return _KeptRows(by_file, of - len(found))

    def _looked_up(self) -> set[Symbol] | None:
        """The symbols that are asked of indexes, where somebody says so."""
        names = forced_names(self.wanted)
        if names is None:
            return None
        return set().union(*(named_symbols(name, self.needs) for name in names))

    def _not_looked_up(self, offers: ProbeOffers) -> Iterator[str]:
        offered = {probe.symbol for probe in offers.probes}
        for name in forced_names(self.wanted) or ():
            if offered.isdisjoint(named_symbols(name, self.needs)):
                yield f"access '{self.wanted}': no index can be asked for events of '{name}'"

    def _absent(self, possible: PossibleEvents) -> Iterator[str]:
        made = {needed.made for needed in self.needs}
        for needed in self.needs:
            for name in dict.fromkeys(symbol.type for symbol in needed.symbols):
                if name not in made and not possible.type(name).any():
                    by = "by the statistics in the files"
                    yield f"query {needed.query}: no event has '{name}', {by}"


def read_columns(needs: Iterable[NeededEvents], stream: Stream) -> set[str]:
    """The columns that decide whether an event is one of the needed symbols."""
    found = set() if stream.type is None else {stream.type}
    for symbol in (symbol for needed in needs for symbol in needed.symbols):
        conditions = [*symbol.predicates]
        if (condition := stream.types.get(symbol.type)) is not None:
            conditions.append(condition)
        for condition in conditions:
            found |= ex.attributes(condition)
    return found


def why_all_events(source: EventSource, execution: Execution, monitor: Monitor) -> str | None:
    """Why a run needs all events, whatever its queries; None where it does not."""
    options = execution.options
    if source.on_error == "skip":
        return "rows that are left out are counted over all events (--on-error skip)"
    if monitor.reads_events:
        return "all events are looked at"
    if options.partial is not None:
        return "a limit on partial matches counts from the first event on"
    return None


def merged_access(choices: Sequence[AccessChoice]) -> dict[str, Any]:
    """What the report of a run says of its access; queries that are run apart have one each."""
    first = choices[0].document()
    return first if len(choices) == 1 else {**first, "scans": [c.document() for c in choices]}


def access_document(
    path: EventPath,
    workload: BoundWorkload,
    wanted: Access = "auto",
    solver: Solver = "greedy",
) -> dict[str, Any]:
    """How a run over files would read them, for a plan; nothing where they are no files."""
    try:
        source = FileSource(path, workload.stream, Faults())
    except EventsError:
        return {}
    check_forced(wanted, workload.queries)
    return choose_access(source, workload, wanted, solver=solver).document()


def table_access(
    table: TableSource,
    workload: BoundWorkload,
    source: EventSource,
    execution: Execution,
    monitor: Monitor,
) -> AccessChoice:
    """How a table of Spark's is read: as Spark does, or where that is `wanted` by ranges of time.

    To find these, Spark is asked where single events are, which `auto` does not do.
    """
    from engines.spark.batch.time_ranges import table_ranges

    wanted = execution.access
    check_forced(wanted, workload.queries)
    if wanted in ("auto", "scan"):
        return AccessChoice("scan", "Spark reads what it has as a table by its own statistics")
    obstacle = why_all_events(source, execution, monitor)
    if obstacle is not None:
        return AccessChoice("scan", obstacle)
    found = table_ranges(table.events, table.schema, workload, wanted)
    table.ranges = found.ranges
    if found.ranges is None:
        return AccessChoice("scan", found.why)
    return AccessChoice("index", found.why, ranges=len(found.ranges))


def will_read(source: FileSource, workload: BoundWorkload, access: AccessChoice) -> dict[str, int]:
    """What is read of files: bytes and row groups, of how many; of text the bytes of all of it."""
    columns = needed_columns(workload, source.schema.names)
    found = {"bytes": 0, "row_groups": 0, "of": 0}
    for file in source.files:
        if not isinstance(file, ParquetFile):
            found["bytes"] += Path(file.name).stat().st_size
            continue
        sizes = file.footer.parsed.sizes(columns)
        chosen = range(len(sizes)) if access.groups is None else access.groups[file.name]
        found["bytes"] += int(sizes[list(chosen)].sum())
        found["row_groups"] += len(chosen)
        found["of"] += len(sizes)
    return found
