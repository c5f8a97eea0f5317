"""Trees of joins that construct matches."""

from __future__ import annotations

from collections.abc import Sequence

from optimizer.engines.spec import Device
from optimizer.ir.query import Query
from optimizer.trees.search import refusal as refusal_of_trees

NAME = "trees"
LABEL = "a tree of joins"
MEANING = (
    "Matches are made by joining events two sets at a time, in the order of a tree. Parts that the "
    "trees of several queries have in common are joined once."
)
PHRASES: tuple[str, ...] = ()
DEVICES: tuple[Device, ...] = ("cpu", "opencl")


def refusal(query: Query) -> str | None:
    """Why no tree finds its matches."""
    return refusal_of_trees(query)


def refusal_together(queries: Sequence[Query]) -> str | None:
    """None: what queries have in common is joined once, and the others run beside it."""
    return None
