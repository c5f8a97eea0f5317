"""Many queries that construct matches: what they have in common made once, and one by one."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from tests.benchmarks.matching import AllSought, all_sought, stocks, warm_up_matching
from tests.benchmarks.measuring import Measured, Row, Said, Size, measure
from tests.benchmarks.queries import called
from tests.benchmarks.streams import TYPES

if TYPE_CHECKING:
    import pyarrow as pa

NAME = "detection"
WIDTH = 60
_EVENTS = {10: 100_000, 50: 50_000, 200: 20_000}
_OFTEN, _SELDOM = TYPES[:6], TYPES[6:]
KINDS = ("prefix", "suffix", "middle", "negations")  # where a piece stands
_EACH = 5  # queries that have a piece in common


def by_workload_size(size: Size) -> Iterator[Row]:
    """10, 50 and 200 queries that construct matches: shared against each by itself.

    Related queries come in fives that have a piece of three frequent types in common: as their
    prefix, suffix or middle, with rarer ones around it, or with different negations in it.
    Unrelated ones are drawn. 20 types, a window of 60 events. "planned" and "separate" follow plans
    of the events' statistics, with sharing and without; "unplanned" trees are chosen on the events,
    and shared. All without the time to plan or to choose, in the thread's own processor time, to
    columns of matches; then whole runs of the two plans, to result rows.
    """
    warm_up_matching()
    numbers = tuple(_EVENTS) if size == "full" else (5,)
    for kind, draw in (("related", related), ("unrelated", unrelated)):
        ratios = {}
        for number in numbers:
            title = f"to columns of matches, {kind} queries"
            row = _finding(title, called(number), draw(number), _events(number, size), size)
            yield row
            ratios[str(number)] = row.ratios["separate"]
        yield Said(
            NAME,
            f"Of {kind} queries, planned sharing finds the matches "
            + ", ".join(f"of {number} {ratio:.2g}" for number, ratio in ratios.items())
            + " times as fast as each query by itself.",
            ratios,
        )
    for where in KINDS if size == "full" else ():
        title = "to columns of matches, 50 queries that are related in one way"
        yield _finding(title, where, related(50, where), _events(50, size), size)
    yield from (_whole(number, size) for number in numbers)


def related(number: int, kind: str | None = None) -> list[str]:
    """Queries in fives with a piece of three in common, of one kind or of any."""
    draw = random.Random(number)
    found = []
    for i in range(number):
        if i % _EACH == 0:
            a, b, c = draw.sample(_OFTEN, 3)
            where = kind or draw.choice(KINDS)
        first, second = draw.sample(_SELDOM, 2)
        piece = f"{a} a, {b} b, {c} c"
        pattern = {
            "prefix": f"{piece}, {first} x, {second} y",
            "suffix": f"{first} x, {second} y, {piece}",
            "middle": f"{first} x, {piece}, {second} y",
            "negations": f"{a} a, {b} b, !{first} n, {c} c, !{second} m, {_SELDOM[0]} x",
        }[where]
        found.append(_text(i, pattern))
    return found


def unrelated(number: int) -> list[str]:
    """Queries of four types each, drawn alike."""
    draw = random.Random(number)
    found = []
    for i in range(number):
        parts = zip(draw.sample(TYPES, 4), "abcd", strict=True)
        found.append(_text(i, ", ".join(f"{kind} {alias}" for kind, alias in parts)))
    return found


def _text(number: int, pattern: str) -> str:
    return (
        f"QUERY q{number} PATTERN SEQ({pattern}) WHERE a.price < b.price RETURN a.ts"
        f" WITHIN {WIDTH} ms"
    )


def _events(number: int, size: Size) -> int:
    return _EVENTS[number] if size == "full" else 500


def priced_events(number: int) -> pa.Table:
    """Events of all types, some of them more frequent, with a price."""
    from workloads.generators import Attribute, Uniform

    rates = dict.fromkeys(_OFTEN, 10.0) | dict.fromkeys(_SELDOM, 3.0)
    return stocks(rates, number, {"price": Attribute(Uniform(0, 1))})


def _asked(texts: list[str], events: int) -> AllSought:
    return all_sought(texts, priced_events(events))


def _finding(title: str, case: str, texts: list[str], events: int, size: Size) -> Measured:
    asked = _asked(texts, events)
    variants = {
        "planned": asked.by_plan(asked.plan()),
        "unplanned": asked.by_choice(),
        "separate": asked.by_plan(asked.plan(sharing=False)),
    }
    seconds = measure(variants, size, time.thread_time)
    return Measured(NAME, title, f"{case}, {events:,} events", events, seconds)


def _whole(number: int, size: Size) -> Measured:
    from tests.benchmarks.planned import stored

    events = _events(number, size)
    asked = _asked(related(number), events)
    with stored(asked.events.table) as there:
        variants = {
            "shared": there.running(asked.plan(), clock=time.thread_time),
            "separate": there.running(asked.plan(sharing=False), clock=time.thread_time),
        }
        seconds = measure(variants, size)
    title = "whole runs to result rows, related queries"
    return Measured(NAME, title, f"{called(number)}, {events:,} events", events, seconds)
