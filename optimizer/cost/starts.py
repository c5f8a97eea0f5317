"""What a vector of counters for every active START takes, in operations for a second of stream."""

from __future__ import annotations

from collections import Counter
from math import log2

from optimizer.cost.counting import CountedQueries
from optimizer.cost.unit_costs import Operations
from optimizer.ir.aggregates import aggregate_parts
from optimizer.ir.automaton import state_graph
from optimizer.ir.chain import Chain, compared_chain_of
from optimizer.ir.pattern import Symbol
from optimizer.ir.query import Aggregation


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


BLOCK = 256  # STARTs whose counters Fenwick trees keep at once
FEWEST_ROWS = 4.0  # as which an event of a tree counts that reads and writes one row of each


def fenwick(group: CountedQueries) -> Operations:
    """Each event reads and writes half as many rows as a tree over ranks is deep, on average, with
    one counter for each START in the window; each takes twice as long as in SEM, as they lie apart.

    STARTs are taken in blocks, each of which visits the events of its windows.
    """
    arrivals = group.arrivals
    nodes: dict[tuple[object, ...], Symbol] = {}  # by their prefix of components
    asked: Counter[tuple[object, ...]] = Counter()  # how often their order is asked for
    starts: set[Symbol] = set()
    for query in group.queries:
        chain = compared_chain_of(query)
        assert isinstance(chain, Chain), chain
        starts.add(chain.components[0].symbol)
        prefix: tuple[object, ...] = ()
        for step in zip(chain.components, chain.gaps, chain.comparisons, strict=True):
            component, gap, comparison = step
            before = prefix
            prefix = *prefix, (component.symbol, gap, comparison)
            if prefix not in nodes and len(before) > 1 and comparison is not None:
                asked[before] += 1
            nodes[prefix] = component.symbol
    active = sum(map(arrivals.met, starts))
    visits = 1 + active / BLOCK
    touched = 0.0
    for prefix, symbol in nodes.items():
        if len(prefix) > 1:
            depth = log2(1 + arrivals.met(symbol))
            above = log2(1 + arrivals.met(nodes[prefix[:-1]])) if len(prefix) > 2 else 0.0
            rows = FEWEST_ROWS + above + asked[prefix] * (1 + depth)
            touched += arrivals.rate(symbol) * rows
    read = float(group.evaluations.sum())
    laden = max(map(_values, group.queries), default=0) + group.dual
    return group.common() + Operations(
        sem_events=group.spoken * visits,
        sem_rows=touched * visits,
        sem_laden=group.spoken * visits if laden else 0.0,
        sem_counters=touched * active,
        sem_cells=sum(map(arrivals.rate, starts)) * (1 + laden),
        sem_reads=read * visits,
        sem_totals=read * active,
        sem_values=laden * (touched / 2 + read) * active,
        sorted_rows=float(group.rows.sum()),
    )


def _values(query: object) -> int:
    """How many numbers a query carries beside its count."""
    output = getattr(query, "output", None)
    assert isinstance(output, Aggregation)
    return 2 * len(aggregate_parts(output))
