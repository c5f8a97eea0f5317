"""Queries that come to a stream later give what they would give over a stream that began then."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from engines.input.event_table import from_table
from engines.live.bucket import Bucket
from engines.local.slices import between
from tests.differential.test_bucket import table_of, turns
from tests.differential.test_live import ANY
from tests.differential.test_slices import MILLISECOND, cases, disorder_of, multiset
from tests.running import generation_of, run_local
from tests.strategies import has_sequence
from workloads.errors import UnsupportedError


def part(workload, queries):
    return replace(workload, queries=tuple(queries))


@settings(max_examples=40)
@given(cases(ANY, max_size=14), st.lists(st.integers(0, 4), max_size=6), st.integers(0, 10))
def test_each_generation_sees_the_stream_from_its_own_beginning(case, sizes, since):
    workload, rows = case
    assume(len(workload.queries) > 1)
    table = table_of(rows, has_sequence(workload))
    old, new = part(workload, workload.queries[::2]), part(workload, workload.queries[1::2])
    events = from_table(table, workload.stream)
    try:
        expected = [run_local(old, events), run_local(new, between(events, since + 1, None))]
        generations = {"0": generation_of(old), "1": generation_of(new, since)}
        bucket = Bucket(generations, table.schema, MILLISECOND)
        found, state = turns(bucket, table, sizes, disorder_of(rows), eager=False)
        rest = [] if state is None else [bucket.finish(state).results]
    except UnsupportedError:
        return
    assert multiset(found + rest) == multiset(expected)


@settings(max_examples=40)
@given(cases(ANY, max_size=14), st.lists(st.integers(0, 4), max_size=6), st.integers(0, 4))
def test_queries_that_stay_when_others_go_lose_nothing(case, sizes, moment):
    """All queries for a while, then some of them with what all have left."""
    workload, rows = case
    assume(len(workload.queries) > 1)
    table = table_of(rows, has_sequence(workload))
    stays = part(workload, workload.queries[::2])
    lateness = disorder_of(rows)
    try:
        expected = run_local(stays, from_table(table, workload.stream))
        before = Bucket({"0": generation_of(workload)}, table.schema, MILLISECOND)
        after = Bucket({"0": generation_of(stays)}, table.schema, MILLISECOND)
        found, state = turns(_Changing(before, after, moment), table, sizes, lateness, eager=True)
        rest = [] if state is None else [after.finish(state).results]
    except UnsupportedError:
        return
    names = {query.name for query in stays.queries}
    for rows_found, wanted in zip(multiset(found + rest), multiset([expected]), strict=True):
        assert {row: n for row, n in rows_found.items() if row[0] in names} == wanted


class _Changing:
    """Takes its first turns as one bucket, and the others as another."""

    def __init__(self, before, after, moment):
        self._buckets, self._left = [before, after], moment

    def turn(self, *arguments):
        self._left -= 1
        return self._buckets[0 if self._left >= 0 else 1].turn(*arguments)
