"""A limit on partial matches stops one query, or drops its oldest, and leaves the others alone."""

import json
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest

from engines.columns.columns import Columns
from engines.input.event_table import Events, from_table
from engines.limits import Ledger, Limits, PartialLimit
from engines.matching.trees.buffers import Buffer, SelectedEvents
from engines.matching.trees.evaluation import SharedBuffers, most_at_once
from engines.reference.oracle import run_oracle
from engines.results.tables import Results
from optimizer.bind.binder import load_bound
from optimizer.ir.pattern import events as components
from optimizer.ir.query import BoundWorkload
from tests.differential.test_local import multiset
from tests.running import How, run_local

WIDTH = 30


def workload(*patterns: str, key: bool = False) -> BoundWorkload:
    where = "PARTITION BY k " if key else ""
    return load_bound(
        {
            "name": "limited",
            "stream": {"time": "ts", "unit": "ms", "type": "kind", "sequence": "n"},
            "queries": [
                f"QUERY q{i} PATTERN {pattern} {where}RETURN a.n, b.n, c.n WITHIN {WIDTH} ms"
                for i, pattern in enumerate(patterns)
            ],
        }
    )


def stream(bound: BoundWorkload, seed: int = 0, size: int = 120) -> Events:
    random = np.random.default_rng(seed)
    table = pa.table(
        {
            "ts": np.cumsum(random.choice([0, 1, 2, 5], size)),
            "n": range(size),
            "kind": random.choice(list("ABC"), size),
            "k": random.integers(0, 2, size),
            "x": random.integers(0, 9, size),
        }
    )
    return from_table(table, bound.stream)


def run(
    bound: BoundWorkload, events: Events, limit: PartialLimit, **how: object
) -> tuple[Results, Ledger]:
    ledger = Ledger()
    way = How(detection="left", partial=limit, **how)
    return run_local(bound, events, how=way, ledger=ledger), ledger


def of_query(results: Results, name: str) -> Counter[str]:
    rows = results.matches.to_pylist()
    return Counter(row["match"] for row in rows if row["query"] == name)


@pytest.mark.parametrize("sharing", [True, False])
def test_a_query_that_reaches_the_limit_is_stopped_alone(sharing: bool) -> None:
    bound = workload("SEQ(A a, B b, C c)", "SEQ(A a, B b, C c) WHERE a.x = b.x")
    events = stream(bound)
    found, ledger = run(bound, events, PartialLimit(12), sharing=sharing)
    assert ledger.stopped.keys() == {"q0"}
    assert "query q0 is stopped" in ledger.stopped["q0"]
    assert "the limit is 12" in ledger.stopped["q0"]
    assert not of_query(found, "q0")
    assert of_query(found, "q1") == of_query(run_oracle(bound, events), "q1")
    assert of_query(found, "q1")


def test_below_the_limit_nothing_changes() -> None:
    bound = workload("SEQ(A a, B b, C c)", "AND(A a, B b, C c) WHERE a.x = b.x")
    events = stream(bound)
    for on_limit in ("stop", "drop-oldest"):
        found, ledger = run(bound, events, PartialLimit(10_000, on_limit))
        assert multiset(found) == multiset(run_oracle(bound, events))
        assert ledger == Ledger(dropped=ledger.dropped)
        assert not sum(ledger.dropped.values())


def pairs(events: Events, key: bool) -> list[tuple[int, int]]:
    """The rows of `A; B` in one window, by the row of B."""
    kind, ticks = events.table["kind"].to_pylist(), events.ticks.tolist()
    keys = events.table["k"].to_pylist() if key else [0] * len(ticks)
    return [
        (a, b)
        for b in range(len(kind))
        for a in range(b)
        if (kind[a], kind[b]) == ("A", "B") and ticks[b] - ticks[a] < WIDTH and keys[a] == keys[b]
    ]


@pytest.mark.parametrize("key", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_the_limit_is_reached_when_one_key_has_more_at_a_time(key: bool, seed: int) -> None:
    bound = workload("SEQ(A a, B b, C c)", key=key)
    events = stream(bound, seed)
    found, ticks = pairs(events, key), events.ticks.tolist()
    keys = events.table["k"].to_pylist()
    # How many are there when one more comes: those of its key whose window is still open.
    most = max(
        sum(
            1
            for a, b in found[: i + 1]
            if ticks[found[i][1]] < ticks[a] + WIDTH and (not key or keys[b] == keys[found[i][1]])
        )
        for i in range(len(found))
    )
    for limit, stopped in ((most, False), (most - 1, True)):
        _, ledger = run(bound, events, PartialLimit(limit))
        assert bool(ledger.stopped) == stopped
    assert f"holds {most:,} partial" in ledger.stopped["q0"]


def newest_of_each_event(
    made: list[tuple[int, int]], most: int
) -> tuple[list[tuple[int, int]], int]:
    """Of the pairs that one B completes those with the latest A, and how many others there are."""
    kept = [
        pair
        for pair in made
        if sum(other[1] == pair[1] and other[0] > pair[0] for other in made) < most
    ]
    return kept, len(made) - len(kept)


@pytest.mark.parametrize("key", [False, True])
@pytest.mark.parametrize("most", [1, 5, 20])
def test_the_oldest_are_dropped_and_counted(most: int, key: bool) -> None:
    bound = workload("SEQ(A a, B b, C c)", key=key)
    events = stream(bound, 5)
    kind, ticks = events.table["kind"].to_pylist(), events.ticks.tolist()
    keys = events.table["k"].to_pylist()
    expected: Counter[str] = Counter()
    made, dropped = newest_of_each_event(pairs(events, key), most)
    for c in range(len(kind)):
        if kind[c] != "C":
            continue
        before = [p for p in made if p[1] < c and (not key or keys[p[1]] == keys[c])]
        # Those that ended with the oldest that is kept are kept too.
        since = before[-most][1] if len(before) > most else -1
        joined = [(a, b) for a, b in before if b >= since and ticks[c] - ticks[a] < WIDTH]
        dropped += max(0, len(joined) - most)
        expected += Counter(
            json.dumps({"a": {"n": a}, "b": {"n": b}, "c": {"n": c}}, separators=(",", ":"))
            for a, b in joined[-most:]
        )
    for value in set(keys) if key else {0}:
        mine = [p for p in made if not key or keys[p[1]] == value]
        dropped += sum(
            1
            for old, new in zip(mine, mine[most:], strict=False)
            if ticks[new[1]] < ticks[old[0]] + WIDTH and old[1] < new[1]
        )
    found, ledger = run(bound, events, PartialLimit(most, "drop-oldest"))
    assert of_query(found, "q0") == expected
    assert ledger.dropped["q0"] == dropped > 0
    assert not ledger.stopped


@pytest.mark.parametrize("detection", ["left", "right"])
def test_and_keeps_the_latest_of_both_sides(detection: str) -> None:
    bound = workload("AND(C c, SEQ(A a, B b))")
    events = stream(bound, 2)
    kind, ticks = events.table["kind"].to_pylist(), events.ticks.tolist()
    made, _ = newest_of_each_event(pairs(events, key=False), 3)
    completed: Counter[int] = Counter()
    for c in (i for i, k in enumerate(kind) if k == "C"):
        before = [p for p in made if p[1] < c]
        since = before[-3][1] if len(before) > 3 else -1
        # A C is a single event and waits for later pairs as long as its window is open.
        kept = [p for p in before if p[1] >= since] + [p for p in made if p[1] > c]
        completed.update(
            max(b, c) for a, b in kept if max(ticks[b], ticks[c]) - min(ticks[a], ticks[c]) < WIDTH
        )
    expected = sum(min(3, number) for number in completed.values())
    ledger = Ledger()
    how = How(detection=detection, partial=PartialLimit(3, "drop-oldest"))
    found = run_local(bound, events, how=how, ledger=ledger)
    assert found.matches.num_rows == expected


@pytest.mark.parametrize("pattern", ["SEQ(A a, B b)", "AND(A a, B b)", "SEQ(A a, B+ b)"])
@pytest.mark.parametrize("chunk", [1, 1 << 18])
def test_what_one_event_completes_counts_too(pattern: str, chunk: int) -> None:
    bound = load_bound(
        {
            "name": "limited",
            "stream": {"time": "ts", "unit": "ms", "type": "kind", "sequence": "n"},
            "queries": [
                f"QUERY q0 PATTERN {pattern} RETURN a.n, b.n WITHIN {WIDTH} ms",
                f"QUERY q1 PATTERN SEQ(A a, C b) WHERE a.x = b.x RETURN a.n, b.n WITHIN {WIDTH} ms",
            ],
        }
    )
    events = stream(bound, 1)
    whole = run_oracle(bound, events)
    last = [max(_numbers(json.loads(match))) for match in of_query(whole, "q0")]
    most = max(Counter(last).values())
    limits = Limits(chunk=chunk)
    for limit, stopped in ((most, False), (most - 1, True)):
        ledger = Ledger()
        found = run_local(bound, events, limits, How(partial=PartialLimit(limit)), ledger)
        assert bool(ledger.stopped) == stopped, ledger.stopped
        assert of_query(found, "q1") == of_query(whole, "q1")
        assert of_query(found, "q0") <= of_query(whole, "q0")
    assert "one event completes" in ledger.stopped["q0"]
    ledger = Ledger()
    found = run_local(
        bound, events, limits, How(partial=PartialLimit(most - 1, "drop-oldest")), ledger
    )
    assert not ledger.stopped
    kept = [max(_numbers(json.loads(match))) for match in of_query(found, "q0")]
    assert Counter(kept) == {event: min(n, most - 1) for event, n in Counter(last).items()}
    assert ledger.dropped["q0"] == len(last) - len(kept) > 0


def _numbers(match: object) -> list[int]:
    """All numbers in a match: those of its events."""
    if isinstance(match, int):
        return [match]
    parts = match.values() if isinstance(match, dict) else match
    return [number for part in parts for number in _numbers(part)]


def test_what_only_a_stopped_query_reads_is_let_go() -> None:
    shared = SharedBuffers()
    none = np.zeros(0, np.int32)
    mine, common, other = "mine", "common", "other"
    shared.readers.update({mine: 1, common: 2, other: 1})
    for name in (mine, common):
        shared.keep(name, Buffer((none,), none, none))
    shared.renew([])
    assert not shared.known
    assert shared.held == 0


def test_a_query_is_stopped_where_one_window_is_too_much_for_memory() -> None:
    bound = workload("SEQ(A a, B b, C c)")
    ledger = Ledger()
    how = How(detection="bushy", partial=PartialLimit(10**6))  # a walk holds none
    run_local(bound, stream(bound), Limits(chunk=1), how, ledger=ledger)
    assert "one window holds too many partial matches" in ledger.stopped["q0"]


@pytest.mark.parametrize("seed", range(20))
def test_rows_at_once_are_counted_as_one_by_one(seed: int) -> None:
    random = np.random.default_rng(seed)
    bound = workload("SEQ(A a, B b, C c)", key=bool(seed % 2))
    query = bound.queries[0]
    columns = Columns(bound, stream(bound, seed, 60))
    symbols = [event.symbol for event in components(query.pattern)]
    picked = SelectedEvents(columns, query.key, False, symbols, WIDTH)
    last = np.sort(random.integers(0, len(picked), 40)).astype(np.int32)
    first = np.maximum(last - random.integers(0, 6, 40), 0).astype(np.int32)
    near = picked.position[last] - picked.position[first] < WIDTH
    first, last = first[near], last[near]
    at = [
        sum(
            1
            for f, end in zip(first.tolist(), last.tolist(), strict=True)
            if end <= now and picked.position[now] < picked.position[f] + WIDTH
        )
        for now in last.tolist()
    ]
    assert most_at_once(picked, Buffer((last,), first, last), WIDTH) == max(at)
