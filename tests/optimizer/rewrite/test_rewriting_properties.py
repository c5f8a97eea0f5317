"""Rewriting never changes a result, ends, ends in the same form whatever the order of rules.

Random queries over random streams, judged by the brute-force reference.
"""

from __future__ import annotations

import random
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from optimizer.ir.fingerprint import fingerprint_pattern
from optimizer.ir.pattern import Proj
from optimizer.ir.query import BoundWorkload
from optimizer.rewrite import normalize as constants
from optimizer.rewrite.body import Body, disjuncts, print_body
from optimizer.rewrite.driver import apply, rewrite
from optimizer.rewrite.normalize import normalize
from optimizer.rewrite.rules import RULES, push_down
from tests.optimizer.rewriting import matches, results, with_body
from tests.strategies import SHAPE, Row, constants_with_rows, queries_with_rows, workloads
from workloads.errors import TooLargeError

Case = tuple[BoundWorkload, list[Row]]

ANY = queries_with_rows()
NESTED = queries_with_rows(nested=True)
CONSTANT = queries_with_rows(replace(SHAPE, ties=False, group_conditions=False))


def same_rows(case: Case, body: Body, why: str) -> None:
    workload, rows = case
    query = workload.queries[0]
    before = results(workload, query, rows)
    after = results(workload, with_body(query, body), rows)
    assert before == after, (why, print_body(body))


@settings(max_examples=150)
@given(st.one_of(ANY, NESTED, CONSTANT))
def test_each_rule_that_fires_keeps_the_rows(case: Case) -> None:
    query = case[0].queries[0]
    try:
        for step in normalize(query, stream=case[0].stream).trace:
            same_rows(case, step.body, step.rule)
    except TooLargeError:
        pass


@settings(max_examples=80)
@given(st.one_of(ANY, NESTED))
def test_each_rule_alone_keeps_the_rows(case: Case) -> None:
    query = case[0].queries[0]
    body = Body(query.pattern, query.conditions)
    try:
        for rule in RULES:
            after = apply(rule, body, triggers=query.is_triggered, stream=case[0].stream)
            if after is not None:
                same_rows(case, after, rule.NAME)
    except TooLargeError:
        pass


QUERIES = st.one_of(workloads(max_queries=1), workloads(max_queries=1, nested=True))


@settings(max_examples=150)
@given(QUERIES)
def test_a_normal_form_is_its_own(workload: BoundWorkload) -> None:
    found = normalize(workload.queries[0], stream=workload.stream)
    again = normalize(found.rewritten, stream=workload.stream)
    assert again.trace == ()
    assert (again.body, again.form, again.notes) == (found.body, found.form, found.notes)


@settings(max_examples=150)
@given(QUERIES, st.integers(0, 2**32))
def test_the_order_in_which_rules_are_tried_does_not_matter(
    workload: BoundWorkload, seed: int
) -> None:
    query = workload.queries[0]
    shuffled = random.Random(seed).sample(RULES, len(RULES))
    body = Body(query.pattern, query.conditions)
    other = rewrite(body, phases=[shuffled], triggers=query.is_triggered).body
    usual = normalize(query, off=[constants.NAME]).body
    # Up to the names of copies, which are given out in the order in which they are made.
    assert fingerprint_pattern(other.pattern, other.conditions) == fingerprint_pattern(
        usual.pattern, usual.conditions
    ), (print_body(usual), print_body(other))


@settings(max_examples=100)
@given(queries_with_rows(replace(SHAPE, keys=False, operators=("SEQ",)), nested=True))
def test_disjuncts_of_one_negation_exclude_each_other(case: Case) -> None:
    workload, rows = case
    query = workload.queries[0]
    body = Body(query.pattern, query.conditions)
    after = apply(push_down, body)
    if after is None:
        return
    try:
        whole = matches(workload, query, rows)
        parts = [
            matches(workload, with_body(query, Body(part, after.conditions)), rows)
            for part in disjuncts(after.pattern)
        ]
    except TooLargeError:
        return
    assert sum(isinstance(part, Proj) for part in disjuncts(after.pattern)) == len(parts) - 1
    seen: set[str] = set()
    for part in parts:
        assert not seen & set(part)
        seen |= set(part)
    assert sum(part.total() for part in parts) == whole.total()
    assert seen == set(whole)


def test_the_strategies_reach_every_rule() -> None:
    """A property that no example can falsify is worth nothing."""
    fired: set[str] = set()

    @settings(max_examples=600, derandomize=True, database=None)
    @given(st.one_of(QUERIES, constants_with_rows().map(lambda case: case[0])))
    def collect(workload: BoundWorkload) -> None:
        found = normalize(workload.queries[0], stream=workload.stream)
        fired.update(step.rule for step in found.trace)

    collect()
    assert {constants.NAME, *(rule.NAME for rule in RULES)} - fired == set()
