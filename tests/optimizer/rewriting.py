"""Bodies from text, and the rows that a body gives, for the tests of rewriting."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from engines.reference import matches_of, run
from optimizer.bind.binder import load_bound
from optimizer.ir.query import BoundWorkload, Query
from optimizer.rewrite.body import Body
from tests.strategies import stream_document

Rows = Sequence[Mapping[str, Any]]
TYPES = ("A", "B", "C", "D", "E", "F", "G", "X", "Y", "Z")


def bound(pattern: str, where: str = "", rest: str = "AGG COUNT(*) WITHIN 9 ms") -> BoundWorkload:
    """A workload of one query over the streams of `tests.strategies`."""
    condition = f"WHERE {where}" if where else ""
    text = f"QUERY q PATTERN {pattern} {condition} {rest}"
    return load_bound({"name": "w", "stream": stream_document(), "queries": [text]})


def query_of(text: str, rest: str = "AGG COUNT(*) WITHIN 9 ms") -> Query:
    """The query of `pattern WHERE condition` in one line."""
    pattern, _, where = text.partition(" WHERE ")
    return bound(pattern, where, rest).queries[0]


def body_of(text: str) -> Body:
    """The body of `pattern WHERE condition` in one line."""
    query = query_of(text)
    return Body(query.pattern, query.conditions)


def with_body(query: Query, body: Body) -> Query:
    return replace(query, pattern=body.pattern, conditions=body.conditions)


def results(workload: BoundWorkload, query: Query, rows: Rows) -> Counter[str]:
    """The result rows of a query by the brute-force reference, as a multiset."""
    if not rows:
        return Counter()
    found = run(replace(workload, queries=(query,)), rows)
    return Counter(json.dumps(row, sort_keys=True) for row in found)


def matches(workload: BoundWorkload, query: Query, rows: Rows) -> Counter[str]:
    """The matches of a query without a key, as a multiset of what they bind."""
    found = matches_of(query, workload.stream, rows)
    return Counter(json.dumps(match, sort_keys=True) for match in found)


def letters(word: str) -> list[dict[str, Any]]:
    """`a c b`: events of those types, one a tick; in parentheses, as in `a(b c)`, at one time."""
    found: list[dict[str, Any]] = []
    time, together = 0, False
    for letter in word.replace(" ", ""):
        if letter in "()":
            time += letter == "("
            together = letter == "("
            continue
        time += not together
        found.append({"ts": time, "kind": letter.upper(), "k": 1, "x": len(found) % 3, "y": 1})
    return found
