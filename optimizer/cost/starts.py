"""What a vector of counters for every active START takes, in operations for a second of stream."""

from __future__ import annotations

from collections import Counter

from optimizer.cost.counting import CountedQueries
from optimizer.cost.unit_costs import Operations
from optimizer.ir.automaton import state_graph
from optimizer.ir.query import Aggregation, Symbol


def sem(group: CountedQueries) -> Operations:
    """Each event adds rows of counters, one counter for each START in the window."""
    arrivals = group.arrivals
    rows: Counter[Symbol] = Counter()
    starts: set[Symbol] = set()
    states = 0
    words = dict.fromkeys(word for found in group.words for word in found or ())
    for word in words:
        states += len(word.symbols)
        starts.add(word.symbols[0])
        rows.update((*word.symbols, *(symbol for gap in word.gaps for symbol in gap)))
    others = (c for c, found in zip(group.choices, group.words, strict=True) if found is None)
    for choice in dict.fromkeys(choice for choices in others for choice in choices):
        graph = state_graph(choice)
        states += graph.size
        for symbol, source, _ in graph.moves:
            rows[symbol] += 1
            if source == 0:
                starts.add(symbol)
        for symbol, _, _ in graph.stays:
            rows[symbol] += 1
    active = sum(map(arrivals.met, starts))
    added = sum(number * arrivals.rate(symbol) for symbol, number in rows.items())
    values = max(map(_values, group.queries), default=0)
    read = float(sum(n * len(c) for n, c in zip(group.evaluations, group.choices, strict=True)))
    laden = values + group.dual
    return group.common() + Operations(
        sem_events=group.spoken,
        sem_rows=added,
        sem_laden=added if laden else 0.0,
        sem_counters=added * active,
        sem_cells=sum(map(arrivals.rate, starts)) * states * (1 + laden),
        sem_reads=read,
        sem_totals=read * active,
        sem_values=laden * (added + read) * active,
        sorted_rows=float(group.rows.sum()),
    )


def _values(query: object) -> int:
    """How many numbers a query carries beside its count."""
    output = getattr(query, "output", None)
    assert isinstance(output, Aggregation)
    return sum(2 for item in output.items if item.operand is not None)
