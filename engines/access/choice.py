"""How the stored events of a run are read: all of them, or the row groups that can matter."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from typing import Literal as OneOf

import numpy as np
import pyarrow.parquet as pq

from engines.access.block_sums import BlockSums, summed_queries
from engines.access.footers import Footers, chosen_groups, open_footers
from engines.access.index_files import StaleIndexError
from engines.access.needed import spots_in_blocks
from engines.access.possible import PossibleEvents
from engines.access.probe_choice import ProbeOffers, SpotsByProbes, best_probes
from engines.access.probes import Prober
from engines.access.reading_cost import AccessCosts, ReadingCost
from engines.access.stored_blocks import StoredEvents, open_stored
from engines.access.sum_choice import worth_summing
from engines.access.summed_blocks import SummedBlocks
from engines.execution import Access, EventSource, Execution, Monitor
from engines.input.batches import FileSource, needed_columns
from engines.input.event_files import ParquetFile, bytes_of, places_of
from engines.input.event_paths import EventPath
from engines.input.event_table import Faults
from engines.limits import EventsError
from optimizer.access.anchors import NeededEvents, NotIndexedError, needed_events
from optimizer.ir.query import BoundWorkload, Query
from optimizer.plan.plan import Solver
from workloads import expressions as ex
from workloads.workload import Stream

# What reading must cost by statistics alone before indexes are opened, which takes some time too.
INDEX_NANOSECONDS = 2e7
REBUILD = "make them anew with 'sheaf index'"
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
    are by file the row groups that are read; None where all are. `events` are in them, `of_events`
    in all of the files.
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

    def span_seconds(self, tick: int) -> float | None:
        """From the first event to the last, read or not."""
        return None if self.span is None else (self.span[1] - self.span[0]) * tick / 1e9

    def document(self) -> dict[str, Any]:
        """As plain values, for plans and reports."""
        found: dict[str, Any] = {"method": self.method, "why": self.why}
        if self.method == "index":
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
) -> AccessChoice:
    """How the events of a source are read for a workload.

    An `obstacle` is why they are all needed, whatever the queries. What cannot be pruned is read
    as a whole, also where an index is `wanted`; `why` then has the reason. Where the reader goes by
    them, aggregates may be put together from blocks, `with_sums`. The `solver` chooses probes.
    """
    if wanted == "scan":
        return AccessChoice("scan", "as was asked for")
    if obstacle is not None:
        return AccessChoice("scan", obstacle)
    needs, refused = _needs(workload.queries)
    if refused:
        first = refused[0]
        return AccessChoice(
            "scan", f"query {first.query} needs all events: {first.reason}", queries=tuple(refused)
        )
    footers = open_footers(source)
    if footers.reason is not None:
        return AccessChoice("scan", footers.reason)
    if footers.number <= 1:
        return AccessChoice("scan", "there is one row group at most")
    stored = open_stored(footers, with_indexes=wanted == "index")
    if wanted == "auto":
        found = _Choice(source, workload, needs, footers, stored, wanted, with_sums, solver).made()
        if not stored.is_indexed or found.cost < INDEX_NANOSECONDS:
            return found
        stored = open_stored(footers)
    try:
        return _Choice(source, workload, needs, footers, stored, wanted, with_sums, solver).made()
    except StaleIndexError as error:  # which only reading it could tell
        warnings = [*stored.warnings, f"{error}: events are read without indexes; {REBUILD}"]
        plain = open_stored(footers, with_indexes=False)
        plain.warnings = warnings
        return _Choice(source, workload, needs, footers, plain, wanted, with_sums, solver).made()
    finally:
        stored.close()


def _needs(queries: Iterable[Query]) -> tuple[list[NeededEvents], list[QueryAccess]]:
    found, refused = [], []
    for query in queries:
        try:
            found.append(needed_events(query))
        except NotIndexedError as error:
            refused.append(QueryAccess(query.name, reason=str(error)))
    return found, refused


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
    solver: Solver

    def made(self) -> AccessChoice:
        stream, source = self.workload.stream, self.source
        summable = list(summed_queries(self.workload.queries, source.tick))
        summable = summable if self.with_sums else []
        columns = read_columns(self.needs, stream)
        more = {name for one in summable for name in one.names}
        blocks = self.stored.blocks(source, stream, sorted(columns | more))
        possible = PossibleEvents(blocks, stream)
        rows = np.array([rows for file in self.footers.files for rows in file.rows], np.int64)
        sums = BlockSums(self.stored, blocks, possible, source, stream)
        reading = ReadingCost(
            blocks.always_units(self.stored.units),
            rows,
            AccessCosts.of(len(columns)),
            source.tick,
            1 if stream.sequence is None else 0,
        )
        forced, spots_of = self.wanted == "index", spots_in_blocks(blocks, possible)
        prober = Prober(self.stored, blocks, possible, source, stream)
        try:
            spots = SpotsByProbes(spots_of, prober)
            offers = ProbeOffers.of(self.needs, spots, reading, self.solver)
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
        warnings = tuple(self.stored.warnings)
        numbers, of = np.flatnonzero(found.kept).tolist(), self.stored.units
        if len(numbers) == of and not taken:
            why = "every row group can matter"
            return AccessChoice(
                "scan",
                why,
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
        why = f"{len(numbers):,} of {of:,} row groups can matter, by {said}" if rest else ""
        summed = None
        if taken:
            summed = SummedBlocks.of(sums, taken, edges)
            why = "; ".join(filter(None, (why, summed.sentence)))
        is_known = len(blocks) > 0 and not blocks.always.any()
        span = (int(blocks.low.min()), int(blocks.high.max())) if is_known else None
        groups = self.footers.row_groups(needed_columns(self.workload, source.schema.names))
        read = [groups[place] for place in [*numbers, *np.flatnonzero(edges).tolist()]]
        return AccessChoice(
            "index",
            why,
            tuple(by),
            queries,
            chosen_groups(groups, numbers),
            len(read),
            of,
            sum(group.size for group in read),
            sum(group.size for group in groups),
            sum(group.rows for group in read),
            sum(group.rows for group in groups),
            span,
            warnings,
            tuple(self._absent(possible)),
            tuple(found.probes),
            cost,
            expected,
            bound,
            summed,
            chosen_groups(groups, np.flatnonzero(edges).tolist()),
        )

    def _absent(self, possible: PossibleEvents) -> Iterator[str]:
        for needed in self.needs:
            for name in dict.fromkeys(symbol.type for symbol in needed.symbols):
                if not possible.type(name).any():
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
    return choose_access(source, workload, wanted, solver=solver).document()


TABLE_ACCESS = AccessChoice("scan", "Spark reads what it has as a table by its own statistics")


def will_read(source: FileSource, workload: BoundWorkload, access: AccessChoice) -> dict[str, int]:
    """What is read of files: bytes and row groups, of how many; of text the bytes of all of it."""
    columns = needed_columns(workload, source.schema.names)
    found = {"bytes": 0, "row_groups": 0, "of": 0}
    for file in source.files:
        if not isinstance(file, ParquetFile):
            found["bytes"] += Path(file.name).stat().st_size
            continue
        metadata = pq.read_metadata(file.name)
        places = places_of(metadata, columns)
        groups = range(metadata.num_row_groups)
        chosen = groups if access.groups is None else access.groups[file.name]
        found["bytes"] += sum(bytes_of(metadata, group, places) for group in chosen)
        found["row_groups"] += len(chosen)
        found["of"] += len(groups)
    return found
