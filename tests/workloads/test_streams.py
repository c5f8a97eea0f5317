"""Several sources under `streams`: what they are together, and what they cannot be."""

from typing import Any

import pytest

from workloads.errors import WorkloadError
from workloads.loading import load_workload
from workloads.printing import print_expression
from workloads.workload import Workload, to_document

ORDERS = {"time": "ts", "type": "kind", "rename": {"cust": "customer"}}
PAYMENTS = {"time": "paid_at", "unit": "s", "types": {"Payment": "state = 'done' AND paid_at > 5"}}


def loaded(orders: dict[str, Any], payments: dict[str, Any], **more: Any) -> Workload:
    document = {"streams": {"orders": ORDERS | orders, "payments": PAYMENTS | payments}}
    queries = ["PATTERN SEQ(Order o, Payment p) RETURN o WITHIN 1 min"]
    return load_workload({"name": "w", **document, "queries": queries, **more})


def test_sources_are_one_stream() -> None:
    stream = loaded({"lateness": "10 s"}, {"lateness": "1 min"}).stream
    assert (stream.time, stream.type, stream.sequence, stream.unit) == ("time", "type", None, "ms")
    assert not stream.closed
    texts = {n: c and print_expression(c) for n, c in stream.types.items()}
    assert texts["Payment"] == "source = 'payments' AND state = 'done' AND time > 5"
    assert texts["orders"] == "source = 'orders'"


def test_an_order_of_simultaneous_events_needs_a_sequence_of_every_source() -> None:
    assert loaded({"sequence": "n"}, {}).stream.sequence is None
    assert loaded({"sequence": "n"}, {"sequence": "m"}).stream.sequence == "sequence"


def test_a_document_gives_the_same_back() -> None:
    workload = loaded({"attributes": {"cust": "string", "total": "int"}}, {"lateness": "5 s"})
    again = load_workload(to_document(workload))
    assert again.stream == workload.stream
    assert again.stream.attributes == {"customer": "string", "total": "int", "source": "string"}


def test_types_of_type_columns_are_one_type_and_lists_are_complete() -> None:
    lists = ({"types": ["Order", "View"]}, {"type": "what", "types": ["Payment", "View"]})
    stream = loaded(*lists).stream
    assert stream.closed
    assert set(stream.types) == {"Order", "View", "Payment", "orders", "payments"}


def test_situations_are_of_their_source() -> None:
    situations = {"Busy": {"when": "cust > 3"}}
    found = loaded({"situations": situations}, {}).stream.situations["Busy"]
    assert (found.of, print_expression(found.condition)) == ("orders", "customer > 3")


@pytest.mark.parametrize(
    ("orders", "payments", "more", "said"),
    [
        ({"types": ["Payment"]}, {}, {}, "the type 'Payment' is declared by streams.orders and by"),
        ({"types": ["payments"]}, {}, {}, "'payments' is a source, whose name stands for all"),
        ({"rename": {"ts": "x"}}, {}, {}, "renames 'ts', which is its time column"),
        ({"rename": {"x": "time"}}, {}, {}, "renames 'x' to 'time', which every event has"),
        ({"rename": {"x": "z", "y": "z"}}, {}, {}, "renames two columns to 'z'"),
        ({"rename": ["x"]}, {}, {}, "streams.orders.rename is no map"),
        ({"unit": "min"}, {}, {}, "streams.orders.unit is 'min'"),
        ({"time": None}, {}, {}, "streams.orders.time is missing"),
        ({"lateness": "10"}, {}, {}, "streams.orders.lateness is"),
        ({}, {"renam": {}}, {}, "'streams.payments' has no key 'renam'"),
        ({}, {}, {"stream": ORDERS}, "the workload has both 'stream' and 'streams'"),
        ({}, {}, {"streams": {}}, "'streams' is no map of names"),
        ({}, {}, {"streams": {"a b": ORDERS}}, "has a name that queries cannot write"),
        ({}, {}, {"streams": {"any": ORDERS}}, "has a name that queries cannot write"),
        ({}, {}, {"streams": {"a": "ts"}}, "streams.a is"),
        (
            {"attributes": {"id": "int"}},
            {"attributes": {"id": "string"}},
            {},
            "'id' is string in streams.payments and int in streams.orders",
        ),
        (
            {"situations": {"S": "x > 1"}},
            {"situations": {"S": "x > 1"}},
            {},
            "the situation 'S' is defined by two sources",
        ),
    ],
)
def test_what_is_refused(
    orders: dict[str, Any], payments: dict[str, Any], more: dict[str, Any], said: str
) -> None:
    with pytest.raises(WorkloadError) as error:
        loaded(orders, payments, **more)
    found = [f for f in error.value.diagnostics if said in f.message]
    assert found, str(error.value)
    assert found[0].hint


def test_no_column_is_unknown_where_a_source_declares_none() -> None:
    from optimizer.bind.binder import bind

    declared = {"attributes": {"cust": "string"}}
    bind(loaded(declared, {}, queries=["PATTERN Order o WHERE o.x > 1 RETURN o WITHIN 1 s"]))
    other = {"attributes": {"state": "string"}}
    queries = ["PATTERN Order o WHERE o.x > 1 RETURN o WITHIN 1 s"]
    with pytest.raises(WorkloadError, match="unknown attribute 'x'"):
        bind(loaded(declared, other, queries=queries))
