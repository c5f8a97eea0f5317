"""Which statistics queries need, which of them are missing, and defaults for those."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from optimizer.ir.pattern import Symbol
from optimizer.ir.query import Query
from optimizer.statistics.known import KeyStatistics, Statistics, assumption, key_text
from optimizer.statistics.predicates import joint_texts, local_text, symbols_of
from workloads import expressions as ex


@dataclass(frozen=True, slots=True)
class Defaults:
    """What is assumed where nothing is known; those of predicates are System R's.

    A rate is the mean of the known ones where there are any.
    """

    rate: float = 1.0
    equality: float = 1 / 10
    comparison: float = 1 / 3
    other: float = 1 / 2
    key: KeyStatistics = KeyStatistics(10.0, 0.1)  # noqa: RUF009 - a frozen value

    def selectivity(self, predicate: ex.Expression) -> float:
        """Of a predicate, by its form alone (Selinger et al. 1979, table 1)."""
        match predicate:
            case ex.Comparison("="):
                return self.equality
            case ex.Comparison("!="):
                return 1 - self.equality
            case ex.Comparison():
                return self.comparison
            case ex.Membership(_, values, negated):
                member = min(self.other, len(values) * self.equality)
                return 1 - member if negated else member
            case ex.IsNull(_, negated):
                return 1 - self.equality if negated else self.equality
            case ex.Not(operand):
                return 1 - self.selectivity(operand)
            case ex.Logical("AND", parts):
                share = 1.0
                for part in parts:
                    share *= self.selectivity(part)
                return share
            case ex.Logical(_, parts):
                none = 1.0
                for part in parts:
                    none *= 1 - self.selectivity(part)
                return 1 - none
            case _:
                return self.other


class _Need(NamedTuple):
    """One number that is not known: its kind and name, and its default."""

    kind: str
    name: str
    default: float | KeyStatistics


def missing(statistics: Statistics, queries: Iterable[Query]) -> tuple[str, ...]:
    """What the queries need and nobody gave, such as `rates: A`, each once."""
    found = (_needs(statistics, query, Defaults()) for query in queries)
    return tuple(dict.fromkeys(assumption(n.kind, n.name) for needs in found for n in needs))


def with_defaults(
    statistics: Statistics, queries: Iterable[Query], defaults: Defaults | None = None
) -> Statistics:
    """The statistics with a default for all that the queries need and nobody gave.

    `assumed` names those; nothing that is known changes.
    """
    asked = list(queries)
    defaults = defaults or Defaults()
    if statistics.rates:
        mean = sum(statistics.rates.values()) / len(statistics.rates)
        defaults = replace(defaults, rate=mean)
    needs = {
        assumption(need.kind, need.name): need
        for query in asked
        for need in _needs(statistics, query, defaults)
    }
    filled = replace(
        statistics,
        rates={**statistics.rates, **_of("rates", needs)},
        selectivities={**statistics.selectivities, **_of("selectivities", needs)},
        keys={**statistics.keys, **_of("keys", needs)},
        assumed=(*statistics.assumed, *needs),
    )
    if any(need.kind == "events" for need in needs.values()):
        # As if the stream had no events but those whose rates are known.
        types = {s.type for query in asked for s in symbols_of(query.pattern).values()}
        total = sum(filled.rates.get(name, 0.0) for name in types)
        filled = replace(filled, events=1_000_000, span=1e6 / max(total, 1e-9))
    return filled


def _of(kind: str, needs: Mapping[str, _Need]) -> dict[str, Any]:
    return {need.name: need.default for need in needs.values() if need.kind == kind}


def _needs(statistics: Statistics, query: Query, defaults: Defaults) -> Iterator[_Need]:
    symbols = symbols_of(query.pattern)
    for symbol in dict.fromkeys(symbols.values()):
        yield from _rate(statistics, symbol, defaults)
    for condition in query.conditions:
        texts = tuple(joint_texts(condition, symbols))
        if ex.aliases(condition) and not any(t in statistics.selectivities for t in texts):
            yield _Need("selectivities", texts[0], defaults.selectivity(condition))
    if query.key and key_text(query.key) not in statistics.keys:
        yield _Need("keys", key_text(query.key), defaults.key)
    if query.window.is_count and (statistics.events is None or not statistics.span):
        yield _Need("events", "span", 0.0)


def _rate(statistics: Statistics, symbol: Symbol, defaults: Defaults) -> Iterator[_Need]:
    if str(symbol) in statistics.rates:
        return
    if symbol.type not in statistics.rates:
        yield _Need("rates", symbol.type, defaults.rate)
    if str(symbol) in statistics.selectivities:
        return
    for predicate in symbol.predicates:
        text = local_text(symbol, predicate)
        if text not in statistics.selectivities:
            yield _Need("selectivities", text, defaults.selectivity(predicate))
