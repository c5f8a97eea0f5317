"""The statistics that cost models read, as one frozen value."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal as OneOf

from optimizer.folding import FALSE
from optimizer.ir.pattern import Symbol
from optimizer.statistics.predicates import Symbols, joint_text, joint_texts, local_text
from workloads.errors import SheafError
from workloads.expressions import Expression
from workloads.model import KeyStatistics as KeyStatistics
from workloads.model import Statistics as Given

Source = OneOf["given", "sampled", "running"]


class MissingStatisticError(SheafError):
    """A cost model needs a number that nobody gave or measured; says which, and what to do."""


@dataclass(frozen=True, slots=True)
class Sample:
    """What estimates rest on: how many events were looked at, and pairs for each predicate."""

    events: int
    seed: int
    pairs: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Statistics(Given):
    """What is known of a stream, in the form that cost models ask for.

    `rates` are events per second by type, or by symbol as printed (`A[x > 5]`). `selectivities`
    are from 0 to 1: of joint predicates by their name (`optimizer/statistics/predicates.py`), of a
    local predicate by `A.x > 5`, and of all of a symbol's local predicates by the symbol. `keys`
    are by the key's attributes, joined by commas. `ties` is the share of events that are
    simultaneous with another; `span` is in seconds. `assumed` names what is only a default.
    """

    source: Source = "given"
    sample: Sample | None = None
    assumed: tuple[str, ...] = ()

    def rate(self, symbol: Symbol) -> float:
        """Events per second of a symbol."""
        if (known := self.rates.get(str(symbol))) is not None:
            return known
        if (rate := self.rates.get(symbol.type)) is None:
            raise MissingStatisticError(
                f"the rate of '{symbol.type}' is not known; give it under statistics.rates, in "
                "events per second, or measure it from events"
            )
        return rate * self.local(symbol)

    def local(self, symbol: Symbol) -> float:
        """The share of a type's events that satisfy all local predicates of a symbol."""
        if (known := self.selectivities.get(str(symbol))) is not None and symbol.predicates:
            return known
        if FALSE in symbol.predicates:
            return 0.0
        texts = [local_text(symbol, predicate) for predicate in symbol.predicates]
        for text in texts:
            if text not in self.selectivities:
                raise _unknown_selectivity(text)
        return math.prod(self.selectivities[text] for text in texts)

    def selectivity(self, condition: Expression, symbols: Symbols) -> float:
        """The share of combinations of events that satisfy a joint predicate."""
        for text in joint_texts(condition, symbols):
            if (known := self.selectivities.get(text)) is not None:
                return known
        raise _unknown_selectivity(joint_text(condition, symbols))

    def key(self, attributes: tuple[str, ...]) -> KeyStatistics:
        """How a key spreads the events; without attributes all have the same."""
        if not attributes:
            return ONE_KEY
        name = key_text(attributes)
        if name not in self.keys:
            raise MissingStatisticError(
                f"the number of values of the key '{name}' is not known; measure it from events, "
                "or ask for defaults"
            )
        return self.keys[name]

    @property
    def total_rate(self) -> float:
        """Events per second of the whole stream, of whatever type."""
        if self.events is None or not self.span:
            raise MissingStatisticError(
                "how many events the stream has in how many seconds is not known, which a window "
                "counted in events needs; measure it from events, or ask for defaults"
            )
        return self.events / self.span

    def updated(
        self,
        *,
        rates: Mapping[str, float] | None = None,
        selectivities: Mapping[str, float] | None = None,
        keys: Mapping[str, KeyStatistics] | None = None,
        ties: float | None = None,
        events: int | None = None,
        span: float | None = None,
        source: Source = "running",
    ) -> Statistics:
        """The same with newer numbers in the place of some; what is not named stays."""
        measured = {
            *(assumption("rates", name) for name in rates or ()),
            *(assumption("selectivities", name) for name in selectivities or ()),
            *(assumption("keys", name) for name in keys or ()),
        }
        if events is not None and span is not None:
            measured.add(assumption("events", "span"))
        return replace(
            self,
            rates={**self.rates, **(rates or {})},
            selectivities={**self.selectivities, **(selectivities or {})},
            keys={**self.keys, **(keys or {})},
            ties=self.ties if ties is None else ties,
            events=self.events if events is None else events,
            span=self.span if span is None else span,
            source=source,
            assumed=tuple(name for name in self.assumed if name not in measured),
        )


ONE_KEY = KeyStatistics(1.0, 1.0)


def key_text(attributes: tuple[str, ...]) -> str:
    """What a partition key is called."""
    return ", ".join(attributes)


def assumption(kind: str, name: str) -> str:
    """How `assumed` names a number: `rates: A`."""
    return f"{kind}: {name}"


def _unknown_selectivity(text: str) -> MissingStatisticError:
    return MissingStatisticError(
        f"the selectivity of '{text}' is not known; give it under statistics.selectivities, from "
        "0 to 1, or measure it from events"
    )
