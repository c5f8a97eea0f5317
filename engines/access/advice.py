"""Which attributes are worth an index for a workload, within so many bytes.

Judged by what a run would read: of each query the row groups that the entries of its rarest symbol
are expected in, if they lie anywhere (Cardenas), and of all queries together, as a row group is
read once. An index is worth it that saves a hundredth of them. All sets of a few attributes are
tried, so that none is better by this measure; of many the best is added as long as one helps.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from engines.access.footers import Footers, open_footers
from engines.access.light_index import kind_of
from engines.access.probes import symbol_ranges
from engines.access.sorted_runs import INDEXED, values_inside
from engines.input.batches import FileSource
from engines.limits import EventsError
from optimizer.access.anchors import NeededEvents, NotIndexedError, needed_events
from optimizer.ir.pattern import Symbol
from optimizer.ir.query import BoundWorkload
from workloads.workload import Stream

SAMPLED_GROUPS = 8
ENTRY_BYTES = 20  # of an index, for each row, as they are written
EXHAUSTIVE = 10  # attributes of which all sets are tried
LEAST_SAVED = 0.01  # of the row groups, for which one index more is worth it


@dataclass(frozen=True)
class Advice:
    """Attributes to index, what that takes, and the part of the events that is read then."""

    on: tuple[str, ...]
    bytes: int
    part: float
    is_best: bool  # of all sets within the budget
    attributes: Mapping[str, float]  # the part that is read with each alone
    reasons: Mapping[str, str]  # by query, why it reads everything

    def document(self) -> dict[str, Any]:
        return {
            "on": list(self.on),
            "bytes": self.bytes,
            "part": round(self.part, 6),
            "best": self.is_best,
            "attributes": {name: round(part, 6) for name, part in self.attributes.items()},
            "reasons": dict(self.reasons),
        }


def advise(path: str, source: FileSource, workload: BoundWorkload, budget: int | None) -> Advice:
    """What to index of the events of a source for a workload."""
    footers = open_footers(source)
    if footers.reason is not None:
        raise EventsError(f"'{path}' cannot be indexed: {footers.reason}")
    needs: list[NeededEvents] = []
    reasons: dict[str, str] = {}
    for query in workload.queries:
        try:
            needs.append(needed_events(query))
        except NotIndexedError as error:
            reasons[query.name] = str(error)
    rows = sum(sum(file.rows) for file in footers.files)
    size = ENTRY_BYTES * rows
    parts = _parts(footers, needs, workload.stream, rows)
    names = sorted({name for each in parts.values() for name in each})
    if reasons:  # a query that reads everything leaves nothing to be saved
        return Advice((), 0, 1.0, True, {}, reasons)
    most = len(names) if budget is None else min(len(names), budget // max(size, 1))

    def read(on: Iterable[str]) -> float:
        return _read(needs, parts, set(on))

    chosen: tuple[str, ...] = ()
    is_best = len(names) <= EXHAUSTIVE
    if is_best:
        sets = [s for number in range(most + 1) for s in combinations(names, number)]
        chosen = min(sets, key=lambda on: (read(on) + LEAST_SAVED * len(on), len(on)))
    else:
        while len(chosen) < most:
            best = min((n for n in names if n not in chosen), key=lambda n: read((*chosen, n)))
            if read((*chosen, best)) > read(chosen) - LEAST_SAVED:
                break
            chosen = (*chosen, best)
    alone = {name: read((name,)) for name in names}
    return Advice(tuple(sorted(chosen)), size * len(chosen), read(chosen), is_best, alone, reasons)


def _read(
    needs: Sequence[NeededEvents],
    parts: Mapping[Symbol, Mapping[str, float]],
    on: set[str],
) -> float:
    """The part of the row groups that any query needs with these indexes."""
    left = 1.0
    for needed in needs:
        # A match has each of its symbols, so the rarest says where one can be; each reading has its
        # own.
        for reading in needed.readings:
            known = [parts[symbol] for stage in reading for symbol in stage]
            rarest = [part for each in known for name, part in each.items() if name in on]
            left *= 1.0 - min(rarest, default=1.0)
    return 1.0 - left


def _parts(
    footers: Footers, needs: Sequence[NeededEvents], stream: Stream, rows: int
) -> dict[Symbol, dict[str, float]]:
    """By symbol and attribute, the part of the row groups that its entries are expected in."""
    readings = [reading for needed in needs for reading in needed.readings]
    symbols = list(dict.fromkeys(s for reading in readings for stage in reading for s in stage))
    wanted = {symbol: symbol_ranges(symbol, stream) for symbol in symbols}
    names = sorted({name for ranges in wanted.values() for name in ranges})
    sample = _sample(footers, names)
    found: dict[Symbol, dict[str, float]] = {}
    for symbol, by_name in wanted.items():
        found[symbol] = {}
        for name, ranges in by_name.items():
            if name not in sample.column_names or not sample.num_rows:
                continue
            if kind_of(sample.schema.field(name).type) not in INDEXED:
                continue
            try:
                held = values_inside(sample.column(name), ranges).mean()
            except (pa.ArrowException, TypeError):
                continue
            # At least one in the sample may have been missed.
            entries = max(float(held), 0.5 / sample.num_rows) * rows
            found[symbol][name] = float(-np.expm1(-entries / footers.number))
    return found


def _sample(footers: Footers, names: Sequence[str]) -> pa.Table:
    """Some row groups from all over the events."""
    places = [(file, group) for file in footers.files for group in range(file.groups)]
    step = max(1, len(places) // SAMPLED_GROUPS)
    tables = []
    for file, group in places[step // 2 :: step][:SAMPLED_GROUPS]:
        with pq.ParquetFile(file.file.name) as opened:
            inside = [name for name in names if name in opened.schema_arrow.names]
            tables.append(opened.read_row_group(group, columns=inside))
    return pa.concat_tables(tables, promote_options="permissive") if tables else pa.table({})
