"""What a run says that each operator of its plan took in, gave and spent."""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterator

import pyarrow as pa
import pytest

from engines import account as module
from engines.account import Account
from engines.input.event_table import from_table
from engines.live.run import LiveRun
from engines.local.run import run_events
from engines.program import RunContext, bound_program
from engines.report import OperatorAccount, operator_accounts
from optimizer.bind.binder import load_bound
from optimizer.plan.plan import to_json
from tests.running import How, counting_plan


class Clock:
    """A clock that stands still until it is told to go on."""

    now = 1000

    def thread_time_ns(self) -> int:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(module, "time", clock)
    return clock


# --- time ----------------------------------------------------------------------------------------


def test_time_is_that_of_the_innermost_operator(clock: Clock) -> None:
    account = Account()
    with account.charge("join"):
        clock.now += 10
        with account.charge("events"):
            clock.now += 3
        clock.now += 1
        with account.charge("filter"):
            clock.now += 5
            with account.charge("events"):
                clock.now += 20
            with account.charge("join"):  # one that is already at work
                clock.now += 40
        clock.now += 2
    clock.now += 1000  # nobody's
    with account.charge("output"):
        clock.now += 7
    assert account.nanoseconds == {
        "join": 10 + 1 + 40 + 2,
        "events": 3 + 20,
        "filter": 5,
        "output": 7,
    }


def test_rows_that_are_asked_for_one_part_after_the_other_are_charged_to_who_makes_them(
    clock: Clock,
) -> None:
    account = Account()

    def parts() -> Iterator[int]:
        for number in range(3):
            clock.now += 100
            yield number

    made = parts()
    with account.charge("output"):
        for _ in range(3):
            with account.charge("join"):
                next(made)
            clock.now += 1
    assert account.nanoseconds == {"join": 300, "output": 3}


def test_an_error_ends_what_is_charged(clock: Clock) -> None:
    account = Account()

    def joined() -> None:
        with account.charge("join"):
            clock.now += 4
            raise ValueError("too many")

    with account.charge("output"):
        with pytest.raises(ValueError, match="too many"):
            joined()
        clock.now += 5
    assert account.nanoseconds == {"join": 4, "output": 5}


def test_time_of_another_thread_is_added(clock: Clock) -> None:
    account = Account()
    with account.charge("conditions"):
        account.spend("partition", 50)
        clock.now += 2
    assert account.nanoseconds == {"conditions": 2, "partition": 50}


# --- totals --------------------------------------------------------------------------------------


def test_totals_of_several_accounts_add_up(clock: Clock) -> None:
    one, two = Account(), Account()
    for account, times in ((one, 1), (two, 10)):
        account.count("join", 3 * times, 2 * times)
        account.count("join", 1 * times)
        with account.charge("join"):
            clock.now += 7 * times
    two.count("output", 5, 4)
    before = one.totals()
    one.add(json.loads(json.dumps(two.totals())))
    assert one.totals() == {
        "rows_in": {"join": 44, "output": 5},
        "rows_out": {"join": 22, "output": 4},
        "nanoseconds": {"join": 77},
    }
    # What was given away before stays what it was, and so does the other account.
    assert before == {
        "rows_in": {"join": 4},
        "rows_out": {"join": 2},
        "nanoseconds": {"join": 7},
    }
    assert two.totals()["rows_in"] == {"join": 40, "output": 5}
    one.clear()
    assert one.totals() == Account().totals()


# --- rows of operators, counted by hand ----------------------------------------------------------

STREAM = {"time": "ts", "unit": "ms", "type": "kind"}
#  at       1  2  3  4  5  6  7
KINDS = list("ABCABDC")
TABLE = pa.table({"ts": range(1, 8), "kind": KINDS, "x": [1, 2, 3, 4, 5, 6, 7]})
QUERIES = {
    "counted": "SEQ(A a, B b) AGG COUNT(*) HAVING COUNT(*) > 1",
    "joined": "SEQ(A a, B b, C c) RETURN a",
    "renamed": "SEQ(A x, B y, D d) RETURN x",
    "negated": "SEQ(A a, !D d, C c) RETURN a",
    "grouped": "SEQ(A a, B+ b, C c) RETURN a",
    "tied": "SEQ(A a, B b, C c) WHERE a.x + b.x > c.x RETURN a",
    "constructed": "SEQ(A a, B^2 b) AGG COUNT(*)",
}


def accounts(how: How, *names: str) -> tuple[list[OperatorAccount], RunContext]:
    """The operators of queries, behind what reads the stream, after a run over the events."""
    queries = [f"QUERY {name} PATTERN {QUERIES[name]} WITHIN 100 ms" for name in names]
    workload = load_bound({"stream": STREAM, "queries": queries})
    plan, context = how.plan(workload), how.context()
    run_events(bound_program(plan, workload), from_table(TABLE, workload.stream), context)
    assert not context.fallbacks.sentences
    found = operator_accounts(to_json(plan)["operators"], context.account)
    reading = ("scan", "conditions", "symbol", "partition", "events", "sink")
    return [each for each in found if each.kind not in reading], context


def rows_of(found: list[OperatorAccount]) -> list[tuple[str, str, int | None, int | None]]:
    return [(each.kind, each.about, each.rows_in, each.rows_out) for each in found]


def test_rows_of_every_operator_are_those_that_are_counted_by_hand() -> None:
    found, context = accounts(How(detection="left"), *QUERIES)
    assert not any(each.unplanned for each in found)
    assert sorted(rows_of(found)) == sorted(
        [
            # The A at 1 and 4, the B at 2 and 5: one match up to 2, three up to 5.
            ("counter", "product: counted", 4, 2),
            ("output", "counted: SEQ(A a, B b)", 2, 1),
            # 1-2, 1-5 and 4-5, once for all that read them.
            ("join", "(A ; B)", 2 + 2, 3),
            # The first of them with the C at 3, all of them with that at 7.
            ("join", "((A ; B) ; C)", 3 + 2, 4),
            ("output", "joined: SEQ(A a, B b, C c)", 4, 4),
            # All of them with the D at 6.
            ("join", "((A ; B) ; D)", 3 + 1, 3),
            ("output", "renamed: SEQ(A x, B y, D d)", 3, 3),
            # Of the four only 4 + 5 > 7.
            ("join", "((A ; B) ; C)", 3 + 2, 1),
            ("output", "tied: SEQ(A a, B b, C c)", 1, 1),
            # 1-3, 1-7 and 4-7, of which the D is between those that end with 7.
            ("join", "(A ; C)", 2 + 2, 3),
            ("negation", "NEG((A ; C), !D)", 3 + 1, 1),
            ("output", "negated: SEQ(A a, !D d, C c)", 1, 1),
            # {2} in 1-3, {2}, {5} and {2, 5} in 1-7, {5} in 4-7.
            ("group", "KSEQ((A ; C) ; B+)", 3 + 2, 5),
            ("output", "grouped: SEQ(A a, B+ b, C c)", 5, 5),
            # {2, 5} after 1.
            ("group", "KSEQ(A ; B^2)", 2 + 2, 1),
            ("output", "constructed: SEQ(A a, B^2 b)", 1, 1),
        ]
    )
    spent = [each for each in found if each.kind != "output"]
    assert all((each.cpu_seconds or 0) > 0 for each in spent)
    assert context.counts.reused  # (A ; B), and (A ; C)


def test_without_sharing_each_query_has_rows_of_its_own() -> None:
    found, _ = accounts(How(detection="left", sharing=False), "joined", "renamed")
    assert sorted(rows_of(found)) == sorted(
        [
            ("join", "(A ; B)", 4, 3),
            ("join", "(A ; B)", 4, 3),
            ("join", "((A ; B) ; C)", 5, 4),
            ("join", "((A ; B) ; D)", 4, 3),
            ("output", "joined: SEQ(A a, B b, C c)", 4, 4),
            ("output", "renamed: SEQ(A x, B y, D d)", 3, 3),
        ]
    )


def test_binding_one_component_after_the_other_reads_the_events_of_its_symbols() -> None:
    found, _ = accounts(How(detection="stepwise"), "joined", "negated")
    assert sorted(rows_of(found)) == sorted(
        [
            ("stepwise", "SEQ(A a, B b, C c)", 2 + 2 + 2, 4),
            ("output", "joined: SEQ(A a, B b, C c)", 4, 4),
            ("stepwise", "SEQ(A a, !D d, C c)", 2 + 1 + 2, 1),
            ("output", "negated: SEQ(A a, !D d, C c)", 1, 1),
        ]
    )


def test_a_union_gives_what_its_readings_give() -> None:
    query = "QUERY either PATTERN OR(SEQ(A a, B b), SEQ(D d, C c)) RETURN a WITHIN 100 ms"
    workload = load_bound({"stream": STREAM, "queries": [query]})
    how = How(detection="left")
    plan, context = how.plan(workload), how.context()
    run_events(bound_program(plan, workload), from_table(TABLE, workload.stream), context)
    found = operator_accounts(to_json(plan)["operators"], context.account)
    assert [row[2:] for row in rows_of(found) if row[0] == "union"] == [(3 + 1, 4)]


@pytest.mark.parametrize("engine", ["product", "aseq", "pretree", "chopconnect"])
def test_live_counters_read_the_events_of_their_own_symbols(engine: str) -> None:
    queries = [
        "QUERY first PATTERN SEQ(A a, B b) AGG COUNT(*) WITHIN 100 ms",
        "QUERY second PATTERN SEQ(D d, C c) AGG COUNT(*) WITHIN 100 ms",
    ]
    workload = load_bound({"stream": STREAM, "queries": queries})
    plan = counting_plan(workload, [(("first",), engine), (("second",), "product")])
    context = RunContext()
    live = LiveRun(bound_program(plan, workload), 10**6, context)
    for start, size, until in ((0, 4, 4), (4, 0, 4), (4, 3, None)):
        live.add(from_table(TABLE.slice(start, size), workload.stream), until)
    found = operator_accounts(to_json(plan)["operators"], context.account)
    assert [row for row in rows_of(found) if row[0] in ("counter", "output")] == [
        ("counter", f"{engine}: first", 2 + 2, 2),
        ("output", "first: SEQ(A a, B b)", 2, 2),
        ("counter", "product: second", 1 + 2, 1),
        ("output", "second: SEQ(D d, C c)", 1, 1),
    ]


def test_a_query_without_rows_takes_none_of_those_that_its_counter_gives_to_others() -> None:
    queries = [
        f"QUERY {name} PATTERN SEQ({types}) AGG COUNT(*) WITHIN 100 ms"
        for name, types in (("first", "A a, B b"), ("none", "C c, A a"))
    ]
    workload = load_bound({"stream": STREAM, "queries": queries})
    plan, context = counting_plan(workload, [(("first", "none"), "product")]), RunContext()
    LiveRun(bound_program(plan, workload), 10**6, context).add(
        from_table(TABLE.slice(0, 3), workload.stream), None
    )
    found = operator_accounts(to_json(plan)["operators"], context.account)
    assert [row[2:] for row in rows_of(found) if row[0] == "output"] == [(1, 1), (0, 0)]


def test_an_account_goes_to_another_process() -> None:
    account = Account()
    account.count("a", 3, 2)
    with account.charge("a"):
        arrived = pickle.loads(pickle.dumps(account))
    assert arrived.rows_in == {"a": 3}
    arrived.count("a", 1)
    assert (arrived.rows_in, account.rows_in) == ({"a": 4}, {"a": 3})
