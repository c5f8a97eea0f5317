"""Binding one component after the other: what no tree takes."""

from __future__ import annotations

from collections.abc import Sequence

from optimizer.engines.spec import Device
from optimizer.ir.query import Query

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
    """None: it takes every query, as long as all its matches count."""
    if query.strategy != "any":
        return f"STRATEGY {query.strategy.upper()} runs on --engine oracle only"
    return None


def refusal_together(queries: Sequence[Query]) -> str | None:
    """Each query is a group of its own."""
    return "it runs one query at a time" if len(queries) > 1 else None
