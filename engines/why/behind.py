"""The events behind a row: of a match those that it binds, of an aggregate a sample of its matches.

The row is one that a run gave. The events around it are read again, and the reference puts them
together within its budget of steps.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from engines.input.batches import FileSource
from engines.input.query_columns import named_columns
from engines.reference.rows import WindowEnd
from engines.reference.values import Binding
from engines.results.json_text import plain_value
from engines.why.explain import Explainer, GivenRows, Question, is_returned, read_tick, why_opaque
from engines.why.relaxations import without_memberships
from engines.why.scan import Focus, value_at
from optimizer.ir.query import Aggregation, BoundWorkload

SHOWN_MATCHES = 20


@dataclass(frozen=True)
class RowPlace:
    """Which row of a query: its key and times as results have them, and for a match what it has."""

    time: str
    seq: int | None = None
    key: Mapping[str, Any] | None = None
    start: str | None = None
    end: str | None = None
    match: Mapping[str, Any] | None = None


def matches_behind(source: FileSource, bound: BoundWorkload, row: RowPlace) -> dict[str, Any]:
    """The matches behind a row as plain values; `note` says what was not looked for, and why."""
    query = without_memberships(bound.queries[0])
    found: dict[str, Any] = {"query": query.name, "matches": 0, "is_cut": False, "shown": []}
    if (what := why_opaque(query)) is not None:
        note = f"the events behind rows of a query {what} are not looked for"
        return found | {"note": note}
    asked = replace(bound, queries=(query,))
    explainer = Explainer(source, asked, query, Question(), GivenRows())
    last = read_tick(source, row.end or row.time)
    low, high = explainer.around(last, 1)
    window = None
    if isinstance(query.output, Aggregation):
        window = WindowEnd(last, row.seq)
        high = None if high is None else last  # later events count for no earlier row
    (place,) = explainer.events_at([Focus(explainer.row_key(row.key), last, low, high)], asked)
    search = explainer.search(place, None)
    matches = search.matches(explainer.wanted, window)
    if row.start is not None and row.end is not None:
        times = (read_tick(source, row.start), last)
        matches = [each for each in matches if _extent(each) == times]
        matches = [each for each in matches if is_returned(row.match, each)] or matches
    columns = sorted(named_columns(bound) - {bound.stream.time})
    return found | {
        "matches": len(matches),
        "is_cut": place.is_cut or search.was_cut,
        "shown": [_events(explainer, columns, each) for each in matches[:SHOWN_MATCHES]],
        "note": None,
    }


def _extent(bound: Binding) -> tuple[int, int]:
    times = [event.key[0] for group in bound.values() for event in group]
    return min(times), max(times)


def _events(explainer: Explainer, columns: list[str], bound: Binding) -> list[dict[str, Any]]:
    """The events of a match in their order, each with the columns that the query reads."""
    pairs = [(alias, row) for alias, group in bound.items() for row in group]
    documents = []
    for alias, row in sorted(pairs, key=lambda pair: pair[1].key):
        values = {name: value_at(row.values, name) for name in columns}
        documents.append(
            {
                "alias": alias,
                "time": explainer.moment(row.key[0]),
                "values": plain_value({k: v for k, v in values.items() if v is not None}),
            }
        )
    return documents
