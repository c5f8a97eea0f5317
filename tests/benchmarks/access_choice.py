"""How what is read of stored events is chosen: by which estimates, for many queries, how fast."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, median

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from engines.access.build_index import build_indexes
from engines.access.choice import access_document, read_columns
from engines.access.footers import open_footers
from engines.access.made_spots import MadeSpots
from engines.access.possible import PossibleEvents
from engines.access.probe_choice import ProbeOffers, SpotsByProbes
from engines.access.probes import Prober
from engines.access.ranks import Ranks
from engines.access.reading_cost import AccessCosts, ReadingCost
from engines.access.stored_blocks import open_stored
from engines.access.symbol_spots import Clock, SymbolSpots, spots_in_blocks
from engines.input.batches import FileSource
from engines.input.event_table import Faults
from engines.input.query_columns import needed_columns
from optimizer.access.anchors import NeededEvents, needed_events
from optimizer.bind.binder import load_bound
from optimizer.ir.pattern import Symbol
from optimizer.ir.query import BoundWorkload
from tests.benchmarks.measuring import Goal

JOINT_QUERIES = 100
MANY_COMPONENTS = 32
NAMES = ("x1", "x2", "x3")
HOUR = 3_600_000  # milliseconds


def jointly_read(events: Path, names: Sequence[str], widths: Sequence[float]) -> Goal:
    """Bytes that many queries read one by one, for each that they read together.

    Their components ask for so much of an attribute's domain.
    """
    draw = random.Random(5)
    queries = [_pattern(draw, 2, names, widths, 300, f"q{n}") for n in range(JOINT_QUERIES)]
    together, *alone = (_bytes(events, some) for some in (queries, *([q] for q in queries)))
    wide = f"{max(widths):.2%}".replace(".00", "")
    text = f"bytes of {JOINT_QUERIES} queries over up to {wide} of a domain, one by one by together"
    numbers = {"together": float(together), "one by one": float(sum(alone))}
    return Goal("access", "joint", text, 5.0, sum(alone) / max(together, 1), numbers=numbers)


def _bytes(events: Path, queries: Sequence[str]) -> int:
    """What a run of these queries reads, as `auto` chooses."""
    workload = _bound(queries)
    found = access_document(str(events), workload)
    if "bytes" in found:
        return int(found["bytes"])
    source = FileSource(str(events), workload.stream, Faults())
    columns = needed_columns(workload, source.schema.names)
    return int(open_footers(source).sizes(columns).sum())


def choice_time(events: Path, name: str) -> Goal:
    """Milliseconds in which the probes of a pattern of many components are chosen."""
    draw = random.Random(6)
    taken = []
    for _ in range(5):
        widths = (1e-3, 1e-2, 0.05, 0.1)
        workload = _bound([_pattern(draw, MANY_COMPONENTS, (name,), widths, 300, "q")])
        with _opened(events, workload) as choice:
            began = time.perf_counter()
            ProbeOffers.of(choice.needs, choice.spots, choice.reading, "greedy").chosen()
            taken.append(1000 * (time.perf_counter() - began))
    text = f"milliseconds to choose probes for {MANY_COMPONENTS} components"
    return Goal("access", "choice", text, 70.0, median(taken), at_least=False)


def estimates(folder: Path, events: int, group_rows: int) -> Iterator[Goal]:
    """How far expected row groups are from those that probes leave, for all sets of probes."""
    draw = np.random.default_rng(4)
    uniform = {"ts": np.arange(events), **{name: draw.random(events) for name in NAMES}}
    for name, columns, most in (
        ("uniform", uniform, 0.05),
        ("bursty", _in_bursts(events), 0.3),
    ):
        path = folder / name / "events.parquet"
        path.parent.mkdir()
        kinds = np.array(["A", "B"])[draw.integers(0, 2, events)]
        pq.write_table(pa.table({"kind": kinds, **columns}), path, row_group_size=group_rows)
        build_indexes(str(path), NAMES)
        window = 300 if name == "uniform" else HOUR // 6
        found = random.Random(7)
        patterns = [
            _pattern(found, size, NAMES, (1e-5, 1e-4, 1e-3), window, "q")
            for size in (2, 3, 4)
            for _ in range(8)
        ]
        errors = [error for pattern in patterns for error in _errors(path, pattern)]
        text = f"error of expected costs, {name} values, mean over {len(errors)} sets of probes"
        costs, groups = zip(*errors, strict=True)
        numbers = {
            "median": median(costs),
            "row groups, mean": mean(groups),
            "row groups, median": median(groups),
        }
        yield Goal("access", name, text, most, mean(costs), False, numbers)


def _in_bursts(events: int) -> dict[str, np.ndarray]:
    """A day of events with hours that have twenty times as many, and values that follow them."""
    draw = np.random.default_rng(3)
    hours = max(events // 1_700, 24)
    rate = np.where(draw.random(hours) < 0.15, 20.0, 1.0)
    rate *= 1.5 + np.sin(np.arange(hours) / 24 * 2 * np.pi)
    hour = np.repeat(np.arange(hours), draw.multinomial(events, rate / rate.sum()))
    ts = np.sort(hour * HOUR + draw.integers(0, HOUR, events))
    dense = rate[hour] > 5
    return {
        "ts": ts,
        "x1": np.mod(0.5 + 0.5 * np.sin(0.7 * hour) + draw.normal(0, 0.3, events), 1.0),
        "x2": draw.random(events) * np.where(dense, 1.0, 0.1),
        "x3": draw.zipf(1.3, events) % 300 / 300,
    }


def _errors(path: Path, pattern: str) -> Iterator[tuple[float, float]]:
    """How far off the predicted cost and row groups of each set of probes are, relatively."""
    with _opened(path, _bound([pattern])) as choice:
        offers = ProbeOffers.of(choice.needs, choice.spots, choice.reading, "greedy")
        found = {probe.symbol: choice.prober.spots(probe)[0] for probe in offers.probes}
        for option in offers.problem.queries[0]:
            probed = {offers.probes[number].symbol for number in option.probes}

            def spots_of(symbol: Symbol, probed: set[Symbol] = probed) -> SymbolSpots:
                return found[symbol] if symbol in probed else choice.spots.by_blocks(symbol)

            if probed:
                part = choice.reading.part(choice.needs[0], spots_of)
                spent = sum(offers.prices[number] for number in option.probes)
                cost = spent + choice.reading.of_parts([part])
                expected = offers.problem.cost(option.probes)
                actual = int(part.units.sum())
                stands = offers.problem.rows / np.maximum(choice.reading.rows, 1)
                off = abs(float(stands[option.units].sum()) - actual) / max(actual, 1)
                yield abs(expected - cost) / cost, off


@dataclass(frozen=True, eq=False)
class _Choice:
    """What a choice of probes is made from."""

    needs: list[NeededEvents]
    spots: SpotsByProbes
    reading: ReadingCost
    prober: Prober


@contextmanager
def _opened(events: Path, workload: BoundWorkload) -> Iterator[_Choice]:
    source = FileSource(str(events), workload.stream, Faults())
    needs = [needed_events(query) for query in workload.queries]
    stored = open_stored(open_footers(source))
    columns = read_columns(needs, workload.stream)
    blocks = stored.blocks(source, workload.stream, sorted(columns))
    possible = PossibleEvents(blocks, workload.stream)
    rows = np.array([rows for file in stored.files for rows in file.footer.rows], np.int64)
    always = blocks.always_units(stored.units)
    costs = AccessCosts.of(len(columns) + 1, workload.queries)
    prober = Prober(stored, blocks, possible, source, workload.stream)
    clock = Clock(source.tick, 1, Ranks(blocks))
    spots = SpotsByProbes(spots_in_blocks(blocks, possible), prober, MadeSpots.of(needs, clock))
    try:
        yield _Choice(needs, spots, ReadingCost(always, rows, costs, clock), prober)
    finally:
        prober.close()
        stored.close()


def _pattern(
    draw: random.Random,
    size: int,
    names: Sequence[str],
    widths: Sequence[float],
    window: int,
    query: str,
) -> str:
    """A sequence of so many components, each of which asks for a range of an attribute."""
    asked = []
    for place in range(size):
        width = draw.choice(widths)
        low = draw.random() * (1 - width)
        name = f"c{place}.{draw.choice(names)}"
        asked.append(f"{name} > {low:.6f} AND {name} < {low + width:.6f}")
    parts = ", ".join(f"{draw.choice('AB')} c{place}" for place in range(size))
    where = " AND ".join(asked)
    return f"QUERY {query} PATTERN SEQ({parts}) WHERE {where} RETURN c0.ts WITHIN {window} ms"


def _bound(queries: Sequence[str]) -> BoundWorkload:
    stream = {"time": "ts", "type": "kind", "unit": "ms"}
    return load_bound({"name": "access", "stream": stream, "queries": list(queries)})
