"""Aggregate queries of one key and window, counted together by the sliding product."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from engines.counting.compile import Letters, Tables, Term, Value, compile_tables
from engines.local.columns import Columns
from engines.local.layout import Layout
from kernels import product as kernel
from optimizer.automaton import Machine, Symbols, alternatives
from optimizer.ir.pattern import And, Event, Neg, Pattern, Seq, Symbol, positive_events
from optimizer.ir.query import Aggregation, Query
from workloads import expressions as ex
from workloads.expressions import Attribute
from workloads.syntax import Plus

Int64s = npt.NDArray[np.int64]
Float64s = npt.NDArray[np.float64]

# Sets of symbols that occur at one time are numbered and each gets operators of its own; a stream
# that makes more of them than this is left to the engine that constructs matches.
MAX_LETTERS = 20_000
_KINDS = {
    "sum": (kernel.SUM, kernel.NUMBER),
    "avg": (kernel.SUM, kernel.NUMBER),
    "min": (kernel.MIN,),
    "max": (kernel.MAX,),
}


@dataclass(frozen=True)
class Counted:
    """Results of a group of queries: a row for each evaluation with at least one match.

    `row` is the last row of the layout in the window, `boundary` the time or rank at
    which it was evaluated. `counts` are exact where `exact` says so; `values[row, i]` is the i-th
    of the query's wanted values.
    """

    query: Int64s
    row: Int64s
    boundary: Int64s
    counts: npt.NDArray[np.uint64]
    approximate: Float64s
    exact: npt.NDArray[np.bool_]
    values: Float64s


class Plan:
    """The machines of queries that share key, window and slide."""

    def __init__(self, queries: Sequence[Query]) -> None:
        self.queries = tuple(queries)
        shared: dict[Pattern, Machine] = {}
        self.machines = [
            tuple(shared.setdefault(c, Machine(c)) for c in alternatives(query.pattern))
            for query in self.queries
        ]
        self.inputs: dict[str, int] = {}
        self.terms = [
            Term(machines, self._values(query), _triggers(query))
            for query, machines in zip(self.queries, self.machines, strict=True)
        ]
        self.most_values = max(len(term.values) for term in self.terms)
        self.symbols = sorted({s for ms in self.machines for m in ms for s in m.symbols}, key=str)

    def _values(self, query: Query) -> tuple[Value, ...]:
        return tuple(
            Value(kind, operand.alias, self.inputs.setdefault(operand.name, len(self.inputs)))
            for function, operand in wanted_values(query)
            for kind in _KINDS[function]
        )


def wanted_values(query: Query) -> list[tuple[str, Attribute]]:
    """The distinct values that a query's aggregates and its HAVING need, counts apart."""
    assert isinstance(query.output, Aggregation)
    found = [(a.function, a.operand) for a in query.output.items if a.operand is not None]
    if query.output.having is not None:
        found += [
            (node.function, node.argument)  # type: ignore[misc]
            for node in ex.walk(query.output.having)
            if isinstance(node, ex.Call) and isinstance(node.argument, Attribute)
        ]
    distinct: dict[tuple[str, str, str], tuple[str, Attribute]] = {}
    for function, operand in found:
        kind = "sum" if function == "avg" else function
        distinct[kind, operand.alias, operand.name] = (kind, operand)
    return list(distinct.values())


def value_columns(query: Query) -> dict[tuple[str, str, str], int]:
    """Where a wanted value stands in a row: its first column, by kind, alias and attribute."""
    found: dict[tuple[str, str, str], int] = {}
    column = 0
    for function, operand in wanted_values(query):
        found[function, operand.alias, operand.name] = column
        column += len(_KINDS[function])
    return found


def _triggers(query: Query) -> frozenset[Symbol]:
    return frozenset(
        event.symbol for choice in alternatives(query.pattern) for event in _last(choice)
    )


def _last(pattern: Pattern) -> list[Event]:
    match pattern:
        case Event():
            return [pattern]
        case Seq(parts):
            return _last(next(p for p in reversed(parts) if not isinstance(p, Neg)))
        case And(parts):
            return [event for part in parts for event in _last(part)]
        case _:
            return []


def count(
    plan: Plan, columns: Columns, layout: Layout, width: int, slide: int, is_count: bool
) -> Counted | None:
    """Count all queries of the plan over a layout; None where the stream makes that impossible.

    `slide` 0 means per trigger. Large counts come marked as not exact, and nothing wraps unseen.
    """
    codes, meanings = _symbol_sets(plan, columns, layout)
    used = np.flatnonzero(np.array([bool(m) for m in meanings])[codes])
    if not len(used):
        return _nothing(plan)
    new_group = np.ones(len(used), np.bool_)
    new_group[1:] = layout.block[used[1:]] != layout.block[used[:-1]]
    if any(m.has_conjunction for ms in plan.machines for m in ms) and not new_group.all():
        # Simultaneous events would have to be paired with one another.
        return None
    firsts = np.flatnonzero(new_group)
    found = _letters(plan, codes[used], meanings, firsts)
    if found is None:
        return None
    letters, stay_letter, move_letter = found
    partition = layout.partition[used[firsts]]
    run = _runs(partition)
    # A window counted in events ends with the stream; one in time is looked at until it is empty.
    ends = layout.position[layout.starts[partition[run[:-1]] + 1] - 1]
    groups = kernel.Groups(
        run=run,
        limit=ends if is_count else ends + width,
        position=layout.position[used[firsts]],
        stay_letter=stay_letter,
        event=np.append(firsts, len(used)),
        move_letter=move_letter,
        inputs=_inputs(plan, columns, layout.order[used]),
    )
    dual = _may_overflow(plan, columns, layout, width)
    rows = _run(plan, groups, compile_tables(plan.terms, letters), width, slide, dual)
    approximate = rows.approximate if dual else rows.counts.astype(np.float64)
    # A wrapped count is right where the true one is below 2^64, which the floating-point one tells.
    exact = (approximate < 2.0**63.5) & (rows.counts <= np.uint64(2**63 - 1))
    last = used[groups.event[rows.group + 1] - 1]
    if slide and is_count:
        # The window may end with an event that no query speaks of.
        last = layout.rows_until(layout.partition[last], rows.boundary) - 1
    return Counted(
        rows.query,
        last,
        rows.boundary,
        rows.counts,
        np.where(exact, rows.counts.astype(np.float64), approximate),
        exact,
        rows.values,
    )


def _nothing(plan: Plan) -> Counted:
    none = np.empty(0, np.int64)
    numbers = np.empty(0, np.float64)
    return Counted(
        none,
        none,
        none,
        none.astype(np.uint64),
        numbers,
        none.astype(bool),
        numbers.reshape(0, plan.most_values),
    )


def _symbol_sets(plan: Plan, columns: Columns, layout: Layout) -> tuple[Int64s, list[Symbols]]:
    """For each row the number of the set of symbols that it is an instance of, and those sets."""
    codes = np.zeros(len(layout), np.int64)
    meanings: list[Symbols] = [frozenset()]
    if not len(layout):
        return codes, meanings
    for start in range(0, len(plan.symbols), 60):
        part = plan.symbols[start : start + 60]
        mask = np.zeros(len(layout), np.int64)
        for bit, symbol in enumerate(part):
            mask |= columns.instances(symbol)[layout.order].astype(np.int64) << bit
        sets, mask = np.unique(mask, return_inverse=True)
        pairs, codes = np.unique(codes * len(sets) + mask, return_inverse=True)
        found = [
            frozenset(symbol for bit, symbol in enumerate(part) if bits >> bit & 1)
            for bits in sets.tolist()
        ]
        meanings = [meanings[p // len(sets)] | found[p % len(sets)] for p in pairs.tolist()]
    return codes, meanings


def _letters(
    plan: Plan, codes: Int64s, meanings: list[Symbols], firsts: Int64s
) -> tuple[Letters, Int64s, Int64s] | None:
    """The stream's letters, the stay letter of each group and the move letter of each event."""
    watched = sorted({s for ms in plan.machines for m in ms for s in m.watched_symbols}, key=str)
    if len(watched) > 62:
        return None
    bits = np.array(
        [sum(1 << b for b, s in enumerate(watched) if s in m) for m in meanings], np.int64
    )
    together = np.bitwise_or.reduceat(bits[codes], firsts) if len(firsts) else firsts
    sets, stay_letter = np.unique(together, return_inverse=True)
    stays = [frozenset(s for b, s in enumerate(watched) if x >> b & 1) for x in sets.tolist()]
    lengths = np.diff(np.append(firsts, len(codes)))
    pairs, move_letter = np.unique(
        codes * max(1, len(stays)) + np.repeat(stay_letter, lengths), return_inverse=True
    )
    if len(pairs) > MAX_LETTERS:
        return None
    moves = [(meanings[p // len(stays)], p % len(stays)) for p in pairs.tolist()]
    return Letters(moves, stays), stay_letter, move_letter


def _runs(partition: Int64s) -> Int64s:
    """Where the groups of each partition begin, and where the last ones end."""
    return np.append(np.flatnonzero(np.diff(partition, prepend=-1)), len(partition))


def _inputs(plan: Plan, columns: Columns, rows: Int64s) -> Float64s:
    """The aggregated attributes of the used events; NaN for null."""
    inputs = np.empty((len(plan.inputs), len(rows)), np.float64)
    for name, i in plan.inputs.items():
        vector = columns.vector(name).take(rows)
        inputs[i] = vector.values.astype(np.float64)
        if vector.nulls is not None:
            inputs[i, vector.nulls] = np.nan
    return inputs


def _may_overflow(plan: Plan, columns: Columns, layout: Layout, width: int) -> bool:
    """Could a window hold 2^62 matches? At most the product of its components' candidates."""
    low, _ = layout.reach(width)
    most: dict[Symbol, int] = {}
    for symbol in plan.symbols:
        rows = np.flatnonzero(columns.instances(symbol)[layout.order])
        before = np.searchsorted(rows, low[rows], "left")
        until = np.searchsorted(rows, layout.after[rows], "left")
        most[symbol] = int((until - before).max(initial=0))
    return any(
        sum(
            most[e.symbol] if isinstance(e.quantifier, Plus) else np.log2(max(1, most[e.symbol]))
            for e in positive_events(choice)
        )
        + np.log2(len(choices))
        >= 62
        for choices in (alternatives(query.pattern) for query in plan.queries)
        for choice in choices
    )


def _run(
    plan: Plan,
    groups: kernel.Groups,
    tables: Tables,
    width: int,
    slide: int,
    dual: bool,
) -> kernel.Rows:
    capacity = 1024
    if slide == 0:
        capacity = int(tables.triggered[groups.move_letter].sum())
    while True:
        out = kernel.Rows(
            np.empty(capacity, np.int64),
            np.empty(capacity, np.int64),
            np.empty(capacity, np.int64),
            np.empty(capacity, np.uint64),
            np.empty(capacity if dual else 0, np.float64),
            np.empty((capacity, plan.most_values), np.float64),
        )
        made = kernel.slide_product(
            groups,
            tables.back,
            tables.front,
            tables.readings,
            len(plan.queries),
            width,
            slide,
            dual,
            out,
        )
        if made >= 0:
            return kernel.Rows(*(column[:made] for column in out))
        capacity *= 4
