"""A SQL text as a parsed query, beside those of Sheaf's own language."""

from __future__ import annotations

from functools import lru_cache

from workloads.sql.parser import parse_statement
from workloads.syntax import Component, Query

ANY_ROW = "*"  # the type of all events, whatever their own


@lru_cache(4096)
def parse_sql(text: str) -> Query:
    """Parse one statement; raises `QueryError` with the place of the first mistake."""
    return Query(
        None,
        Component(ANY_ROW, "row"),
        None,
        parse_statement(text),
        text=text,
        notation="sql",
    )
