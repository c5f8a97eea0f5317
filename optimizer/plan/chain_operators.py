"""Rows of queries as events that others read, in the graph of operators."""

from __future__ import annotations

from collections.abc import Sequence

from optimizer.ir.produced import ENDED, STARTED, rounds_of
from optimizer.ir.query import BoundWorkload, Query
from optimizer.plan.groups import Group
from optimizer.plan.operators import Graph
from optimizer.plan.plan import Operator, PlanError, identity


def in_rounds(workload: BoundWorkload, groups: Sequence[Group]) -> list[Group]:
    """The groups, each behind those whose rows it reads."""
    rounds = {q.name: n for n, r in enumerate(rounds_of(workload.queries)) for q in r}
    for group in groups:
        if len({rounds[name] for name in group.queries}) > 1:
            raise PlanError(
                "a group has queries that read the rows of others of it (INTO): "
                + ", ".join(group.queries)
            )
    return sorted(groups, key=lambda group: rounds[group.queries[0]])


def produced(graph: Graph, query: Query, source: str | None = None) -> str:
    """The operator that makes events of a query's rows; `source` is the one that has these.

    Only its id is asked for where that is not given.
    """
    made = next(made for made in graph.workload.produced if made.query == query.name)
    readers = sorted(q.name for q in graph.workload.queries if made.name in q.reads)
    found = graph.add(
        Operator(
            identity("into", [made.name, query.name, list(made.names)]),
            "into",
            () if source is None else (source,),
            {
                "type": made.name,
                "query": query.name,
                "fields": list(made.names),
                "readers": readers,
            },
            {"start": "time", "end": "time", STARTED: "int", ENDED: "int"}
            | dict.fromkeys(made.names, "any"),
            ("end",),
            rows=None if source is None else graph.operators[source].rows,
        )
    )
    graph.made[made.name] = (found,)
    return found
