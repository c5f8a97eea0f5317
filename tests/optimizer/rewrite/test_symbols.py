"""The symbols of a workload, each once, with its number and its uses."""

from __future__ import annotations

import pytest

from optimizer.ir.pattern import Symbol
from optimizer.rewrite.symbols import Use, symbol_table
from tests.optimizer.rewriting import query_of

ONE = query_of("SEQ(A a, !B b, A c) WHERE c.x > 1")
TWO = query_of("SEQ(B b, A a) WHERE 1 < a.x")


def test_a_symbol_is_a_type_with_its_predicates() -> None:
    table = symbol_table([ONE])
    assert [(entry.id, str(entry.symbol)) for entry in table] == [
        (0, "A"),
        (1, "A[x > 1]"),
        (2, "B"),
    ]
    assert len(table) == 3


def test_aliases_of_one_symbol_are_uses_of_it() -> None:
    entry = symbol_table([ONE, TWO]).of(Symbol("B"))
    assert set(entry.uses) == {Use("q", "b", negated=True), Use("q", "b", negated=False)}
    assert entry.queries == ("q",)


def test_the_order_of_queries_does_not_matter() -> None:
    assert symbol_table([ONE, TWO]) == symbol_table([TWO, ONE])


def test_a_symbol_that_is_not_there_is_an_error() -> None:
    with pytest.raises(KeyError, match="Z"):
        symbol_table([ONE]).of(Symbol("Z"))
