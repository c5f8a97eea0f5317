"""What is printed parses to what was printed."""

from __future__ import annotations

from hypothesis import given, settings

from tests import strategies
from tests.syntax_strategies import syntax_queries
from workloads import syntax as sx
from workloads.parser import parse_query
from workloads.printing import print_query


@settings(max_examples=400, deadline=None)
@given(syntax_queries())
def test_any_query_prints_to_text_that_parses_to_it(query: sx.Query) -> None:
    text = print_query(query)
    assert parse_query(text) == query


@settings(max_examples=100, deadline=None)
@given(strategies.bindable_queries())
def test_a_query_that_binds_prints_to_text_that_parses_to_it(query: sx.Query) -> None:
    assert parse_query(print_query(query)) == query
    assert print_query(parse_query(print_query(query))) == print_query(query)
