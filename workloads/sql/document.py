"""A file of SQL statements, which `;` separates, as the document of a workload."""

from __future__ import annotations

from typing import Any

from workloads.errors import NOWHERE, QueryError
from workloads.sql.expressions import Column
from workloads.sql.lexer import statements
from workloads.sql.parser import parse_statement


def named_statements(text: str, name: str) -> dict[str, str]:
    """The statements of a text by the names that their queries have: its own, or with a number."""
    found = statements(text)
    if len(found) == 1:
        return {name: found[0]}
    return {f"{name}_{number}": statement for number, statement in enumerate(found, 1)}


def sql_document(text: str, name: str) -> dict[str, Any]:
    """The workload of a text; its time is the column by which all statements order rows first.

    A statement that is none stays, for whoever reads the document to say what is wrong with it.
    """
    named = named_statements(text, name)
    times: dict[str, None] = {}
    is_wrong = False
    for statement in named.values():
        try:
            parsed = parse_statement(statement)
        except QueryError:
            is_wrong = True
            continue
        first = parsed.order_by[0].value if parsed.order_by else None
        if isinstance(first, Column):
            times.setdefault(first.path[-1])
    if len(times) > 1:
        raise QueryError(
            f"the statements order rows by {' and '.join(times)}, and a stream has one time",
            NOWHERE,
            "write a workload that names it: 'sheaf import sql' makes one of the statements",
        )
    if not times and not is_wrong:
        raise QueryError(
            "no statement orders rows by a column, which would be the stream's time",
            NOWHERE,
            "begin ORDER BY with the column of times, or write a workload",
        )
    queries = [{"name": query, "sql": statement} for query, statement in named.items()]
    return {"name": name, "stream": {"time": next(iter(times), "ts")}, "queries": queries}
