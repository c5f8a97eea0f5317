"""What is known of a stream: rates, selectivities, keys and ties; those a workload gives, defaults
for those that nobody knows, and all of them as a plain document.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache
from typing import Any, NamedTuple
from typing import Literal as OneOf

from optimizer.bind.conditions import canonical
from optimizer.ir.pattern import (
    Or,
    Pattern,
    Symbol,
    alternatives,
    events,
    walk,
)
from optimizer.ir.query import Query
from optimizer.rewrite.folding import FALSE, fold
from workloads import expressions as ex
from workloads.errors import QueryError, SheafError, TooLargeError
from workloads.expressions import Expression
from workloads.loading import load_statistics
from workloads.parser import parse_condition
from workloads.printing import print_expression
from workloads.workload import KeyStatistics as KeyStatistics
from workloads.workload import Statistics as Given
from workloads.workload import statistics_document

SymbolsByAlias = Mapping[str, Symbol]  # by alias, in the order of the pattern


def symbols_of(pattern: Pattern) -> dict[str, Symbol]:
    """The symbol of every alias, negated ones included, left to right."""
    found: dict[str, Symbol] = {}
    for event in events(pattern):
        found.setdefault(event.alias, event.symbol)
    return found


@lru_cache(1 << 14)
def local_text(symbol: Symbol, predicate: ex.Expression) -> str:
    """`A.x > 5` for the predicate `x > 5` of a symbol of type A."""
    return print_expression(canonical(ex.rename(predicate, {"": symbol.type})))


def joint_text(condition: ex.Expression, symbols: SymbolsByAlias) -> str:
    """The condition's name by symbols: `"A[x > 1]".y < B.y`."""
    return _text(condition, symbols, str)


def joint_texts(condition: ex.Expression, symbols: SymbolsByAlias) -> Iterator[str]:
    """All its names, the most exact first: by symbols, and by their types alone."""
    yield joint_text(condition, symbols)
    yield _text(condition, symbols, lambda symbol: symbol.type)


def _text(condition: ex.Expression, symbols: SymbolsByAlias, call: Callable[[Symbol], str]) -> str:
    named = ex.aliases(condition)
    names: dict[str, str] = {}
    uses: dict[str, int] = {}
    for alias, symbol in symbols.items():
        if alias in named:
            name = call(symbol)
            uses[name] = uses.get(name, 0) + 1
            names[alias] = name if uses[name] == 1 else f"{name}#{uses[name]}"
    return print_expression(canonical(ex.rename(condition, names)))


StatisticsSource = OneOf["given", "sampled", "running"]


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
    are from 0 to 1: of joint predicates by their name (`optimizer/statistics/statistics.py`), of a
    local predicate by `A.x > 5`, and of all of a symbol's local predicates by the symbol. `keys`
    are by the key's attributes, joined by commas. `ties` is the share of events that are
    simultaneous with another; `span` is in seconds. `assumed` names what is only a default.
    """

    source: StatisticsSource = "given"
    sample: Sample | None = None
    assumed: tuple[str, ...] = ()

    def __hash__(self) -> int:
        """Of what is short: all of it is compared where that is equal."""
        return hash((self.source, self.events, self.span, len(self.rates), self.assumed))

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

    def selectivity(self, condition: Expression, symbols: SymbolsByAlias) -> float:
        """The share of combinations of events that satisfy a joint predicate.

        One that speaks of no event is taken to hold.
        """
        if not ex.aliases(condition):
            return 1.0
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

    @property
    def known_span(self) -> float | None:
        """How long the stream is that was measured, in seconds; None where nobody knows.

        What is given with a workload is a rate: so many events in some span.
        """
        if self.source == "given" or assumption("events", "span") in self.assumed:
            return None
        return self.span or None

    def held_seconds(self, window: int) -> float:
        """How much of the stream a window of so many nanoseconds holds: no more than there is."""
        seconds = window / 1e9
        return seconds if self.known_span is None else min(seconds, self.known_span)

    def updated(
        self,
        *,
        rates: Mapping[str, float] | None = None,
        selectivities: Mapping[str, float] | None = None,
        keys: Mapping[str, KeyStatistics] | None = None,
        ties: float | None = None,
        events: int | None = None,
        span: float | None = None,
        source: StatisticsSource = "running",
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


def given(written: Given, queries: Iterable[Query]) -> Statistics:
    """The author's numbers under the names that cost models ask for.

    A predicate may be written with the aliases of any query or with types, in any equal spelling:
    `b.x > a.x` is `a.x < b.x`, and `a.x > 1 + 1` is `a.x > 2`. What names no predicate of the
    queries is kept as it is written, and so is where measured numbers came from.
    """
    selectivities = {
        spelling: value
        for text, value in written.selectivities.items()
        for spelling in _spellings(text)
    }
    found: dict[str, float] = {}
    for query in queries:
        symbols = symbols_of(query.pattern)
        for condition in query.conditions:
            known = selectivities.get(print_expression(condition))
            if known is not None:
                found[joint_text(condition, symbols)] = known
        for alias, symbol in symbols.items():
            found |= _local(alias, symbol, selectivities)
    if isinstance(written, Statistics):
        return replace(written, selectivities={**selectivities, **found})
    return Statistics(
        dict(written.rates),
        {**selectivities, **found},
        dict(written.keys),
        written.ties,
        written.events,
        written.span,
    )


def is_complete(stated: Statistics, queries: Iterable[Query]) -> bool:
    """Whether nothing is missing that the queries need, so that no event has to be looked at."""
    return bool(stated.rates) and not with_defaults(stated, queries).assumed


def with_stated(measured: Statistics, stated: Statistics) -> Statistics:
    """What was measured, with the author's numbers in the place of those that there are."""
    return measured.updated(
        rates=stated.rates,
        selectivities=stated.selectivities,
        keys=stated.keys,
        ties=stated.ties,
        source=measured.source,
    )


def _local(alias: str, symbol: Symbol, selectivities: dict[str, float]) -> dict[str, float]:
    found: dict[str, float] = {}
    for predicate in symbol.predicates if selectivities else ():
        text = print_expression(canonical(ex.rename(predicate, {"": alias})))
        if text in selectivities:
            found[local_text(symbol, predicate)] = selectivities[text]
    return found


def _spellings(text: str) -> tuple[str, ...]:
    """A predicate's canonical spellings, as written and with constants computed.

    A symbol such as `A[x > 5]` stays as it is.
    """
    try:
        condition = parse_condition(text)
    except QueryError:
        return (text,)
    return print_expression(canonical(condition)), print_expression(fold(condition))


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
            case ex.TextTest(_, _, patterns, every, negated):
                found = min(self.other, (1 if every else len(patterns)) * self.equality)
                return 1 - found if negated else found
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
        total = math.fsum(filled.rates.get(name, 0.0) for name in types)
        filled = replace(filled, events=1_000_000, span=1e6 / max(total, 1e-9))
    return filled


def _of(kind: str, needs: Mapping[str, _Need]) -> dict[str, Any]:
    return {need.name: need.default for need in needs.values() if need.kind == kind}


def _needs(statistics: Statistics, query: Query, defaults: Defaults) -> Iterator[_Need]:
    symbols = symbols_of(query.pattern)
    for symbol in dict.fromkeys(symbols.values()):
        yield from _rate(statistics, symbol, defaults)
    for condition in query.conditions:
        for read in (symbols, *_readings(query)):
            texts = tuple(joint_texts(condition, read))
            if ex.aliases(condition) and not any(t in statistics.selectivities for t in texts):
                yield _Need("selectivities", texts[0], defaults.selectivity(condition))
    if query.key and key_text(query.key) not in statistics.keys:
        yield _Need("keys", key_text(query.key), defaults.key)
    if query.window.is_count and (statistics.events is None or not statistics.span):
        yield _Need("events", "span", 0.0)


def _readings(query: Query) -> Iterator[dict[str, Symbol]]:
    """The symbols of each reading of ORs, in which components may stand in another order."""
    if any(isinstance(node, Or) for node in walk(query.pattern)):
        with suppress(TooLargeError):
            yield from map(symbols_of, alternatives(query.pattern))


def _rate(statistics: Statistics, symbol: Symbol, defaults: Defaults) -> Iterator[_Need]:
    if str(symbol) in statistics.rates:
        return
    if symbol.type not in statistics.rates:
        yield _Need("rates", symbol.type, defaults.rate)
    if str(symbol) in statistics.selectivities or FALSE in symbol.predicates:
        return
    for predicate in symbol.predicates:
        text = local_text(symbol, predicate)
        if text not in statistics.selectivities:
            yield _Need("selectivities", text, defaults.selectivity(predicate))


VERSION = 1


class StatisticsDocumentError(SheafError):
    """A document that is no statistics; says what is wrong with it."""


def to_document(statistics: Statistics) -> dict[str, Any]:
    """The statistics as plain values, `version` first."""
    plain: dict[str, Any] = json.loads(json.dumps({"version": VERSION, **asdict(statistics)}))
    return plain


def about(statistics: Statistics) -> dict[str, Any]:
    """All but rates, as a plan carries it along: what its costs rest on."""
    found = to_document(statistics)
    left_out = ("version", "rates", "assumed")
    return {k: v for k, v in found.items() if k not in left_out and v is not None}


def to_written(statistics: Statistics) -> dict[str, Any]:
    """The statistics as a workload has them, with where they came from; numbers to six digits."""
    found = statistics_document(statistics)
    for name in ("rates", "selectivities"):
        if name in found:
            found[name] = {key: _rounded(value) for key, value in found[name].items()}
    for key in found.get("keys", {}).values():
        key["heaviest"] = _rounded(key["heaviest"])
    found["source"] = statistics.source
    if statistics.sample is not None:
        sample = statistics.sample
        found["sample"] = {"events": sample.events, "seed": sample.seed, "pairs": {**sample.pairs}}
    return found


def from_written(document: Any) -> Statistics:
    """Statistics that stand in a file of their own, as `to_written` gives them or people write.

    They may also stand under `statistics`, as in a workload.
    """
    from pydantic import TypeAdapter, ValidationError

    if isinstance(document, Mapping) and "statistics" in document:
        document = document["statistics"]
    if not isinstance(document, Mapping):
        raise StatisticsDocumentError("the file holds no statistics: it is not a map")
    found = load_statistics(document)
    source, sample = document.get("source", "given"), document.get("sample")
    try:
        return Statistics(
            found.rates,
            found.selectivities,
            found.keys,
            found.ties,
            found.events,
            found.span,
            source=TypeAdapter(StatisticsSource).validate_python(source),
            sample=TypeAdapter(Sample | None).validate_python(sample),
        )
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        raise StatisticsDocumentError(
            f"statistics.source or statistics.sample: {first['msg']}"
        ) from error


def _rounded(value: float) -> float:
    return float(f"{value:.6g}")


def from_document(document: Mapping[str, Any]) -> Statistics:
    """The statistics that `to_document` made these values from."""
    from pydantic import TypeAdapter, ValidationError

    if not isinstance(document, Mapping) or document.get("version") != VERSION:
        raise StatisticsDocumentError(
            f"these are not statistics of version {VERSION}; measure them again"
        )
    content = {name: value for name, value in document.items() if name != "version"}
    try:
        return TypeAdapter(Statistics).validate_python(content)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(map(str, first["loc"])) or "the document"
        raise StatisticsDocumentError(f"these are not statistics: {place}: {first['msg']}") from (
            error
        )
