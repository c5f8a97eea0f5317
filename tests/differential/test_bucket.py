"""A bucket gives the rows of the stored stream, in whatever order its events come."""

from __future__ import annotations

import struct

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engines.input.event_table import from_table
from engines.limits import StateError
from engines.live.bucket import HOME, Bucket, buckets_of
from optimizer.bind.binder import load_bound
from tests.differential.test_live import ANY
from tests.differential.test_slices import COLUMNS, MILLISECOND, cases, disorder_of, multiset
from tests.running import generation_of, run_local
from tests.strategies import has_sequence
from workloads.errors import UnsupportedError
from workloads.workload import Stream

STREAM = {"time": "ts", "unit": "ms", "type": "kind"}
SCHEMA = pa.schema(COLUMNS)


def table_of(rows, sequence=False):
    columns = COLUMNS | ({"seq": pa.int64()} if sequence else {})
    return pa.Table.from_pylist(rows, pa.schema(columns))


def turns(bucket, table, sizes, lateness, eager):
    """What each turn gave, the last state and the last time; a turn is taken when one is due."""
    found, state, due, latest, start, until = [], None, None, None, 0, None
    for size in [*sizes, table.num_rows, 0]:
        part = table.slice(start, size)
        start += part.num_rows
        until = None if latest is None else latest - lateness - 1
        passed = due is not None and until is not None and due <= until
        if part.num_rows or eager or passed:
            turn = bucket.turn(state, [part] if part.num_rows else [], until)
            assert turn.late.num_rows == 0
            found.append(turn.results)
            state, due = turn.state, turn.due
            assert due is None or until is None or due > until
        if part.num_rows:
            highest = max(part.column("ts").to_pylist())
            latest = highest if latest is None else max(latest, highest)
    return found, state


@settings(max_examples=150, deadline=None)
@given(cases(ANY, max_size=14), st.lists(st.integers(0, 4), max_size=6), st.integers(0, 2))
def test_any_order_of_arrival_gives_the_rows_of_the_stored_stream(case, sizes, slack):
    workload, rows = case
    table = table_of(rows, has_sequence(workload))
    lateness = disorder_of(rows) + slack
    try:
        expected = run_local(workload, from_table(table, workload.stream))
        bucket = Bucket({"0": generation_of(workload)}, table.schema, MILLISECOND)
        eager, _ = turns(bucket, table, sizes, lateness, eager=True)
        lazy, state = turns(bucket, table, sizes, lateness, eager=False)
        rest = [] if state is None else [bucket.finish(state).results]
    except UnsupportedError:
        return
    # A turn that is not due would have given nothing.
    assert multiset(lazy) == multiset(eager)
    assert multiset(lazy + rest) == multiset([expected])


def counting(**stream):
    query = "QUERY n PATTERN SEQ(A a, B b) PARTITION BY k AGG COUNT(*) WITHIN 10 ms"
    return load_bound({"stream": STREAM | stream, "queries": [query]})


def event(ts, kind):
    return {"ts": ts, "kind": kind, "k": 1, "x": None, "y": None}


def test_events_that_come_too_late_are_given_back_once():
    workload = counting()
    bucket = Bucket({"0": generation_of(workload)}, SCHEMA, MILLISECOND)
    first = bucket.turn(None, [table_of([event(5, "A"), event(9, "B")])], None)
    late = table_of([event(3, "A"), event(4, "A"), event(6, "A")])
    late = late.append_column(HOME, pa.array([True, False, True]))
    turn = bucket.turn(first.state, [late], 5)
    # That of time 4 is another bucket's to answer for, and that of time 6 is not late.
    assert turn.late.to_pylist() == [event(3, "A")]
    assert turn.waiting == 2
    counts = bucket.turn(turn.state, [], 9).results.aggregates.column("count").to_pylist()
    assert counts == [2]


def test_a_bucket_that_holds_nothing_has_no_state():
    bucket = Bucket({"0": generation_of(counting())}, SCHEMA, MILLISECOND)
    turn = bucket.turn(None, [table_of([event(5, "A")])], None)
    assert turn.due == 5
    turn = bucket.turn(turn.state, [], 5)
    assert turn.held["n"].events == 1
    assert turn.state is not None
    assert 0 < turn.held["n"].bytes < len(turn.state)
    assert turn.due == 15
    assert bucket.turn(turn.state, [], 14).state is not None
    last = bucket.turn(turn.state, [], 15)
    assert (last.state, last.due, last.held) == (None, None, {"n": (0, 0)})


def test_a_column_that_was_not_known_is_null_in_what_waits():
    narrow = pa.schema([("ts", pa.int64()), ("kind", pa.string()), ("k", pa.int64())])
    waiting = Bucket({"0": generation_of(counting())}, narrow, MILLISECOND).turn(
        None, [table_of([event(5, "A")]).select(narrow.names)], None
    )
    turn = Bucket({"0": generation_of(counting())}, SCHEMA, MILLISECOND).turn(
        waiting.state, [table_of([event(9, "B")])], 4
    )
    assert turn.waiting == 2


def test_a_damaged_state_is_refused():
    bucket = Bucket({"0": generation_of(counting())}, SCHEMA, MILLISECOND)
    state = bucket.turn(None, [table_of([event(5, "A")])], None).state
    assert state is not None
    with pytest.raises(StateError, match="damaged"):
        bucket.turn(state[:60] + b"?" + state[61:], [], 9)


def bucketed(table, key, number=8):
    """Each bucket with the row of the event, which its time tells."""
    events = from_table(table, Stream("ts"))
    return dict(zip(events.ticks.tolist(), buckets_of(events, key, number).tolist(), strict=True))


@given(
    st.lists(st.tuples(st.sampled_from(["", "a", "ab", "b\0", "é", None]), st.booleans())),
    st.randoms(),
)
def test_a_key_is_in_the_same_bucket_whatever_is_around_it(keys, random):
    columns = {"ts": range(len(keys)), "u": [u for u, _ in keys], "v": [v for _, v in keys]}
    schema = pa.schema([("ts", pa.int64()), ("u", pa.string()), ("v", pa.bool_())])
    table = pa.table({n: pa.array(c, schema.field(n).type) for n, c in columns.items()})
    whole = bucketed(table, ("u", "v"))
    rows = random.sample(range(len(keys)), len(keys) // 2)
    some = bucketed(table.take(pa.array(rows, pa.int64())), ("u", "v"))
    assert all(whole[row] == some[row] for row in rows)
    assert all((whole[i] == -1) == (u is None) for i, (u, _) in enumerate(keys))


def mixed(value):
    """The finalizer of splitmix64, in integers without a size."""
    value = (value ^ value >> 30) * 0xBF58476D1CE4E5B9 % 2**64
    value = (value ^ value >> 27) * 0x94D049BB133111EB % 2**64
    return value ^ value >> 31


def number_of(value):
    if isinstance(value, str):
        prime = 0x100000001B3
        return mixed(sum((b + 1) * prime**i for i, b in enumerate(value.encode())) % 2**64)
    if isinstance(value, float):
        return int.from_bytes(struct.pack("<d", value + 0.0), "little")
    return value % 2**64


def test_buckets_stay_what_they_are():
    # A saved state is of the keys of its bucket: what they are in must never change.
    columns = {
        "u": ["", "a", "user-17", "日本"],
        "i": [0, 1, -1, 2**40],
        "f": [-0.0, 0.0, 1.5, -2.25],
    }
    table = pa.table({"ts": [0, 1, 2, 3], **columns})
    for name, values in columns.items():
        expected = [mixed(number_of(value)) % 1000 for value in values]
        assert list(bucketed(table, (name,), 1000).values()) == expected
    both = [
        mixed((mixed(number_of(u)) * 0x100000001B3 + number_of(i)) % 2**64) % 1000
        for u, i in zip(columns["u"], columns["i"], strict=True)
    ]
    assert list(bucketed(table, ("u", "i"), 1000).values()) == both


def test_many_keys_spread_evenly():
    table = pa.table({"ts": np.arange(20_000), "u": [f"user-{i}" for i in range(20_000)]})
    sizes = np.bincount(list(bucketed(table, ("u",), 16).values()), minlength=16)
    assert sizes.min() > 1_000
    sizes = np.bincount(list(bucketed(table, ("ts",), 16).values()), minlength=16)
    assert sizes.min() > 1_000
