"""The matches of a clause: over bitmaps by the kernel, or asking conditions as rows are mapped."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from engines.matching.rowpattern.compile_conditions import condition_code
from engines.matching.rowpattern.compile_pattern import CompiledPattern, compiled
from engines.matching.rowpattern.conditions import SplitCondition, bitmaps, split_conditions
from engines.matching.rowpattern.ordered_table import OrderedTable, Rows
from engines.sql.scalars import aggregate, value
from kernels.rowconditions.cpu import search_asking
from kernels.rowpattern.cpu import (
    AT_START,
    FIRST,
    FIRST_ROW,
    LAST,
    NEXT,
    NO_ROW,
    PAST,
    TOO_LONG,
    FoundRows,
    KnownRows,
    search_rows,
)
from kernels.rowpattern.more_rows import MoreRowsError, needs_end, needs_row, needs_values
from optimizer.ir.recognition import Recognition
from workloads.errors import TooLargeError, UnsupportedError
from workloads.sql import expressions as ex
from workloads.sql.rowpattern import variables

_SKIPS = {"past": PAST, "next": NEXT, "first": FIRST, "last": LAST}
MAX_ASKED = 20_000_000  # steps of a search that asks conditions row by row


@dataclass(frozen=True, eq=False)
class FoundMatches:
    """Matches by their first row and length; their rows, one behind the other, with what they are
    mapped to (a number in `names`) and whether they are left out.

    `begin` is where the rows of each match begin among them, and `number` its MATCH_NUMBER.
    """

    names: tuple[str, ...]
    first: Rows
    length: Rows
    begin: Rows
    number: Rows
    labels: Rows
    excluded: npt.NDArray[np.bool_]
    unmatched: Rows
    undecided: Rows
    matched: Rows


def find_matches(
    table: OrderedTable, clause: Recognition, known: KnownRows | None = None
) -> FoundMatches:
    """All matches in the rows of a table, or those that do not depend on rows to come.

    Of each partition, from the row `undecided` on that is open, and rows before `matched` are in a
    match.
    """
    known = KnownRows.all_of(table.bounds) if known is None else known
    times, within = table.clock(clause)
    names = variables(clause.pattern)
    made = compiled(clause.pattern, names)
    conditions = split_conditions(clause, names)
    holds = bitmaps(table, conditions)
    skip = _SKIPS[clause.skip.to]
    code = made.code(clause.variables_of(clause.skip.variable))
    limit = -1 if within is None else within
    if any(condition.by_match for condition in conditions):
        asked = condition_code(table, clause, names, conditions)
        if asked is not None:
            found = search_asking(code, asked, holds, table.bounds, times, limit, skip, known)
        else:
            search = _AskingSearch(table, clause, made, conditions, holds, times, limit, known)
            found = search.found(code.skipped.tolist(), skip)
    else:
        found = search_rows(code, holds, table.bounds, times, limit, skip, made.memory, known)
    _check(found, clause)
    begin = np.cumsum(found.length) - found.length
    partition = np.searchsorted(table.bounds, found.first, "right") - 1
    return FoundMatches(
        names,
        found.first,
        found.length,
        begin,
        _numbered(partition) + known.numbers[partition] - 1,
        np.array(made.left, np.int64)[found.taken],
        np.array(made.excluded, np.bool_)[found.taken],
        found.unmatched,
        found.undecided,
        found.matched,
    )


def _numbered(partition: Rows) -> Rows:
    """1, 2, … for the matches of each partition."""
    places = np.arange(len(partition))
    fresh = np.concatenate([[True], partition[1:] != partition[:-1]])[: len(partition)]
    return places - np.maximum.accumulate(np.where(fresh, places, 0)) + 1


def _check(found: FoundRows, clause: Recognition) -> None:
    if found.status == TOO_LONG:
        raise TooLargeError(
            "the search takes too many steps: a part that is repeated prefers to be empty, or "
            "conditions that read the match so far fail late; let them read the row and PREV or "
            "NEXT of it, or give the pattern a WITHIN"
        )
    if found.status in (NO_ROW, FIRST_ROW):
        why = (
            "a match has no row of it"
            if found.status == NO_ROW
            else "that is the first row of the match, which would be found again for ever"
        )
        raise UnsupportedError(f"AFTER MATCH SKIP TO {clause.skip.variable}: {why}")


class _AskingSearch:
    """Backtracking over the rows of a table, with conditions that read the match so far."""

    def __init__(
        self,
        table: OrderedTable,
        clause: Recognition,
        made: CompiledPattern,
        conditions: Sequence[SplitCondition],
        holds: npt.NDArray[np.bool_],
        times: Rows,
        within: int,
        known: KnownRows,
    ) -> None:
        self._table, self._made, self._within, self._known = table, made, within, known
        self._conditions = [condition.by_match for condition in conditions]
        self._holds = holds.tolist()
        self._times = times.tolist()
        names = tuple(made.names)
        self._members = {
            name: frozenset(names.index(part) for part in parts) for name, parts in clause.unions
        }
        read = {
            node.column
            for parts in self._conditions
            for condition in parts
            for node in ex.walk(condition)
            if isinstance(node, ex.RowValue | ex.Own) and node.column is not None
        }
        self._values = {name: table.column(name).to_pylist() for name in read}
        self._labels: list[int] = []
        self._start = self._begin = self._end = self._number = 0
        self._asked = 0

    def found(self, skipped: list[bool], skip: int) -> FoundRows:
        first: list[int] = []
        length: list[int] = []
        taken: list[int] = []
        unmatched: list[int] = []
        bounds = self._table.bounds.tolist()
        undecided, covered = self._known.starts.tolist(), self._known.matched.tolist()
        for p, (self._begin, self._end) in enumerate(pairwise(bounds)):
            self._number = int(self._known.numbers[p])
            start, matched = undecided[p], covered[p]
            while start < self._end:
                try:
                    rows = self._match(start)
                except MoreRowsError:
                    break
                if rows is None:
                    if start >= matched:
                        unmatched.append(start)
                    start += 1
                    continue
                self._number += 1
                first.append(start)
                length.append(len(rows))
                taken += rows
                matched = max(matched, start + max(1, len(rows)))
                if not rows or skip == NEXT:
                    start += 1
                elif skip == PAST:
                    start += len(rows)
                else:
                    places = [place for place, at in enumerate(rows) if skipped[at]]
                    if not places or places[0 if skip == FIRST else -1] == 0:
                        status = FIRST_ROW if places else NO_ROW
                        parts = (first, length, taken, unmatched, status, start)
                        return FoundRows.of_lists(*parts, undecided, covered)
                    start += places[0 if skip == FIRST else -1]
            undecided[p], covered[p] = start, matched
        return FoundRows.of_lists(first, length, taken, unmatched, 0, 0, undecided, covered)

    def _match(self, start: int) -> list[int] | None:
        """The instructions that take the rows of the preferred match from a row on."""
        made = self._made
        operation, left, right = made.operation, made.left, made.right
        self._start, self._labels = start, []
        taken: list[int] = []
        waiting: list[tuple[int, int, int]] = []
        path: list[tuple[int, int]] = []  # the splits on the way, with their rows
        at, row = 0, start
        while True:
            self._asked += 1
            if self._asked > MAX_ASKED:
                raise TooLargeError(
                    f"conditions that read the match so far took {MAX_ASKED:,} steps; let them "
                    "read the row and PREV or NEXT of it, or give the pattern a WITHIN"
                )
            fails = False
            match operation[at]:
                case 0:  # TAKE
                    needs_row(self._known, row, start, self._end, self._times, self._within)
                    fails = not self._takes(left[at], row)
                    if not fails:
                        taken.append(at)
                        row += 1
                        at += 1
                case 1:  # SPLIT
                    waiting.append((right[at], row, len(path) + 1))
                    path.append((at, row))
                    at = left[at]
                case 2:  # JUMP
                    at = left[at]
                case 3:  # FOUND
                    needs_values(self._known, row, start, self._end)
                    return taken
                case 6:  # CHECK
                    fails = next(r for a, r in reversed(path) if a == left[at]) == row
                    at += 1
                case anchor:
                    if anchor != AT_START:
                        needs_end(self._known, row, self._end)
                    fails = row != (self._begin if anchor == AT_START else self._end)
                    at += 1
            if fails:
                if not waiting:
                    return None
                at, row, steps = waiting.pop()
                del path[steps:]
                del taken[row - start :]
                del self._labels[row - start :]

    def _takes(self, variable: int, row: int) -> bool:
        if row >= self._end or not self._holds[variable][row]:
            return False
        if self._within >= 0 and self._times[row] - self._times[self._start] >= self._within:
            return False
        self._labels.append(variable)
        if all(value(part, self._leaf) is True for part in self._conditions[variable]):
            return True
        self._labels.pop()
        return False

    def _leaf(self, node: ex.Expression) -> Any:
        match node:
            case ex.RowValue(pointer, column):
                at = self._row(pointer)
                return None if at is None else self._values[column][at]
            case ex.Classifier(pointer):
                at = self._row(pointer)
                place = -1 if at is None else at - self._start
                inside = 0 <= place < len(self._labels)
                return self._made.names[self._labels[place]] if inside else None
            case ex.MatchNumber():
                return self._number
            case _:
                assert isinstance(node, ex.Aggregated)
                return self._aggregated(node)

    def _row(self, pointer: ex.Pointer) -> int | None:
        labels, left = self._labels, pointer.logical
        wanted = None if pointer.variable is None else self._members[pointer.variable]
        places = range(len(labels)) if pointer.from_first else range(len(labels) - 1, -1, -1)
        for place in places:
            if wanted is None or labels[place] in wanted:
                if left == 0:
                    at = self._start + place + pointer.physical
                    return at if self._begin <= at < self._end else None
                left -= 1
        return None

    def _aggregated(self, node: ex.Aggregated) -> Any:
        wanted = None if node.variable is None else self._members[node.variable]
        places = [
            place for place, label in enumerate(self._labels) if wanted is None or label in wanted
        ]
        if node.argument is None:
            return len(places)
        values = [value(node.argument, self._own(place)) for place in places]
        second = node.second
        others = [] if second is None else [value(second, self._own(p)) for p in places]
        return aggregate(node.function, values, node.distinct, others)

    def _own(self, place: int) -> Any:
        def own(leaf: ex.Expression) -> Any:
            if isinstance(leaf, ex.MatchNumber):
                return self._number
            assert isinstance(leaf, ex.Own)
            if leaf.column is None:
                return self._made.names[self._labels[place]]
            return self._values[leaf.column][self._start + place]

        return own
