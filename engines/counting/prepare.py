"""The events of a layout as groups of letters, and what a kernel found as results.

Every way to count starts and ends the same: rows to symbol sets, simultaneous rows to groups, sets
to letters; and rows of a kernel to `Counted`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from engines.columns.instances import Columns
from engines.columns.layout import Layout
from engines.counting.compile import Letters
from engines.counting.plan import Plan
from kernels import product as kernel
from kernels.windows import most_in_window
from optimizer.automaton import Symbols
from optimizer.ir.alternatives import alternatives
from optimizer.ir.pattern import Symbol, positive_events
from workloads.syntax import Plus

Int64s = npt.NDArray[np.int64]
Float64s = npt.NDArray[np.float64]

# Sets of symbols that occur at one time are numbered and each gets operators of its own; a stream
# that makes more of them than this is left to the engine that constructs matches.
MAX_LETTERS = 20_000
_BITS = 16  # symbols whose sets are numbered at once


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


@dataclass(frozen=True)
class Prepared:
    """The rows that a plan's queries speak of, in groups, and the letters that stand for them."""

    used: Int64s  # rows of the layout
    groups: kernel.Groups
    letters: Letters

    @property
    def has_ties(self) -> bool:
        """Are there simultaneous events?"""
        return len(self.groups.move_letter) > len(self.groups.position)


def prepare(
    plan: Plan, columns: Columns, layout: Layout, width: int, is_count: bool
) -> Prepared | None:
    """What the kernels run on; None where the stream has too many letters."""
    codes, meanings = _symbol_sets(plan, columns, layout)
    used = np.flatnonzero(np.array([bool(m) for m in meanings])[codes])
    new_group = np.ones(len(used), np.bool_)
    new_group[1:] = layout.block[used[1:]] != layout.block[used[:-1]]
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
    return Prepared(used, groups, letters)


def rows_for(capacity: int, dual: bool, most_values: int) -> kernel.Rows:
    """Room for a kernel's results."""
    return kernel.Rows(
        np.empty(capacity, np.int64),
        np.empty(capacity, np.int64),
        np.empty(capacity, np.int64),
        np.empty(capacity, np.uint64),
        np.empty(capacity if dual else 0, np.float64),
        np.empty((capacity, most_values), np.float64),
    )


def joined(parts: Sequence[kernel.Rows]) -> kernel.Rows:
    """The rows of several kernel calls."""
    return kernel.Rows(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))


def counted(
    prepared: Prepared, layout: Layout, rows: kernel.Rows, dual: bool, by_rank: bool = False
) -> Counted:
    """A kernel's rows as results. `by_rank`: its boundaries are ranks, evaluated per slide."""
    approximate = rows.approximate if dual else rows.counts.astype(np.float64)
    # A wrapped count is right where the true one is below 2^64, which the floating-point one tells.
    exact = (approximate < 2.0**63.5) & (rows.counts <= np.uint64(2**63 - 1))
    last = prepared.used[prepared.groups.event[rows.group + 1] - 1]
    if by_rank:
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


def nothing(plan: Plan) -> Counted:
    """No results."""
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
    for start in range(0, len(plan.symbols), _BITS):
        part = plan.symbols[start : start + _BITS]
        mask = np.zeros(len(layout), np.int64)
        for bit, symbol in enumerate(part):
            mask |= columns.instances(symbol)[layout.order].astype(np.int64) << bit
        sets, mask = _distinct(mask)
        pairs, codes = _distinct(codes * len(sets) + mask)
        found = [
            frozenset(symbol for bit, symbol in enumerate(part) if bits >> bit & 1)
            for bits in sets.tolist()
        ]
        meanings = [meanings[p // len(sets)] | found[p % len(sets)] for p in pairs.tolist()]
    return codes, meanings


def _distinct(numbers: Int64s) -> tuple[Int64s, Int64s]:
    """The distinct numbers in order, and the place of each among them; quick for small ones."""
    most = int(numbers.max(initial=0))
    if most >= 1 << 20:
        return np.unique(numbers, return_inverse=True)
    present = np.zeros(most + 1, np.bool_)
    present[numbers] = True
    return np.flatnonzero(present), (np.cumsum(present) - 1)[numbers]


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
    sets, stay_letter = _distinct(together)
    stays = [frozenset(s for b, s in enumerate(watched) if x >> b & 1) for x in sets.tolist()]
    lengths = np.diff(np.append(firsts, len(codes)))
    pairs, move_letter = _distinct(codes * max(1, len(stays)) + np.repeat(stay_letter, lengths))
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


def may_overflow(plan: Plan, columns: Columns, layout: Layout, width: int) -> bool:
    """Could a window hold 2^62 matches? At most the product of its components' candidates."""
    rows = {s: np.flatnonzero(columns.instances(s)[layout.order]) for s in plan.symbols}
    if not _could_overflow(plan, {symbol: len(found) for symbol, found in rows.items()}):
        return False  # not even if all were in one window
    most = {
        symbol: most_in_window(found, layout.partition, layout.position, width)
        for symbol, found in rows.items()
    }
    return _could_overflow(plan, most)


def _could_overflow(plan: Plan, most: dict[Symbol, int]) -> bool:
    """The same for windows with at most so many candidates of each symbol."""
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
