"""Queries of a workload, laid out as they are printed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from api.editing.workload_text import QueryText, WorkloadText
from workloads.errors import QueryError
from workloads.notations import notation_of
from workloads.parser import parse_query
from workloads.printing import print_query


@dataclass(frozen=True)
class Replacement:
    """Characters of a text, and what is to stand there."""

    start: int
    end: int
    text: str


def formatted(workload: WorkloadText) -> list[Replacement]:
    """What is to be changed so that queries in blocks have a clause a line.

    A query with a comment stays as it is, for comments are not printed; so does one that does not
    parse, or is in another language or style of YAML.
    """
    found = []
    for query in workload.queries:
        own = workload.text[query.start : query.end]
        for printed in _printed(query):
            indent = query.start - (workload.text.rfind("\n", 0, query.start) + 1)
            laid_out = printed.rstrip("\n").replace("\n", "\n" + " " * indent)
            if laid_out != own:
                found.append(Replacement(query.start, query.end, laid_out))
    return found


def _printed(query: QueryText) -> Iterator[str]:
    if not query.is_literal or query.notation or notation_of(query.text) or "--" in query.text:
        return
    try:
        parsed = parse_query(query.text)
        printed = print_query(parsed)
        if parse_query(printed) == parsed:
            yield printed
    except QueryError:
        return
