"""Turns a spec into Arrow columns, one block of rows at a time."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from workloads.generators.distributions import (
    ColumnKind,
    Distribution,
    Values,
    cumulative,
    dtype_of,
    pick,
)
from workloads.generators.spec import StreamSpec

# Rows that are drawn together. Part of what a seed means: changing it changes every stream.
BLOCK_ROWS = 65_536

_ARROW: dict[ColumnKind, pa.DataType] = {
    "float": pa.float64(),
    "int": pa.int64(),
    "string": pa.string(),
    "bool": pa.bool_(),
}


def generator(seed: int, purpose: str, block: int) -> np.random.Generator:
    """The random numbers of one column in one block, independent of all others.

    The kind of generator is named, for `default_rng` may become another one day.
    """
    key = (zlib.crc32(purpose.encode()), block)
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(seed, spawn_key=key)))


def schema(spec: StreamSpec) -> pa.Schema:
    """The columns of a stream: time, sequence, type, then the attributes as given."""
    time = pa.timestamp(spec.unit, tz="UTC") if spec.timestamps else pa.int64()
    fields = [pa.field(spec.time, time, nullable=False)]
    if spec.sequence is not None:
        fields.append(pa.field(spec.sequence, pa.int64(), nullable=False))
    if spec.type is not None:
        fields.append(pa.field(spec.type, pa.string(), nullable=False))
    fields += [pa.field(name, _ARROW[a.kind]) for name, a in spec.attributes.items()]
    return pa.schema(fields)


class PhaseClock:
    """Says for each event of a block which phase it is in."""

    def __init__(self, spec: StreamSpec) -> None:
        self._ends = np.cumsum([phase.events for phase in spec.stages()])

    def phases(self, first: int) -> npt.NDArray[np.int64]:
        if len(self._ends) == 1:
            return np.zeros(BLOCK_ROWS, np.int64)
        places = (first + np.arange(BLOCK_ROWS)) % self._ends[-1]
        numbers: npt.NDArray[np.int64] = np.searchsorted(self._ends, places, side="right")
        return numbers


class TypeColumn:
    """Draws each event's type, as a code, with the rates of its phase."""

    def __init__(self, spec: StreamSpec) -> None:
        self._seed = spec.seed
        self._shares = [
            cumulative(list(spec.rates_in(phase).values()), "rates") for phase in spec.stages()
        ]

    def draw(self, block: int, phases: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        uniforms = generator(self._seed, "type", block).random(BLOCK_ROWS)
        codes = np.empty(BLOCK_ROWS, np.int64)
        for phase in np.flatnonzero(np.bincount(phases)):
            rows = phases == phase
            codes[rows] = pick(self._shares[phase], uniforms[rows])
        return codes


class TimeColumn:
    """Draws the times of successive blocks; remembers where the last one ended."""

    def __init__(self, spec: StreamSpec) -> None:
        self._spec = spec
        self._gaps = np.array([spec.mean_gap(phase) for phase in spec.stages()])
        self._last = spec.start
        self._fraction = 0.0

    def draw(self, block: int, phases: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        rng = generator(self._spec.seed, "time", block)
        means = self._gaps[phases]
        if self._spec.arrivals == "poisson":
            # A geometric gap of at least one tick, by inversion: what an exponential one is
            # where time is counted in ticks. A mean of one tick leaves no choice.
            with np.errstate(divide="ignore"):
                scale = np.log1p(-1 / np.maximum(means, 1))
            gaps = 1 + np.floor(np.log1p(-rng.random(BLOCK_ROWS)) / scale)
        else:
            gaps = np.maximum(means, 1)
        if self._spec.ties > 0:
            tied = rng.random(BLOCK_ROWS) < self._spec.ties
            if block == 0:
                tied[0] = False
            gaps[tied] = 0
        return self._advance(gaps)

    def _advance(self, gaps: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
        """Add up the gaps from where the last block ended, fractions of a tick included."""
        passed = self._fraction + np.cumsum(gaps)
        whole = np.floor(passed).astype(np.int64)
        times = self._last + whole
        self._fraction = float(passed[-1] - whole[-1])
        self._last = int(times[-1])
        return times


@dataclass(frozen=True, slots=True)
class _Source:
    """A distribution with the place of its labels among the column's."""

    distribution: Distribution
    offset: int


class AttributeColumn:
    """Draws one attribute: for each event from what its phase and type say."""

    def __init__(self, spec: StreamSpec, name: str) -> None:
        self.name = name
        self.kind: ColumnKind = spec.attributes[name].kind
        self._seed = spec.seed
        self._sources: list[_Source] = []
        self._labels: list[pa.Array] = []
        attributes = [spec.attribute_in(phase, name) for phase in spec.stages()]
        self._nulls = np.array([attribute.nulls for attribute in attributes])
        # By phase and type: which source to draw from; -1 is null.
        self._which = np.array(
            [[self._source(a.by_type.get(t, a.values)) for t in spec.types] for a in attributes]
        )
        self._dictionary = pa.concat_arrays(self._labels)

    def _source(self, distribution: Distribution | None) -> int:
        if distribution is None:
            return -1
        for number, source in enumerate(self._sources):
            if source.distribution == distribution:
                return number
        self._sources.append(_Source(distribution, sum(len(labels) for labels in self._labels)))
        self._labels.append(distribution.labels())
        return len(self._sources) - 1

    def draw(
        self, block: int, phases: npt.NDArray[np.int64], types: npt.NDArray[np.int64]
    ) -> pa.Array:
        rng = generator(self._seed, f"attribute {self.name}", block)
        values, missing = self._values(rng, phases, types)
        if self._nulls.any():
            absent = rng.random(BLOCK_ROWS) < self._nulls[phases]
            missing = absent if missing is None else missing | absent
        if self.kind != "string":
            return pa.array(values, _ARROW[self.kind], mask=missing)
        return self._dictionary.take(pa.array(values, mask=missing))

    def _values(
        self, rng: np.random.Generator, phases: Values, types: Values
    ) -> tuple[Values, npt.NDArray[np.bool_] | None]:
        if (self._which == 0).all():
            return self._sources[0].distribution.draw(rng, BLOCK_ROWS), None
        which = self._which[phases, types]
        values: Values = np.zeros(BLOCK_ROWS, dtype_of(self.kind))
        for number, source in enumerate(self._sources):
            rows = np.flatnonzero(which == number)
            drawn = source.distribution.draw(rng, len(rows))
            values[rows] = drawn + source.offset if self.kind == "string" else drawn
        return values, which < 0


def labelled(labels: Sequence[str], codes: npt.NDArray[Any]) -> pa.Array:
    """The strings that codes stand for."""
    return pa.array(labels, pa.string()).take(pa.array(codes))
