"""What a generated stream is like: `StreamSpec`, checked when it is made."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

from workloads.errors import did_you_mean
from workloads.generators.distributions import ColumnKind, Distribution, SpecError, cumulative

Unit = Literal["s", "ms", "us", "ns"]
Arrivals = Literal["poisson", "regular"]

TICKS_PER_SECOND: dict[Unit, int] = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


@dataclass(frozen=True, slots=True)
class Attribute:
    """An attribute's column: its values for every type, for some types, and how many are null.

    `values` of None leaves the attribute null for the types that `by_type` does not name.
    """

    values: Distribution | None
    by_type: Mapping[str, Distribution] = field(default_factory=dict)
    nulls: float = 0.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "by_type", dict(self.by_type))
        kinds = {distribution.kind for distribution in self.distributions()}
        if not kinds:
            raise SpecError("an attribute needs values, for all types or for some")
        if len(kinds) > 1:
            raise SpecError(f"an attribute's values are of one kind, not {_listed(kinds)}")
        if not 0 <= self.nulls <= 1:
            raise SpecError(f"nulls is a share between 0 and 1, not {self.nulls}")

    @property
    def kind(self) -> ColumnKind:
        return next(self.distributions()).kind

    def distributions(self) -> Iterator[Distribution]:
        """All that it may be drawn from."""
        if self.values is not None:
            yield self.values
        yield from self.by_type.values()


@dataclass(frozen=True, slots=True)
class Phase:
    """A stretch of the stream with rates or attributes of its own, in place of the stream's."""

    events: int
    rates: Mapping[str, float] | None = None
    attributes: Mapping[str, Attribute] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.events < 1:
            raise SpecError(f"a phase has at least one event, not {self.events}")
        if self.rates is not None:
            object.__setattr__(self, "rates", dict(self.rates))
        object.__setattr__(self, "attributes", dict(self.attributes))


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamSpec:
    """A stream of events, the same for the same spec.

    - `rates`: events per second by type; an event's type is independent of all others.
    - `events`, `seed`: how many, and which of the many streams like this. A shorter stream is the
      beginning of a longer one, and a column does not depend on which others there are.
    - `unit`, `start`, `timestamps`: ticks of the time column, the tick before the first event,
      and whether to write ticks as timestamps.
    - `arrivals`: `poisson` (memoryless gaps) or `regular` (even gaps); at least one tick either
      way but for ties.
    - `ties`: the share of events that have the same time as the one before.
    - `disorder`: an event may come after others that are up to so many ticks later.
    - `phases`: followed one after the other, then from the first again.
    - `time`, `type`, `sequence`: names of columns; no type or sequence column where None. The
      sequence number is the event's place in order of time.
    """

    rates: Mapping[str, float]
    events: int
    seed: int = 0
    attributes: Mapping[str, Attribute] = field(default_factory=dict)
    phases: tuple[Phase, ...] = ()
    unit: Unit = "ms"
    start: int = 0
    timestamps: bool = False
    arrivals: Arrivals = "poisson"
    ties: float = 0.0
    disorder: int = 0
    time: str = "ts"
    type: str | None = "type"
    sequence: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "rates", dict(self.rates))
        object.__setattr__(self, "attributes", dict(self.attributes))
        object.__setattr__(self, "phases", tuple(self.phases))
        _at_least("events", self.events, 0)
        _at_least("seed", self.seed, 0)
        _at_least("disorder", self.disorder, 0)
        _one_of("unit", self.unit, TICKS_PER_SECOND)
        _one_of("arrivals", self.arrivals, ("poisson", "regular"))
        if not 0 <= self.ties < 1:
            raise SpecError(f"ties is a share, at least 0 and less than 1, not {self.ties}")
        self._check_columns()
        self._check_types(self.rates, self.attributes)
        for number, phase in enumerate(self.phases, start=1):
            self._check_phase(number, phase)
        for phase in self.stages():
            self._check_gaps(phase)

    @property
    def types(self) -> tuple[str, ...]:
        """All types, in the order in which rates were given."""
        return tuple(self.rates)

    def stages(self) -> tuple[Phase, ...]:
        """The phases, or the one endless phase that a stream without phases is."""
        return self.phases or (Phase(events=max(1, self.events)),)

    def rates_in(self, phase: Phase) -> dict[str, float]:
        """The rate of every type in a phase; a type that the phase leaves out does not occur."""
        rates = self.rates if phase.rates is None else phase.rates
        return {name: rates.get(name, 0.0) for name in self.types}

    def attribute_in(self, phase: Phase, name: str) -> Attribute:
        """An attribute as it is in a phase."""
        return phase.attributes.get(name, self.attributes[name])

    def mean_gap(self, phase: Phase) -> float:
        """Ticks from an event to the next one that is not tied with it, on average."""
        total = math.fsum(self.rates_in(phase).values())
        return TICKS_PER_SECOND[self.unit] / total / (1 - self.ties)

    def _check_columns(self) -> None:
        columns = [self.time, self.sequence, self.type, *self.attributes]
        named = [column for column in columns if column is not None]
        if any(not column for column in named):
            raise SpecError("a column's name is empty")
        twice = sorted({column for column in named if named.count(column) > 1})
        if twice:
            raise SpecError(f"two columns are called {_listed(twice)}")

    def _check_types(
        self, rates: Mapping[str, float], attributes: Mapping[str, Attribute], where: str = ""
    ) -> None:
        cumulative(list(rates.values()), f"rates{where}")
        for name, attribute in attributes.items():
            _known(attribute.by_type, self.types, f"type of attribute '{name}'{where}")

    def _check_phase(self, number: int, phase: Phase) -> None:
        where = f" in phase {number}"
        _known(phase.rates or (), self.types, f"type{where}")
        _known(phase.attributes, tuple(self.attributes), f"attribute{where}")
        self._check_types(self.rates_in(phase), phase.attributes, where)
        for name, attribute in phase.attributes.items():
            usual = self.attributes[name].kind
            if attribute.kind != usual:
                raise SpecError(f"attribute '{name}' is {usual}, but {attribute.kind}{where}")

    def _check_gaps(self, phase: Phase) -> None:
        gap = self.mean_gap(phase)
        if gap < 1 - 1e-9:
            total = math.fsum(self.rates_in(phase).values())
            needed = 1 - TICKS_PER_SECOND[self.unit] / total
            raise SpecError(
                f"{total:g} events a second do not fit into ticks of one {self.unit}: take a "
                f"finer unit, or ties of at least {needed:.3g}"
            )
        # Arrivals are counted in half ticks, and gaps may come out longer than their mean.
        last = self.start + self.disorder + 2 * gap * self.events
        if not -(2**62) < self.start <= last < 2**62:
            raise SpecError("the stream's times go beyond 2 ** 62 ticks")


def _at_least(what: str, value: int, least: int) -> None:
    if value < least:
        raise SpecError(f"{what} is {least} or more, not {value}")


def _one_of(what: str, value: str, allowed: Mapping[Unit, int] | tuple[str, ...]) -> None:
    if value not in allowed:
        raise SpecError(f"{what} is one of {', '.join(allowed)}, not '{value}'")


def _known(names: Mapping[str, object] | tuple[()], known: tuple[str, ...], what: str) -> None:
    for name in names:
        if name not in known:
            hint = did_you_mean(name, known) or f"known are {', '.join(known)}"
            raise SpecError(f"unknown {what}: '{name}'; {hint}")


def _listed(names: object) -> str:
    assert isinstance(names, (list, set))
    return ", ".join(sorted(str(name) for name in names))
