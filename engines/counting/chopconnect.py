"""Queries chopped into segments that are counted once and connected (Chop-Connect).

Sections 4.2 to 4.4 of Qi's thesis. Which segments is the plan's choice and comes as lengths by
query. A segment is its symbols with what is negated after each, so that a negation where a query is
chopped belongs to the segment before it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import accumulate
from typing import NamedTuple, TypeAlias

import numpy as np

from engines.columns.columns import Columns
from engines.columns.layout import Layout
from engines.counting.letters import (
    CountingPlan,
    CountResult,
    LetterGroups,
    capacity_for,
    counted,
    filled,
    may_overflow,
    nothing,
    prepare,
)
from engines.counting.tables import Letters, by_letter, ints, where
from kernels.chopconnect import cpu as kernel
from kernels.groups import ResultRows, Spans
from optimizer.ir.automaton import Symbols
from optimizer.ir.chain import Chain, chain_of
from optimizer.ir.pattern import Symbol
from optimizer.ir.query import Query

Segment: TypeAlias = tuple[tuple[Symbol, Symbols], ...]  # symbols, and what is negated after each
Lengths: TypeAlias = Mapping[str, Sequence[int]]


def refusal(query: Query) -> str | None:
    """None if the query can be chopped and connected, else why not."""
    found = chain_of(query)
    return found if isinstance(found, str) else None


def count(
    plan: CountingPlan,
    columns: Columns,
    layout: Layout,
    spans: Spans,
    is_count: bool,
    lengths: Lengths | None = None,
) -> CountResult | None:
    """Count the plan's queries, each in segments of the lengths given under its name, or whole.

    As `product.count`; the rows of each query come in order.
    """
    prepared = prepare(plan, columns, layout, spans.widest, is_count)
    if prepared is None:
        return None
    if not len(prepared.used):
        return nothing(plan)
    dual = may_overflow(plan, prepared, spans)
    rows = connected_rows(plan, prepared, spans, dual, lengths)
    return counted(prepared, layout, rows, dual, (spans.slide > 0) & is_count)


def connected_rows(
    plan: CountingPlan,
    prepared: LetterGroups,
    spans: Spans,
    dual: bool,
    lengths: Lengths | None,
) -> ResultRows:
    """The rows of the plan's queries, each in segments of these lengths, or whole."""
    chopped = [chop(query, lengths or {}) for query in plan.queries]
    gates = [_chain(query).gate for query in plan.queries]
    triggers = [term.triggers for term in plan.terms]
    segments = segments_of(chopped, gates, triggers, _wanted(plan), prepared.letters)
    return filled(
        partial(kernel.connect, prepared.groups, segments, spans, dual),
        capacity_for(prepared.groups, np.diff(segments.triggered), spans),
        dual,
        plan.most_values,
    )


def chop(query: Query, lengths: Lengths) -> tuple[Segment, ...]:
    """A query's segments, of the lengths given under its name."""
    chain = _chain(query)
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


def _chain(query: Query) -> Chain:
    chain = chain_of(query)
    assert isinstance(chain, Chain), chain
    return chain


class ValueRequest(NamedTuple):
    """A value that a query asks for: of which of its components."""

    component: int
    kind: int
    input: int


def _wanted(plan: CountingPlan) -> list[list[ValueRequest]]:
    found = []
    for query, term in zip(plan.queries, plan.terms, strict=True):
        chain = _chain(query)
        found.append([ValueRequest(chain.level(v.alias), v.kind, v.input) for v in term.values])
    return found


class _Link(NamedTuple):
    path: tuple[int, ...]  # segments
    gate: int  # before the first of them, or -1

    def before(self, length: int) -> _Link:
        """The link of its first segments."""
        return _Link(self.path[:length], self.gate)


class _Slot(NamedTuple):
    node: int
    origin: int  # the node of its component
    kind: int
    input: int


class _Lane(NamedTuple):
    part: int  # which of a path's segments
    slot: _Slot  # at that segment's end


def segments_of(
    chopped: Sequence[tuple[Segment, ...]],
    gates: Sequence[Symbols],
    triggers: Sequence[Symbols],
    wanted: Sequence[Sequence[ValueRequest]],
    letters: Letters,
) -> kernel.SegmentTables:
    """The tables of chopped queries for the letters of a stream.

    `gates` is what each query negates before its first segment, `triggers` what it is read at.
    """
    numbers: dict[Segment, int] = {}
    for parts in chopped:
        for part in parts:
            numbers.setdefault(part, len(numbers))
    first = [0, *accumulate(map(len, numbers))]
    paths = [tuple(numbers[part] for part in parts) for parts in chopped]
    barred = dict.fromkeys((path[0], gate) for path, gate in zip(paths, gates, strict=True) if gate)
    bars = sorted(barred, key=lambda bar: bar[0])
    wholes = [
        _Link(path, bars.index((path[0], gate)) if gate else -1)
        for path, gate in zip(paths, gates, strict=True)
    ]
    found = {whole.before(n) for whole in wholes for n in range(2, len(whole.path) + 1)}
    links = sorted(found, key=lambda link: (link.path[-1], link))
    place = {link: i for i, link in enumerate(links)}
    lanes: dict[_Link, dict[_Lane, int]] = {link: {} for link in links}
    carried: set[_Slot] = set()
    reads: list[list[_Lane]] = []
    for whole, values in zip(wholes, wanted, strict=True):
        reads.append([_lane(whole.path, value, first) for value in values])
        for lane in reads[-1]:
            slot = lane.slot
            carried |= {slot._replace(node=n) for n in range(slot.origin, slot.node + 1)}
            for n in range(lane.part + 2, len(whole.path) + 1):
                carriers = lanes[whole.before(n)]
                carriers.setdefault(lane, len(carriers))
    slots = {slot: i for i, slot in enumerate(sorted(carried))}
    laned = [(link, lane) for link in links for lane in lanes[link]]
    read = [(whole, lane) for whole, row in zip(wholes, reads, strict=True) for lane in row]
    nodes = [(symbol, gap, i) for part, i in numbers.items() for symbol, gap in part]
    moves = [symbols for symbols, _ in letters.moves]
    many = np.arange(len(numbers) + 1)
    return kernel.SegmentTables(
        ints(first),
        ints(i for _, _, i in nodes),
        *by_letter(moves, lambda s: where(symbol in s for symbol, _, _ in nodes)),
        *by_letter(letters.stays, lambda s: where(gap & s for _, gap, _ in nodes)),
        *by_letter(letters.stays, lambda s: where(gate & s for _, gate in bars)),
        np.searchsorted(ints(segment for segment, _ in bars), many),
        np.searchsorted(ints(slot.node for slot in slots), np.arange(len(nodes) + 1)),
        ints(slot.kind for slot in slots),
        ints(slots.get(slot._replace(node=slot.node - 1), -1) for slot in slots),
        ints(slot.input for slot in slots),
        np.searchsorted(ints(link.path[-1] for link in links), many),
        ints(place.get(link.before(-1), -1) for link in links),
        ints(link.path[-1] for link in links),
        ints(link.path[-2] for link in links),
        ints(link.path[0] for link in links),
        ints(link.gate for link in links),
        ints(accumulate((len(lanes[link]) for link in links), initial=0)),
        ints(lane.slot.kind for _, lane in laned),
        # A value of the segment just before the link, or one of an earlier segment.
        ints(slots[lane.slot] if lane.part == len(k.path) - 2 else -1 for k, lane in laned),
        ints(lanes[k.before(-1)][lane] if lane.part < len(k.path) - 2 else -1 for k, lane in laned),
        *by_letter(moves, lambda s: where(each & s for each in triggers)),
        ints(whole.path[-1] for whole in wholes),
        ints(place.get(whole, -1) for whole in wholes),
        ints(whole.gate for whole in wholes),
        ints(accumulate(map(len, reads), initial=0)),
        ints(lane.slot.kind for _, lane in read),
        ints(slots[lane.slot] if lane.part == len(k.path) - 1 else -1 for k, lane in read),
        ints(lanes[k][lane] if lane.part < len(k.path) - 1 else -1 for k, lane in read),
    )


def _lane(path: tuple[int, ...], value: ValueRequest, first: Sequence[int]) -> _Lane:
    """In which segment of a path a value's component lies, and the slot at that segment's end."""
    rest = value.component
    for part, segment in enumerate(path):
        length = first[segment + 1] - first[segment]
        if rest < length:
            origin = first[segment] + rest
            return _Lane(part, _Slot(first[segment + 1] - 1, origin, value.kind, value.input))
        rest -= length
    raise AssertionError("a query has no component of that number")
