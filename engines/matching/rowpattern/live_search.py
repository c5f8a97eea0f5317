"""Searches of MATCH_RECOGNIZE where rows may still come: what is certain, and what is kept for it.

Of each partition the rows are kept from the first on at which a match may begin that depends on
rows to come, and so many before it as are read there. Two columns say which rows these are.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from engines.columns.columns import Columns
from engines.matching.rowpattern.ordered_table import OrderedTable, Rows, ordered_table
from engines.matching.rowpattern.search import FoundMatches, find_matches
from kernels.rowpattern.cpu import KnownRows
from optimizer.ir.keys import ADDED_TO_ROWS
from optimizer.ir.recognition import Recognition

# Columns that say what a row is, and which number the next match has.
STATE, NUMBER = f"{ADDED_TO_ROWS}state", f"{ADDED_TO_ROWS}number"
_READ, _COVERED, _OPEN = range(3)  # before a match, in an earlier one, and not searched yet


class Search(NamedTuple):
    """What a search found in the rows of a table, of which so much was known."""

    table: OrderedTable
    known: KnownRows
    found: FoundMatches


def searched(
    columns: Columns, clause: Recognition, until: int | None, table: OrderedTable | None = None
) -> Search:
    """The matches of a clause that are certain when all rows before the time `until` have come.

    None: no more come. What was searched for in the same columns is not searched for again.
    """
    place = Search, clause, until
    if place not in columns.derived:
        table = table or ordered_table(columns.events, clause)
        known = _known(table, clause, until)
        columns.derived[place] = Search(table, known, find_matches(table, clause, known))
    found: Search = columns.derived[place]
    return found


def _known(table: OrderedTable, clause: Recognition, until: int | None) -> KnownRows:
    known = KnownRows.all_of(table.bounds)
    if STATE in table.events.table.column_names:
        state, number = (
            np.asarray(pc.fill_null(table.column(name), default))
            for name, default in ((STATE, _OPEN), (NUMBER, 1))
        )
        starts = known.starts + _by_partition(table, state == _READ)
        numbers = np.maximum.reduceat(number, known.starts) if len(known.starts) else known.numbers
        known = KnownRows(starts, starts + _by_partition(table, state == _COVERED), numbers)
    if until is None:
        return known
    return known._replace(until=until, ahead=clause.ahead, after=clause.after)


def _by_partition(table: OrderedTable, rows: np.ndarray) -> Rows:
    """How many of these rows each partition has."""
    before = np.concatenate([[0], np.cumsum(rows)])
    return np.diff(before[table.bounds]).astype(np.int64)


class OpenRows(NamedTuple):
    """The rows of a table of events that are kept, with the columns that tell what they are; and
    the times at which a match that began can take no more rows.
    """

    rows: Rows
    states: pa.Array
    numbers: pa.Array
    times: Rows


def open_rows(search: Search, clause: Recognition) -> OpenRows:
    """What is to be kept of the rows that were searched."""
    table, known, found = search
    partition = np.repeat(np.arange(len(known.starts)), np.diff(table.bounds))
    first = np.maximum(table.bounds[:-1], found.undecided - clause.back)
    rows = np.arange(len(table))
    kept = np.flatnonzero(rows >= first[partition])
    partition = partition[kept]
    states = np.where(kept < found.matched[partition], _COVERED, _OPEN)
    states[kept < found.undecided[partition]] = _READ
    of = np.searchsorted(table.bounds, found.first, "right") - 1
    numbers = known.numbers + np.bincount(of, minlength=len(known.numbers))
    order = np.argsort(table.rows[kept], kind="stable")
    times, within = table.clock(clause)
    begun = found.undecided[found.undecided < table.bounds[1:]]
    return OpenRows(
        table.rows[kept][order],
        pa.array(states[order], pa.int64()),
        pa.array(numbers[partition][order], pa.int64()),
        times[begun][:0] if within is None else times[begun] + within - 1,
    )
