"""Probes of secondary indexes: where the events of a symbol are, instead of where they may be."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np

from engines.access.blocks import Blocks, Int64s
from engines.access.chains import Spots
from engines.access.index_files import folder_of
from engines.access.possible import PossibleEvents
from engines.access.sorted_runs import RunFile, SortedRun, ranges_of
from engines.access.stored_blocks import StoredEvents, StoredFile
from engines.access.symbol_spots import SymbolSpots
from engines.access.value_marks import ValueRange
from engines.input.batches import FileSource
from optimizer.ir.pattern import ANY_TYPE, Symbol
from workloads import expressions as ex
from workloads.workload import Stream


@dataclass(frozen=True)
class Probe:
    """What can be looked up of a symbol: ranges of indexed attributes, all of which must hold.

    `expected` is about how many entries are read for it, `matching` how many of these events are
    in all ranges.
    """

    symbol: Symbol
    ranges: Mapping[str, tuple[ValueRange, ...]]
    expected: int
    matching: float

    def document(self, entries: int) -> dict[str, Any]:
        """What was looked up, and how many events that are."""
        return {
            "symbol": self.symbol.shown,
            "attributes": sorted(self.ranges),
            "entries": entries,
        }


class Prober:
    """Probes the indexes of stored events; each run is opened once."""

    def __init__(
        self,
        stored: StoredEvents,
        blocks: Blocks,
        possible: PossibleEvents,
        source: FileSource,
        stream: Stream,
    ) -> None:
        self._stored, self.blocks, self.possible = stored, blocks, possible
        self._source, self._stream = source, stream
        self._runs: dict[tuple[str, str], SortedRun] = {}
        self._files: dict[Path, RunFile] = {}

    @property
    def has_runs(self) -> bool:
        """Is any attribute indexed?"""
        return any(file.manifest is not None and file.manifest.on for file in self._stored.files)

    def probe_of(self, symbol: Symbol) -> Probe | None:
        """What can be looked up of a symbol; None where no index has any of it."""
        found: dict[str, tuple[ValueRange, ...]] = {}
        for name, ranges in symbol_ranges(symbol, self._stream).items():
            runs = [run for file in self._stored.files if (run := self._run(file, name))]
            if runs and all(run.fits(ranges) for run in runs):
                found[name] = ranges
        if not found:
            return None
        expected = matching = 0.0
        for file in self._stored.files:
            opened = [(self._run(file, name), ranges) for name, ranges in found.items()]
            known = [(run, ranges) for run, ranges in opened if run is not None]
            expected += sum(run.expected(own) for run, own in known) if known else len(file.groups)
            rows = int(file.sizes.sum())
            part = 1.0  # as if attributes had nothing to do with each other
            for run, own in known:
                part *= min(run.matching(own) / max(rows, 1), 1.0)
            matching += part * rows
        return Probe(symbol, found, round(expected), matching)

    def spots(self, probe: Probe) -> tuple[SymbolSpots, int]:
        """Where the events are, and how many were found; blocks of files without an index."""
        low, high, unit, first, after, entries = [], [], [], [], [], 0
        blocks = self.blocks
        may = self.possible.symbol(probe.symbol)
        for file in self._stored.files:
            places = slice(file.begin, file.begin + len(file.groups))
            held = may[places]
            found = self._entries(file, probe)
            if found is None:
                low.append(blocks.low[places][held])
                high.append(blocks.high[places][held])
                unit.append(blocks.unit[places][held])
                first.append(blocks.first[places][held])
                after.append(first[-1] + blocks.rows[places][held])
                continue
            rows, times = found
            assert file.light is not None
            block = np.searchsorted(file.light.first, rows, "right") - 1
            kept = held[block]
            block, entries = block[kept] + file.begin, entries + int(kept.sum())
            low.append(blocks.low[block] if times is None else times[0][kept])
            high.append(blocks.high[block] if times is None else times[1][kept])
            unit.append(blocks.unit[block])
            begins = blocks.first[places][:1]  # none of a file without rows
            first.append(rows[kept] + begins if len(begins) else rows[kept])
            after.append(first[-1] + 1)
        spots = Spots(np.concatenate(low), np.concatenate(high))
        places_of = (np.concatenate(unit), np.concatenate(first), np.concatenate(after))
        return SymbolSpots(spots, *places_of), entries

    def _entries(
        self, file: StoredFile, probe: Probe
    ) -> tuple[Int64s, tuple[Int64s, Int64s] | None] | None:
        """The rows of a file that all indexed attributes allow, and the ticks that they lie in."""
        runs = {name: run for name in probe.ranges if (run := self._run(file, name))}
        if not runs or file.light is None:
            return None
        each = [run.probe(probe.ranges[name], self._stream.time) for name, run in runs.items()]
        rows = reduce(lambda a, b: np.intersect1d(a, b, True), [found.rows for found in each])
        times = each[0].times
        unit = file.footer.time_unit(self._stream)
        if times is None or unit is None:
            return rows, None
        about = file.light.about.get(self._stream.time)
        unit = unit if about is None else about["unit"] or unit
        times = times[np.searchsorted(each[0].rows, rows)]
        if unit == self._source.tick:
            return rows, (times, times)
        if unit % self._source.tick == 0:
            times = times * (unit // self._source.tick)
            return rows, (times, times)
        coarse = self._source.tick // unit
        return rows, (times // coarse, -(-times // coarse))

    def _run(self, file: StoredFile, name: str) -> SortedRun | None:
        if file.manifest is None or name not in file.manifest.on:
            return None
        place = (file.name, name)
        if place not in self._runs:
            path = folder_of(file.name) / file.manifest.on[name].name
            if path not in self._files:
                self._files[path] = RunFile(file.name, file.manifest, name)
            self._runs[place] = self._files[path].part_of(file.manifest)
        return self._runs[place]

    def close(self) -> None:
        for opened in self._files.values():
            opened.close()


def symbol_ranges(symbol: Symbol, stream: Stream) -> dict[str, tuple[ValueRange, ...]]:
    """By attribute, ranges outside of which no event is one of a symbol."""
    found: dict[str, tuple[ValueRange, ...]] = {}
    for condition in _conjuncts(symbol, stream):
        for name in sorted(ex.attributes(condition)):
            ranges = ranges_of(condition, name)
            if ranges is not None:
                known = found.get(name)
                found[name] = _both(known, tuple(ranges))
    return found


def _conjuncts(symbol: Symbol, stream: Stream) -> Iterator[ex.Expression]:
    for predicate in symbol.predicates:
        yield from ex.conjuncts(predicate)
    if symbol.type == ANY_TYPE:
        return
    condition = stream.types.get(symbol.type)
    if condition is None and stream.type is not None:
        yield ex.Comparison("=", ex.Attribute("", stream.type), ex.Literal(symbol.type))
    elif condition is not None and stream.type is None:
        yield from ex.conjuncts(condition)


def _both(
    known: tuple[ValueRange, ...] | None, more: tuple[ValueRange, ...]
) -> tuple[ValueRange, ...]:
    """The ranges of two conditions that both hold; `x > 1 AND x < 5` is one range."""
    if known is None:
        return more
    if len(known) != 1 or len(more) != 1:
        return min(known, more, key=len)
    (a,), (b,) = known, more
    try:
        low, has_low = a.low, a.has_low
        if low is None or (b.low is not None and b.low >= low):
            has_low = b.has_low and (has_low or low != b.low)
            low = b.low if b.low is not None else low
        high, has_high = a.high, a.has_high
        if high is None or (b.high is not None and b.high <= high):
            has_high = b.has_high and (has_high or high != b.high)
            high = b.high if b.high is not None else high
    except TypeError:
        return known
    return (ValueRange(low, high, has_low, has_high),)


def probes_of(prober: Prober, symbols: Iterable[Symbol]) -> list[Probe]:
    """All that can be looked up, the most selective first."""
    if not prober.has_runs:
        return []
    found = [probe for symbol in symbols if (probe := prober.probe_of(symbol)) is not None]
    return sorted(found, key=lambda probe: (probe.expected, str(probe.symbol)))
