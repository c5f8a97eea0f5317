"""Other languages that a query may be written in, each with the function that parses it.

In a workload they are keys: `{name: …, sql: "SELECT …"}`. Another one is a line in `NOTATIONS`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from workloads.sql.query import parse_sql
from workloads.syntax import Query

NOTATIONS: Mapping[str, Callable[[str], Query]] = {"sql": parse_sql}

_SELECT = re.compile(r"(\s|--[^\n]*\n|/\*.*?\*/)*(SELECT|WITH)\b", re.IGNORECASE | re.DOTALL)


def notation_of(text: str) -> str | None:
    """The notation of a text that stands by itself; None for Sheaf's own language."""
    return "sql" if _SELECT.match(text) else None


def is_only_sql(document: Mapping[str, Any]) -> bool:
    """Are all queries in SQL, which asks for no types?"""
    queries = document.get("queries")
    return isinstance(queries, list) and all(
        notation_of(query) == "sql" if isinstance(query, str) else "sql" in query
        for query in queries
        if isinstance(query, str | Mapping)
    )


def speaks_of_any(document: Mapping[str, Any]) -> bool:
    """May queries ask for any event, which needs no types? Binding says what does need them."""
    queries = document.get("queries")
    return isinstance(queries, list) and any(
        re.search(r"\bANY\b", query, re.IGNORECASE) for query in queries if isinstance(query, str)
    )
