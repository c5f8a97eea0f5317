"""Binding one component after the other: what no tree takes."""

from __future__ import annotations

from collections.abc import Sequence

from optimizer.engines.spec import Device
from optimizer.ir.query import Query, is_about_situations

NAME = "stepwise"
LABEL = "joining one component after the other"
MEANING = (
    "Matches are made by adding one component of the pattern after the other: for patterns that no "
    "tree can take."
)
PHRASES: tuple[str, ...] = (
    "one component after the other",
    "joining one component after the other",
)
DEVICES: tuple[Device, ...] = ("cpu",)


def refusal(query: Query) -> str | None:
    """None: it takes every query whose matches count by themselves."""
    if query.special_windows is not None:
        return query.special_windows
    if is_about_situations(query):
        return "it is about situations, which are derived in order"
    if query.strategy == "latest":
        return "of its matches only those of STRATEGY LATEST count"
    if query.strategy == "strict":
        return (
            "STRATEGY STRICT takes no ALL E, and in an AND only single events: write E+, or an OR "
            "of the sequences that it stands for; --engine oracle takes all"
        )
    return None


def refusal_together(queries: Sequence[Query]) -> str | None:
    """Each query is a group of its own."""
    return "it runs one query at a time" if len(queries) > 1 else None
