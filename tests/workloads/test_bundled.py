"""The bundled workloads load, hold every query of their sources, and fit their streams."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cache
from itertools import combinations, islice
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from engines import reference
from optimizer.bind.binder import load_bound
from optimizer.ir.pattern import events as all_events
from optimizer.ir.query import BoundWorkload, Query
from workloads import bundled
from workloads.errors import SheafError
from workloads.generators import SpecError, generate_table
from workloads.generators.query_groups import GROUPS, TICKERS, query_group
from workloads.generators.spec import TICKS_PER_SECOND
from workloads.loading import load_workload
from workloads.workload import AttributeKind, Workload

SOURCES = {
    "shop": {
        "A-Seq's Q1-Q5": [f"q{i}" for i in range(1, 6)],
        "A-Seq's running example and negation": ["touch_case", "case_unprompted"],
    },
    "stocks": {
        "A-Seq's q1-q9": [f"aseq_q{i}" for i in range(1, 10)],
        "A-Seq's WL1": [f"wl1_q{i}" for i in range(1, 6)],
        "NEEL's figures 10-19": [f"neel_{i}" for i in range(10, 20)],
        "ZStream's queries 1-8": [f"zstream_{i}" for i in range(1, 9)],
        "the Odense thesis' queries 5-15": [f"odense_{i}" for i in range(5, 16)],
    },
    "driving": {"TPStream's listing 5.1": ["aggressive"]},
    "machines": {},
    "funnels": {},
    "hospital": {
        "NEEL's Q1": ["q1", "q1_part_1", "q1_part_2", "q1_part_3"],
        "NEEL's examples": ["example_1", "example_2", "example_3"],
    },
}


@cache
def workload(name: str) -> Workload:
    return load_workload(bundled.path(name))


@cache
def events(name: str) -> pa.Table:
    return generate_table(bundled.stream(name))


def kinds(table: pa.Table) -> dict[str, AttributeKind]:
    names: dict[pa.DataType, AttributeKind] = {
        pa.int64(): "int",
        pa.float64(): "float",
        pa.string(): "string",
        pa.bool_(): "bool",
    }
    return {field.name: names[field.type] for field in table.schema}


def test_there_are_those_of_its_sources() -> None:
    assert set(bundled.names()) == set(SOURCES)


@pytest.mark.parametrize("name", bundled.names())
def test_it_loads_under_its_name(name: str) -> None:
    assert workload(name).name == name


@pytest.mark.parametrize("name", bundled.names())
def test_it_binds_to_the_columns_of_its_stream(name: str) -> None:
    bound = load_bound(bundled.path(name), kinds(events(name)))
    names = {query.name for query in bound.queries if query.name not in edges(bound)}
    assert names == {query.name for query in workload(name).queries}


@pytest.mark.parametrize("name", bundled.names())
def test_every_query_of_its_sources_is_there(name: str) -> None:
    found = {query.name for query in workload(name).queries}
    for source, queries in SOURCES[name].items():
        assert set(queries) <= found, source


@pytest.mark.parametrize("name", bundled.names())
def test_its_declared_attributes_are_the_columns_of_its_stream(name: str) -> None:
    stream, columns = workload(name).stream, kinds(events(name))
    own = {stream.time, stream.sequence}
    assert {k: v for k, v in columns.items() if k not in own} == dict(stream.attributes)
    assert own <= set(columns)
    assert bundled.stream(name).unit == stream.unit


@pytest.mark.parametrize("name", bundled.names())
def test_its_rates_are_those_of_its_stream(name: str) -> None:
    stream, table = workload(name).stream, events(name)
    times = table.column(stream.time).to_numpy()
    seconds = (times[-1] - times[0]) / {"s": 1, "ms": 1000}[stream.unit]
    rates = workload(name).statistics.rates
    assert set(rates) == set(stream.types)
    for kind, rate in rates.items():
        count = int(np.sum(instances(name, kind)))
        assert count / seconds == pytest.approx(rate, rel=0.03 + 5 / count**0.5), kind


def instances(name: str, kind: str) -> np.ndarray:
    """Which events are of a type; the few conditions of the bundled types, by hand."""
    table, stream = events(name), workload(name).stream
    if stream.types[kind] is None:
        mask = pc.equal(table.column(stream.type), kind)
    elif name in ("shop", "funnels"):
        item = {"KindleFire": "fire"}.get(kind[1:], kind[1:].lower())
        action = {"V": "View", "B": "Buy"}[kind[0]]
        mask = pc.and_(
            pc.equal(table.column("action"), action), pc.equal(table.column("item"), item)
        )
    else:
        mask = {
            "Trade": lambda: pc.is_valid(table.column("price")),
            "ColdWash": lambda: pc.and_(
                pc.equal(table.column("step"), "Washing"),
                pc.less(table.column("temperature"), 60),
            ),
            "Failed": lambda: pc.invert(table.column("passed")),
        }[kind]()
    return pc.fill_null(mask, False).to_numpy()


def edges(bound: BoundWorkload) -> dict[str, Query]:
    """The queries that make events of the starts and ends of situations, by the type of these."""
    return {q.name: q for q in bound.queries if q.name.startswith(("start(", "end("))}


def pieces(name: str, query: Query) -> Iterator[list[dict[str, Any]]]:
    """Stretches of up to a window and a half of one key's events, all that the query speaks of."""
    spec = bundled.stream(name)
    width: float = math.inf
    if not query.window.is_count:
        width = 1.5 * query.window.ticks(10**9 // TICKS_PER_SECOND[spec.unit])
    table = events(name)
    if not query.window.is_count:
        kinds = {event.symbol.type for event in all_events(query.pattern)}
        made = {kind for kind in kinds if kind.startswith(("start(", "end("))}
        kinds = kinds - made | (set(workload(name).stream.types) if made else set())
        table = table.filter(pa.array(np.logical_or.reduce([instances(name, k) for k in kinds])))
    growing: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for batch in table.to_batches(max_chunksize=1_000):
        for event in batch.to_pylist():
            key = tuple(event[column] for column in query.key)
            piece = growing.setdefault(key, [])
            if piece and event["ts"] - piece[0]["ts"] > width:
                yield growing.pop(key)
                piece = growing.setdefault(key, [])
            piece.append(event)
    yield from growing.values()


def small_enough(text: str, piece: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """A sample of the events, small enough for brute force, where that is as good as all.

    A match of a pattern without negation and without successive events needs only its own
    events: a match in the sample is one in the stream.
    """
    if any(word in text for word in ("!", "^", "ALL", "DEFINE", "start(", "end(")):
        return piece
    return piece[:: len(piece) // 80 + 1]


@pytest.mark.slow
@pytest.mark.parametrize("name", bundled.names())
def test_every_query_finds_something_in_its_stream(name: str) -> None:
    bound = load_bound(bundled.path(name))
    texts = {query.name: query.text for query in workload(name).queries}
    barren = []
    made = edges(bound)
    for query in bound.queries:
        if query.name in made:
            continue
        read = {event.symbol.type for event in all_events(query.pattern)} & set(made)
        alone = replace(bound, queries=(*(made[kind] for kind in sorted(read)), query))
        found = (
            reference.run(alone, small_enough(texts[query.name], piece))
            for piece in islice(pieces(name, query), 200)
        )
        if not any(found):
            barren.append(query.name)
    assert barren == []


def test_a_stream_takes_another_length_and_seed() -> None:
    spec = bundled.stream("shop", events=10, seed=3)
    assert (spec.events, spec.seed) == (10, 3)
    assert bundled.stream("shop").events > 10


def test_an_unknown_name_is_an_error_that_names_the_known() -> None:
    for function in (bundled.path, bundled.stream):
        with pytest.raises(SheafError, match=r"hospital, machines, shop, stocks \(did you mean"):
            function("shopp")


def test_the_readme_has_a_line_for_each() -> None:
    text = bundled.path("shop").with_name("README.md").read_text(encoding="utf-8")
    for name in bundled.names():
        assert f"| `{name}.yaml` |" in text


# --- A-Seq's query groups


def patterns(document: Mapping[str, Any]) -> list[tuple[str, ...]]:
    return [
        tuple(query.split("SEQ(")[1].split(")")[0].split(", ")) for query in document["queries"]
    ]


@pytest.mark.parametrize("number", range(1, GROUPS + 1))
def test_a_query_group_follows_the_recipe(number: int) -> None:
    document, spec = query_group(number, seed=4)
    assert load_bound(document).name == f"query_group_{number}"
    found = patterns(document)
    assert len(found) == len(set(found)) == (8, 12, 16, 20)[(number - 1) // 3]
    assert all(4 <= len(p) <= 12 and len(set(p)) == len(p) for p in found)
    assert set(spec.rates) == set(TICKERS)
    assert sum(spec.rates.values()) == pytest.approx(1000)
    assert query_group(number, seed=4) == (document, spec)
    assert query_group(number, seed=5)[0] != document


def benefits(document: Mapping[str, Any]) -> dict[tuple[str, ...], float]:
    """A-Seq's benefit value (equation 4.4) of every substring that two queries have in common."""
    found, rates = patterns(document), document["statistics"]["rates"]
    counts: dict[tuple[str, ...], int] = {}
    for pattern in found:
        for i, j in combinations(range(len(pattern) + 1), 2):
            if j - i >= 2:
                counts[pattern[i:j]] = counts.get(pattern[i:j], 0) + 1
    n = sum(rates.values()) / len(rates)  # of each type in a window of a second
    result = {}
    for substring, k in counts.items():
        if k >= 2:
            f, length = rates[substring[0]] / n, len(substring)
            result[substring] = n**2 * k * (length + f) - n**3 * f * k - n**2 * f * length
    return result


@pytest.mark.parametrize("number", range(1, GROUPS + 1))
def test_sharing_pays_in_the_groups_where_it_paid(number: int) -> None:
    for seed in range(3):
        values = benefits(query_group(number, seed)[0])
        worth = [substring for substring, value in values.items() if value > 0]
        if number in (3, 5, 6):
            assert not worth
        else:
            assert len(worth) >= 8


def test_the_frequency_of_the_connect_events_can_be_set() -> None:
    rates = query_group(1, connect_share=0.0025)[1].rates
    assert sorted(rates.values())[:8] == pytest.approx([2.5] * 8)
    assert min(query_group(3)[1].rates.values()) == 50


def test_there_is_no_thirteenth_group() -> None:
    with pytest.raises(SpecError, match="1 to 12, not 13"):
        query_group(13)
