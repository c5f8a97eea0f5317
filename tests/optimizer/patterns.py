"""Patterns with rates and selectivities, and the trees found for them."""

from __future__ import annotations

from typing import Any

from optimizer.bind.binder import load_bound
from optimizer.ir.query import Query
from optimizer.statistics import Statistics
from optimizer.statistics.statistics import joint_text, symbols_of
from optimizer.trees import CostedTree, print_tree
from workloads import expressions as ex


def query_of(text: str, **stream: Any) -> Query:
    document = {"stream": {"time": "ts", "type": "kind", "unit": "s", **stream}, "queries": [text]}
    return load_bound(document).queries[0]


def pattern(parts: str, where: str = "", within: str = "10 s") -> Query:
    first = parts.replace("SEQ(", "").replace("AND(", "").replace("OR(", "").split(",")[0].split()
    condition = f"WHERE {where}" if where else ""
    return query_of(f"PATTERN {parts} {condition} RETURN {first[-1]} WITHIN {within}", sequence="s")


def shown(found: CostedTree) -> str:
    return print_tree(found.tree)


def rated(query: Query, rates: tuple[float, ...], **selectivities: float) -> Statistics:
    """Rates in the order of the pattern; selectivities by the two types that a predicate ties."""
    symbols = symbols_of(query.pattern)
    known = dict(zip((s.type for s in symbols.values()), rates, strict=True))
    shares = {}
    for condition in query.conditions:
        name = "_".join(sorted(ex.aliases(condition)))
        shares[joint_text(condition, symbols)] = selectivities.get(name, 1.0)
    return Statistics(known, shares)
