"""What is refused as a plan, each with an error that says why."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from optimizer.plan.groups import StepwiseGroup
from optimizer.plan.plan import (
    SINGLE,
    Operator,
    OperatorState,
    Partitioning,
    Plan,
    PlanError,
    state_of,
)
from tests.optimizer.plan.test_plan import TWO, plan_of

PLAN = plan_of(TWO)


def changed(kind: str, change: Callable[[Operator], Operator], place: int = 0) -> Plan:
    """The plan with one operator of a kind replaced."""
    chosen = [operator for operator in PLAN.operators if operator.kind == kind][place]
    return replace(PLAN, operators=tuple(change(o) if o is chosen else o for o in PLAN.operators))


def test_a_query_must_be_in_one_group() -> None:
    with pytest.raises(PlanError, match="exactly once: found"):
        replace(PLAN, groups=PLAN.groups[:1])
    with pytest.raises(PlanError, match="exactly once: counted"):
        replace(PLAN, groups=(*PLAN.groups, StepwiseGroup(("counted",), "twice")))


def test_an_operator_reads_only_what_stands_before_it() -> None:
    with pytest.raises(PlanError, match="does not stand before it: the plan has a cycle"):
        replace(PLAN, operators=tuple(reversed(PLAN.operators)))
    with pytest.raises(PlanError, match="does not stand before it: the plan has a cycle"):
        changed("join", lambda o: replace(o, inputs=(*o.inputs, o.id)))


def test_an_operator_reads_nothing_that_is_not_there() -> None:
    with pytest.raises(PlanError, match="reads events-0, which the plan does not have"):
        changed("counter", lambda o: replace(o, inputs=(*o.inputs, "events-0")))


def test_an_id_is_of_one_operator() -> None:
    with pytest.raises(PlanError, match="two operators are called scan-"):
        replace(PLAN, operators=(*PLAN.operators, PLAN.operators[0]))


def test_state_that_nothing_bounds_is_refused() -> None:
    endless = state_of(None, "partial matches")
    with pytest.raises(PlanError, match=r"unbounded: join-.*: no window bounds partial"):
        changed("join", lambda o: replace(o, state=endless))
    with pytest.raises(PlanError, match=r"unbounded: counter-.*: counters are never dropped"):
        changed(
            "counter",
            lambda o: replace(
                o, state=OperatorState("unbounded", reason="counters are never dropped")
            ),
        )


def test_a_query_reaches_one_sink_once() -> None:
    sink, other = (o for o in PLAN.operators if o.kind == "sink")
    rest = [o for o in PLAN.operators if o.kind != "sink"]
    with pytest.raises(PlanError, match="more than once: counted"):
        replace(PLAN, operators=(*rest, replace(sink, inputs=sink.inputs * 2), other))
    with pytest.raises(PlanError, match="more than once: counted"):
        replace(PLAN, operators=(*rest, sink, other, replace(sink, id="sink-again")))
    with pytest.raises(PlanError, match="would not return these queries: found"):
        replace(PLAN, operators=(*rest, sink))


def test_two_outputs_of_a_query_are_refused() -> None:
    output = next(o for o in PLAN.operators if o.kind == "output")
    sinks = [o for o in PLAN.operators if o.kind == "sink"]
    rest = [o for o in PLAN.operators if o.kind != "sink"]
    twice = replace(sinks[0], inputs=(*sinks[0].inputs, "output-again"))
    with pytest.raises(PlanError, match="more than once: counted"):
        replace(PLAN, operators=(*rest, replace(output, id="output-again"), twice, *sinks[1:]))
    with pytest.raises(PlanError, match="nothing reads output-again"):
        replace(PLAN, operators=(*rest, replace(output, id="output-again"), *sinks))


def test_rows_of_what_is_no_query_are_refused() -> None:
    with pytest.raises(PlanError, match="no query of it: another"):
        changed("output", lambda o: replace(o, detail={**o.detail, "query": "another"}))


def test_what_nothing_reads_is_refused() -> None:
    extra = replace(next(o for o in PLAN.operators if o.kind == "symbol"), id="symbol-extra")
    with pytest.raises(PlanError, match="nothing reads symbol-extra"):
        replace(PLAN, operators=(*PLAN.operators, extra))


def test_inputs_are_of_the_kinds_that_an_operator_reads() -> None:
    scan = PLAN.operators[0].id
    with pytest.raises(PlanError, match=f"reads {scan}, which is a scan; a join reads events or"):
        changed("join", lambda o: replace(o, inputs=(*o.inputs, scan)))
    with pytest.raises(PlanError, match="reads 0 operators, and a counter reads 1 or more"):
        changed("counter", lambda o: replace(o, inputs=()))


def test_inputs_are_sorted_as_an_operator_needs_them() -> None:
    with pytest.raises(PlanError, match="is sorted by start, and not by end"):
        changed("events", lambda o: replace(o, order=("start",)))
    with pytest.raises(PlanError, match="is sorted by nothing, and not by end"):
        changed("counter", lambda o: replace(o, order=()))
    with pytest.raises(PlanError, match="is sorted by price, which it has not"):
        changed("partition", lambda o: replace(o, order=("price",)))


def test_inputs_are_spread_as_an_operator_is() -> None:
    by_item = Partitioning("key", ("item",))
    with pytest.raises(PlanError, match="is spread by user, and not by item"):
        changed("counter", lambda o: replace(o, partitioning=by_item))
    with pytest.raises(PlanError, match="is spread all in one place, and its partition by user"):
        changed("events", lambda o: replace(o, partitioning=SINGLE))


def test_inputs_have_the_columns_that_an_operator_needs() -> None:
    with pytest.raises(PlanError, match="needs user, which none of its inputs has"):
        changed("scan", lambda o: replace(o, schema={k: "any" for k in o.schema if k != "user"}))
    with pytest.raises(PlanError, match=r"sink-\w+ takes rows of .*; output-\w+ gives"):
        changed("output", lambda o: replace(o, schema={"time": "time", "query": "string"}))
