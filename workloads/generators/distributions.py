"""What an attribute's values are drawn from: frozen values that draw whole arrays.

A distribution of strings draws codes, positions in its `labels()`; all others draw the values
themselves. Nothing here makes a Python object per event.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from workloads.errors import SheafError

ColumnKind = Literal["float", "int", "string", "bool"]
Scalar: TypeAlias = bool | int | float | str
Values: TypeAlias = npt.NDArray[Any]

# A Zipf distribution keeps one double per key, a string key its label: this bounds both.
MAX_KEYS = 10_000_000

_KINDS: dict[type, ColumnKind] = {bool: "bool", int: "int", float: "float", str: "string"}
_DTYPES: dict[ColumnKind, type[np.generic]] = {
    "bool": np.bool_,
    "int": np.int64,
    "float": np.float64,
    "string": np.int64,
}


class SpecError(SheafError, ValueError):
    """A stream that cannot be generated, with what was given and what is allowed."""


def dtype_of(kind: ColumnKind) -> type[np.generic]:
    """The numpy type that a draw of this kind has; strings are drawn as codes."""
    return _DTYPES[kind]


@dataclass(frozen=True, slots=True)
class Uniform:
    """Floats, uniform in [low, high)."""

    low: float = 0.0
    high: float = 1.0

    def __post_init__(self) -> None:
        if not (math.isfinite(self.low) and math.isfinite(self.high) and self.low < self.high):
            raise SpecError(f"Uniform needs finite low < high, not {self.low} and {self.high}")

    @property
    def kind(self) -> ColumnKind:
        return "float"

    def draw(self, rng: np.random.Generator, count: int) -> Values:
        return rng.random(count) * (self.high - self.low) + self.low

    def labels(self) -> pa.Array:
        return _strings(())


@dataclass(frozen=True, slots=True)
class Integers:
    """Integers, uniform in [low, high): `high - low` different values."""

    low: int
    high: int

    def __post_init__(self) -> None:
        if not -(2**63) <= self.low < self.high <= 2**63 - 1:
            raise SpecError(
                f"Integers needs low < high within 64 bits, not {self.low} and {self.high}"
            )

    @property
    def kind(self) -> ColumnKind:
        return "int"

    def draw(self, rng: np.random.Generator, count: int) -> Values:
        return rng.integers(self.low, self.high, count)

    def labels(self) -> pa.Array:
        return _strings(())


@dataclass(frozen=True, slots=True)
class Constant:
    """One value, always."""

    value: Scalar

    def __post_init__(self) -> None:
        _kind_of((self.value,))

    @property
    def kind(self) -> ColumnKind:
        return _kind_of((self.value,))

    def draw(self, rng: np.random.Generator, count: int) -> Values:
        value = 0 if isinstance(self.value, str) else self.value
        return np.full(count, value, dtype_of(self.kind))

    def labels(self) -> pa.Array:
        return _strings((self.value,))


@dataclass(frozen=True, slots=True)
class OneOfValues:
    """One of the given values, equally often or by the given weights."""

    values: tuple[Scalar, ...]
    weights: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "values", tuple(self.values))
        _kind_of(self.values)
        if self.weights is not None:
            object.__setattr__(self, "weights", tuple(self.weights))
            if len(self.weights) != len(self.values):
                raise SpecError(
                    f"Choice has {len(self.values)} values but {len(self.weights)} weights"
                )
            cumulative(self.weights, "Choice weights")

    @property
    def kind(self) -> ColumnKind:
        return _kind_of(self.values)

    def draw(self, rng: np.random.Generator, count: int) -> Values:
        if self.weights is None:
            codes = rng.integers(0, len(self.values), count)
        else:
            codes = pick(cumulative(self.weights, "Choice weights"), rng.random(count))
        return codes if self.kind == "string" else np.array(self.values)[codes]

    def labels(self) -> pa.Array:
        return _strings(self.values)


@dataclass(frozen=True, slots=True)
class Keys:
    """Keys 0 to count - 1, as integers or, with a prefix, as strings such as `u17`.

    With skew s, key k comes in proportion to (k + 1) ** -s: Zipf's law, 0 for uniform.
    """

    count: int
    skew: float = 0.0
    prefix: str | None = None

    def __post_init__(self) -> None:
        if not 1 <= self.count <= MAX_KEYS:
            raise SpecError(f"Keys takes 1 to {MAX_KEYS:,} keys, not {self.count:,}")
        if not (math.isfinite(self.skew) and self.skew >= 0):
            raise SpecError(f"Keys needs a skew of 0 or more, not {self.skew}")

    @property
    def kind(self) -> ColumnKind:
        return "int" if self.prefix is None else "string"

    def draw(self, rng: np.random.Generator, count: int) -> Values:
        if self.skew == 0:
            return rng.integers(0, self.count, count)
        return pick(_zipf_cumulative(self.count, self.skew), rng.random(count))

    def labels(self) -> pa.Array:
        if self.prefix is None:
            return _strings(())
        numbers = pa.array(np.arange(self.count)).cast(pa.string())
        return pc.binary_join_element_wise(self.prefix, numbers, "")


Distribution: TypeAlias = Uniform | Integers | Constant | OneOfValues | Keys


def cumulative(weights: Sequence[float], what: str) -> npt.NDArray[np.float64]:
    """The running share of the weights, ending in exactly 1; refuses what is no weight."""
    array = np.asarray(weights, dtype=np.float64)
    if array.size == 0 or not np.all(np.isfinite(array)) or array.min() < 0 or array.sum() <= 0:
        raise SpecError(f"{what} must be finite, none negative and not all zero: {list(weights)}")
    shares: npt.NDArray[np.float64] = np.cumsum(array) / array.sum()
    # Rounding must not leave a gap below 1 that an entry of weight zero would fall into.
    shares[np.flatnonzero(array)[-1] :] = 1.0
    return shares


def pick(shares: npt.NDArray[np.float64], uniforms: npt.NDArray[np.float64]) -> Values:
    """The entry that each uniform number in [0, 1) falls into."""
    return np.searchsorted(shares, uniforms, side="right")


@lru_cache(maxsize=8)
def _zipf_cumulative(count: int, skew: float) -> npt.NDArray[np.float64]:
    ranks = np.arange(1, count + 1, dtype=np.float64)
    shares = np.cumsum(ranks**-skew)
    shares /= shares[-1]
    return shares


def _strings(values: Sequence[Scalar]) -> pa.Array:
    return pa.array([value for value in values if isinstance(value, str)], pa.string())


def _kind_of(values: Sequence[Scalar]) -> ColumnKind:
    kinds = {_KINDS.get(type(value)) for value in values}
    if len(kinds) != 1 or None in kinds:
        raise SpecError(
            f"values must be all str, all int, all float or all bool: {list(values)[:10]}"
        )
    kind = kinds.pop()
    assert kind is not None
    if kind == "float" and not all(math.isfinite(v) for v in values if isinstance(v, float)):
        raise SpecError(f"values must be finite: {list(values)[:10]}")
    return kind
