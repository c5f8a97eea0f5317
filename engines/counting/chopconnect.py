"""Queries chopped into segments that are counted once and connected (Chop-Connect).

Sections 4.2 to 4.4 of Qi's thesis. Which segments is the plan's choice and comes as lengths by
query. A segment is its symbols with what is negated after each, so that a negation where a query is
chopped belongs to the segment before it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np

from engines.counting.chain import Chain, chain_of, per_trigger
from engines.counting.compile import Letters
from engines.counting.plan import Plan, wanted_values
from engines.counting.prepare import Counted, counted, may_overflow, nothing, prepare, rows_for
from engines.counting.tables import by_letter, ints, where
from engines.local.columns import Columns
from engines.local.layout import Layout
from kernels import chopconnect as kernel
from kernels.product import Rows
from optimizer.automaton import Symbols
from optimizer.ir.pattern import Symbol
from optimizer.ir.query import Query

Segment: TypeAlias = tuple[tuple[Symbol, Symbols], ...]  # symbols, and what is negated after each
Lengths: TypeAlias = Mapping[str, Sequence[int]]


def refusal(query: Query) -> str | None:
    """None if the query can be chopped and connected, else why not."""
    chain = chain_of(query)
    if isinstance(chain, str):
        return chain
    if chain.gate:
        # Snapshots are kept as sums over a START and all later ones, of which a gate lets only
        # the earlier ones pass.
        return "it begins with a negation"
    if wanted_values(query):
        return "it asks for more than COUNT(*)"
    return per_trigger(query)


def count(
    plan: Plan,
    columns: Columns,
    layout: Layout,
    width: int,
    is_count: bool,
    lengths: Lengths | None = None,
) -> Counted | None:
    """Count the plan's queries, each in segments of the lengths given under its name, or whole.

    As `product.count`, per trigger; the rows of each query come in order.
    """
    prepared = prepare(plan, columns, layout, width, is_count)
    if prepared is None:
        return None
    if not len(prepared.used):
        return nothing(plan)
    dual = may_overflow(plan, columns, layout, width)
    segments = segments_of([chop(q, lengths or {}) for q in plan.queries], prepared.letters)
    triggered = np.diff(segments.triggered)[prepared.groups.move_letter]
    out = rows_for(int(triggered.sum()), dual, plan.most_values)
    made = kernel.connect(prepared.groups, segments, width, dual, out)
    return counted(prepared, layout, Rows(*(column[:made] for column in out)), dual)


def chop(query: Query, lengths: Lengths) -> tuple[Segment, ...]:
    """A query's segments, of the lengths given under its name."""
    chain = chain_of(query)
    assert isinstance(chain, Chain), chain
    whole = tuple(
        (component.symbol, gap) for component, gap in zip(chain.components, chain.gaps, strict=True)
    )
    given = tuple(lengths.get(query.name, (len(whole),)))
    if sum(given) != len(whole) or min(given) < 1:
        raise ValueError(
            f"segments of {given} do not make up the {len(whole)} components of {query.name}"
        )
    ends = np.cumsum(given).tolist()
    return tuple(whole[end - length : end] for end, length in zip(ends, given, strict=True))


class _Link(NamedTuple):
    last: int
    path: tuple[int, ...]  # all its segments, the last included


def segments_of(chopped: Sequence[tuple[Segment, ...]], letters: Letters) -> kernel.Segments:
    """The tables of chopped queries for the letters of a stream."""
    numbers: dict[Segment, int] = {}
    for parts in chopped:
        for part in parts:
            numbers.setdefault(part, len(numbers))
    paths = [tuple(numbers[part] for part in parts) for parts in chopped]
    links = sorted({_Link(p[n - 1], p[:n]) for p in paths for n in range(2, len(p) + 1)})
    place = {link.path: i for i, link in enumerate(links)}
    nodes = [(symbol, gap, i) for part, i in numbers.items() for symbol, gap in part]
    lasts = [parts[-1][-1][0] for parts in chopped]
    moves = [symbols for symbols, _ in letters.moves]
    return kernel.Segments(
        ints([0, *np.cumsum([len(part) for part in numbers])]),
        ints(i for _, _, i in nodes),
        *by_letter(moves, lambda s: where(symbol in s for symbol, _, _ in nodes)),
        *by_letter(letters.stays, lambda s: where(gap & s for _, gap, _ in nodes)),
        np.searchsorted(ints(link.last for link in links), np.arange(len(numbers) + 1)),
        ints(place.get(link.path[:-1], -1) for link in links),
        ints(link.last for link in links),
        ints(link.path[-2] for link in links),
        ints(link.path[0] for link in links),
        *by_letter(moves, lambda s: where(last in s for last in lasts)),
        ints(path[-1] for path in paths),
        ints(place.get(path, -1) for path in paths),
    )
