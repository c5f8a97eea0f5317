"""The operators of queries that are counted: segments that several of them have, and an engine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from optimizer.cost.counting import Counting
from optimizer.cost.pieces import Costs, Steps, step_texts
from optimizer.ir.fingerprint import fingerprint
from optimizer.ir.pattern import events
from optimizer.ir.query import Query
from optimizer.physical.groups import CountingGroup
from optimizer.physical.operator import Operator, identity
from optimizer.physical.operators import Graph, setting, spread_of, window_state
from optimizer.physical.pieces import pieces_of

COUNTS = {"end": "time", "count": "count"}
Found = dict[str, tuple[str, float | None]]  # of each query: its operator, and its rows a second


def count(graph: Graph, group: CountingGroup, queries: Sequence[Query]) -> Found:
    """The segments and the engine of a group; what segments do not cost the engine does."""
    first = queries[0]
    by_text = step_texts(queries)
    pieces = pieces_of(group)
    known = {piece: [by_text[step] for step in piece] for piece in pieces if _all(piece, by_text)}
    counting = Counting(tuple(queries), graph.statistics)
    costs = Costs(counting, group.engine, graph.unit_costs)
    ids: dict[tuple[str, ...], str] = {}
    each_takes = {piece: costs.of(tuple(steps)) for piece, steps in known.items()}
    spent = sum(each_takes.values())
    total = group.cost.shared if group.cost is not None else spent
    if spent > total:  # both are estimates, and all operators take what the group does
        each_takes = {piece: cost * total / spent for piece, cost in each_takes.items()}
        spent = total
    for piece, steps in known.items():
        cost = each_takes[piece]
        ids[piece] = _segment(graph, group, first, piece, steps, pieces[piece], ids, cost)
    symbols = dict.fromkeys(e.symbol for query in queries for e in events(query.pattern))
    inside = {s for steps in known.values() for symbol, gap in steps for s in (symbol, *gap)}
    alone = [graph.events(s, first) for s in symbols if s not in inside or not _covers(group, ids)]
    inputs = tuple(dict.fromkeys([*alone, *sorted(ids.values())]))
    each = sorted([fingerprint(q), *map(str, setting(q)), str(q.slide)] for q in queries)
    content = [group.engine, group.device, each, *graph.salt(first)]
    rows = counting.rows if not _by_panes(queries) else _rows_of_panes(graph, queries)
    engine = graph.add(
        Operator(
            identity("counter", content, inputs),
            "counter",
            inputs,
            {"engine": group.engine, "device": group.device, "queries": list(group.queries)},
            {"query": "string", **COUNTS},
            ("end",),
            spread_of(first.key, first.window.is_count),
            window_state(max(queries, key=lambda q: q.window.size), "counters"),
            max(0.0, total - spent),
            float(sum(rows)),
        )
    )
    return {q.name: (engine, float(row)) for q, row in zip(queries, rows, strict=True)}


def _segment(
    graph: Graph,
    group: CountingGroup,
    first: Query,
    piece: tuple[str, ...],
    steps: Steps,
    queries: Sequence[str],
    before: Mapping[tuple[str, ...], str],
    cost: float,
) -> str:
    """A segment; it goes on from shorter ones that are its beginning or its end."""
    smaller = [before[part] for part in _parts(piece) if part in before]
    symbols = dict.fromkeys(s for symbol, gap in steps for s in (symbol, *sorted(gap, key=str)))
    inputs = tuple([graph.events(symbol, first) for symbol in symbols] + smaller)
    rates = [graph.rate(symbol) for symbol, _ in steps]
    content = [group.engine, list(piece), *setting(first), first.slide, *graph.salt(first)]
    return graph.add(
        Operator(
            identity("segment", content, inputs),
            "segment",
            inputs,
            {"engine": group.engine, "steps": list(piece), "queries": list(queries)},
            COUNTS,
            ("end",),
            spread_of(first.key, first.window.is_count),
            window_state(first, "counters"),
            cost,
            None if None in rates else sum(rate for rate in rates if rate is not None),
        )
    )


def _all(piece: Sequence[str], known: Mapping[str, object]) -> bool:
    return all(step in known for step in piece)


def _parts(piece: tuple[str, ...]) -> list[tuple[str, ...]]:
    """All shorter stretches of it."""
    size = len(piece)
    return [
        piece[at : at + length]
        for length in range(size - 1, 0, -1)
        for at in range(size - length + 1)
    ]


def _covers(group: CountingGroup, ids: Mapping[tuple[str, ...], str]) -> bool:
    """Are all queries nothing but segments that are shared?"""
    segments = group.segments or ()
    return bool(ids) and all(
        segments[number] in ids for numbers in (group.uses or {}).values() for number in numbers
    )


def _by_panes(queries: Sequence[Query]) -> bool:
    """Have they different windows or slides?"""
    return len({(query.window, query.slide) for query in queries}) > 1


def _rows_of_panes(graph: Graph, queries: Sequence[Query]) -> list[float]:
    """Rows of queries with windows of their own."""
    return [float(Counting((query,), graph.statistics).rows[0]) for query in queries]
