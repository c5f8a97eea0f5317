"""What tests of a workload say of the rows of its queries, checked against what these give."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from optimizer.ir.query import (
    Aggregation,
    Funnel,
    Query,
    ReturnAlias,
    ReturnAttribute,
    ReturnEvents,
    ReturnValue,
    RowPattern,
    SituationPattern,
)
from workloads.errors import Diagnostic, at_place, did_you_mean, shown
from workloads.workload import Workload

AGGREGATE_FIELDS = ("key", "time", "seq", "aggregate", "value", "count", "exact")
MATCH_FIELDS = ("key", "start", "end", "time", "match")


def row_fields(query: Query) -> tuple[str, ...]:
    """The names by which a test may speak of what a row of the query has."""
    keys = [name for name, _ in query.result_key]
    if isinstance(query.output, Aggregation):
        return (*AGGREGATE_FIELDS, *keys, *(item.text for item in query.output.items))
    return (*MATCH_FIELDS, *keys, *returned_names(query))


def returned_names(query: Query) -> list[str]:
    """The names under which a match has what is returned of it."""
    assert not isinstance(query.output, Aggregation)
    found: list[str] = []
    for item in query.output.items:
        match item:
            case ReturnAlias(alias, name):
                found.append(name or alias)
            case ReturnAttribute(alias):
                found.append(alias)
            case ReturnValue(_, name) | ReturnEvents(_, name):
                found.append(name)
    return list(dict.fromkeys(found))


def check_tests(workload: Workload, queries: Iterable[Query]) -> list[Diagnostic]:
    """Findings about the rows that tests expect of these queries."""
    known = {query.name: query for query in queries}
    found: list[Diagnostic] = []
    for test in workload.tests:
        for expected in test.expected:
            query = known.get(expected.query)
            for row in expected.described if query is not None else ():
                assert query is not None
                for message, hint in _unknown(query, row):
                    said = Diagnostic(f"test {shown(test.name)}: {message}", hint)
                    found.append(at_place(said, workload.file, expected.place))
    return found


def _unknown(query: Query, row: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    keys = [name for name, _ in query.result_key]
    # What these give is named by their own clauses, which are bound elsewhere.
    is_open = isinstance(query.output, RowPattern | SituationPattern | Funnel)
    fields = row_fields(query)
    for name in row:
        if name not in fields and not is_open:
            hint = did_you_mean(str(name), fields) or f"they have {', '.join(fields)}"
            yield f"rows of {shown(query.name)} have no field {shown(name)}", hint
    key = row.get("key")
    if isinstance(key, Mapping):
        for name in key:
            if name not in keys:
                hint = did_you_mean(str(name), keys) or f"it has {', '.join(keys) or 'no key'}"
                yield f"{shown(query.name)} has no key {shown(name)}", hint
