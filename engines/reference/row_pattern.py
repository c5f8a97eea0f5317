"""MATCH_RECOGNIZE by its definition: matches in the order of preference, the first that holds.

The standard (ISO/IEC 19075-5) gives each pattern an order of its possible matches from a row on.
They are enumerated here in that order, and a row is mapped to a variable only where the variable's
condition holds with the row mapped to it.
"""

from __future__ import annotations

import datetime
import functools
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from engines.sql.scalars import aggregate, value
from optimizer.ir.query import Query, RowPattern, whole_ticks
from optimizer.ir.recognition import Recognition
from workloads.errors import TooLargeError, UnsupportedError
from workloads.sql import expressions as ex
from workloads.sql import rowpattern as rp

Labels = tuple[tuple[str, bool], ...]  # of each row of a match: its variable, and is it left out?


class TableRow(NamedTuple):
    """A row with its time and, where there is one, its sequence number."""

    values: Mapping[str, Any]
    time: int
    moment: tuple[Any, ...]


class Given(NamedTuple):
    """A row that the clause gives: its columns, and the times that it spans."""

    values: dict[str, Any]
    start: int
    end: int
    key: dict[str, Any] | None


def recognized(
    query: Query, rows: Sequence[TableRow], names: Sequence[str], tick: int, time: str
) -> list[dict[str, Any]]:
    """The result rows of a query; `names` are the columns of the table, `time` is its time's."""
    output = query.output
    assert isinstance(output, RowPattern)
    clause = output.recognition
    if clause.filter is not None:
        rows = [row for row in rows if value(clause.filter, _own_values(row)) is True]
    given: list[Given] = []
    apart = _apart(clause, rows, tick, time)
    try:
        for key, part in _partitions(clause, rows):
            given += _Partition(clause, part, apart, key, query.name).given(names)
    except RecursionError:
        raise TooLargeError(
            f"query {query.name}: a match is too long for the reference; use --engine local"
        ) from None
    return list(_selected(clause, given, rows, names, bool(query.key)))


def _apart(
    clause: Recognition, rows: Sequence[TableRow], tick: int, time: str
) -> Callable[[TableRow, TableRow], bool] | None:
    """Are two rows, in order, too far apart for WITHIN? By ORDER BY's times, or the stream's."""
    within = clause.within
    if within is None:
        return None
    first = clause.order[0] if clause.order else None
    sign = 1 if first is None or not first.descending else -1
    if first is not None:
        name = first.column
        if rows and all(isinstance(row.values[name], datetime.datetime) for row in rows):
            length = datetime.timedelta(microseconds=-(-within // 1000))
            return lambda a, b: sign * (b.values[name] - a.values[name]) >= length
        if name != time:
            sign = 1
    ticks = whole_ticks(within, tick, "window")
    return lambda a, b: sign * (b.time - a.time) >= ticks


def _own_values(row: TableRow) -> Callable[[ex.Expression], Any]:
    def own(leaf: ex.Expression) -> Any:
        assert isinstance(leaf, ex.Own)
        return None if leaf.column is None else row.values[leaf.column]

    return own


def _partitions(
    clause: Recognition, rows: Sequence[TableRow]
) -> Iterator[tuple[dict[str, Any], list[TableRow]]]:
    found: dict[tuple[Any, ...], list[TableRow]] = {}
    for row in rows:
        found.setdefault(tuple(row.values[name] for name in clause.partition), []).append(row)
    for values, part in found.items():
        part.sort(key=functools.cmp_to_key(functools.partial(_order, clause)))
        for first, second in itertools.pairwise(part):
            if _order(clause, first, second) == 0:
                raise UnsupportedError(
                    "two rows of a partition have the same place in ORDER BY; declare the stream's "
                    "'sequence' column, which decides then, or order by more columns"
                )
        yield dict(zip(clause.partition, values, strict=True)), part


def _order(clause: Recognition, first: TableRow, second: TableRow) -> int:
    for item in clause.order:
        a, b = first.values[item.column], second.values[item.column]
        if a == b:
            continue
        if a is None or b is None:
            return -1 if (a is None) == item.nulls_first else 1
        return -1 if (a < b) != item.descending else 1
    if first.moment == second.moment:
        return 0
    return -1 if first.moment < second.moment else 1


class _Partition:
    """The search through the rows of one partition, in order."""

    def __init__(
        self,
        clause: Recognition,
        rows: list[TableRow],
        apart: Callable[[TableRow, TableRow], bool] | None,
        key: dict[str, Any],
        name: str,
    ) -> None:
        self.clause, self.rows, self.apart, self.key = clause, rows, apart, key
        self.conditions, self.name = dict(clause.conditions), name

    def given(self, names: Sequence[str]) -> Iterator[Given]:
        """All rows that the clause gives of the partition."""
        clause, at, number = self.clause, 0, 0
        matched: set[int] = set()
        while at < len(self.rows):
            labels = self._match(at, number + 1)
            if labels is None:
                if clause.all_rows and clause.show_unmatched and at not in matched:
                    nothing = dict.fromkeys((name for name, _ in clause.measures), None)
                    yield self._row(at, at, at, nothing, names)
                at += 1
                continue
            number += 1
            matched |= set(range(at, at + len(labels))) or {at}
            yield from self._rows(at, labels, number, names)
            at = self._next(at, labels)

    def _match(self, start: int, number: int) -> Labels | None:
        """The preferred match from a row on."""
        for found in self._found(self.clause.pattern, start, (), number, False):
            return found
        return None

    def _found(
        self, pattern: rp.RowPattern, start: int, labels: Labels, number: int, left_out: bool
    ) -> Iterator[Labels]:
        """Every way for a pattern to go on behind these rows, the preferred ones first."""
        match pattern:
            case rp.Variable(name):
                at = start + len(labels)
                more = (*labels, (name, left_out))
                if at < len(self.rows) and self._holds(name, start, more, number):
                    yield more
            case rp.Sequence(parts):
                if not parts:
                    yield labels
                    return
                for first in self._found(parts[0], start, labels, number, left_out):
                    rest = rp.Sequence(parts[1:])
                    yield from self._found(rest, start, first, number, left_out)
            case rp.Choice(parts):
                for part in parts:
                    yield from self._found(part, start, labels, number, left_out)
            case rp.Excluded(part):
                yield from self._found(part, start, labels, number, True)
            case rp.Anchor(at_start):
                if start + len(labels) == (0 if at_start else len(self.rows)):
                    yield labels
            case rp.Repeat(part, least, most, greedy):
                yield from self._repeated(
                    (part, least, most, greedy), start, labels, number, left_out
                )

    def _repeated(
        self,
        repeat: tuple[rp.RowPattern, int, int | None, bool],
        start: int,
        labels: Labels,
        number: int,
        left_out: bool,
    ) -> Iterator[Labels]:
        part, least, most, greedy = repeat
        if least == 0 and not greedy:
            yield labels
        if most is None or most > 0:
            fewer = (part, max(0, least - 1), None if most is None else most - 1, greedy)
            for once in self._found(part, start, labels, number, left_out):
                # Once more with nothing, beyond what is asked, is not once more.
                if least > 0 or len(once) > len(labels):
                    yield from self._repeated(fewer, start, once, number, left_out)
        if least == 0 and greedy:
            yield labels

    def _holds(self, name: str, start: int, labels: Labels, number: int) -> bool:
        at = start + len(labels) - 1
        if self.apart is not None and self.apart(self.rows[start], self.rows[at]):
            return False
        condition = self.conditions.get(name)
        view = _MatchView(self, start, labels, len(labels), number)
        return condition is None or value(condition, view.leaf) is True

    def _next(self, start: int, labels: Labels) -> int:
        skip = self.clause.skip
        if not labels or skip.to == "next":
            return start + 1
        if skip.to == "past":
            return start + len(labels)
        wanted = self.clause.variables_of(skip.variable)
        assert wanted is not None
        places = [i for i, (name, _) in enumerate(labels) if name in wanted]
        if not places:
            raise UnsupportedError(
                f"query {self.name}: AFTER MATCH SKIP TO {skip.variable}: a match has no row of it"
            )
        place = places[0] if skip.to == "first" else places[-1]
        if place == 0:
            raise UnsupportedError(
                f"query {self.name}: AFTER MATCH SKIP TO {skip.variable}: that is the first row of "
                "the match, which would be found again for ever"
            )
        return start + place

    def _rows(
        self, start: int, labels: Labels, number: int, names: Sequence[str]
    ) -> Iterator[Given]:
        clause, length = self.clause, len(labels)
        if not labels:
            if clause.all_rows and not clause.show_empty:
                return
            view = _MatchView(self, start, labels, 0, number)
            yield self._row(start, start, start, self._measured(view), names)
        elif not clause.all_rows:
            view = _MatchView(self, start, labels, length, number)
            last = start + length - 1
            yield self._row(last, start, last, self._measured(view), names)
        else:
            for place, (_, left_out) in enumerate(labels):
                if not left_out:
                    view = _MatchView(self, start, labels, place + 1, number)
                    measured = self._measured(view)
                    yield self._row(start + place, start, start + length - 1, measured, names)

    def _measured(self, view: _MatchView) -> dict[str, Any]:
        return {name: value(measure, view.leaf) for name, measure in self.clause.measures}

    def _row(
        self, at: int, start: int, end: int, measured: dict[str, Any], names: Sequence[str]
    ) -> Given:
        own = self.rows[at].values
        columns = {n: own[n] for n in self.clause.given_columns(names) if n not in measured}
        times = (self.rows[start].time, self.rows[end].time)
        return Given(columns | measured, *times, self.key or None)


class _MatchView(NamedTuple):
    """A match as an expression sees it: the first `seen` rows of it, or with FINAL all."""

    partition: _Partition
    start: int
    labels: Labels
    seen: int
    number: int

    def leaf(self, node: ex.Expression) -> Any:
        match node:
            case ex.RowValue(pointer, column):
                at = self._row(pointer)
                return None if at is None else self.partition.rows[at].values[column]
            case ex.Classifier(pointer):
                at = self._row(pointer)
                place = -1 if at is None else at - self.start
                return self.labels[place][0] if 0 <= place < len(self.labels) else None
            case ex.MatchNumber():
                return self.number
            case ex.Aggregated():
                return self._aggregated(node)
            case _:
                raise AssertionError(node)

    def _members(self, variable: str | None, final: bool) -> list[int]:
        """The places of the rows that are mapped to a variable."""
        wanted = self.partition.clause.variables_of(variable)
        seen = len(self.labels) if final else self.seen
        return [
            i for i, (name, _) in enumerate(self.labels[:seen]) if wanted is None or name in wanted
        ]

    def _row(self, pointer: ex.Pointer) -> int | None:
        places = self._members(pointer.variable, pointer.final)
        if pointer.logical >= len(places):
            return None
        place = places[pointer.logical if pointer.from_first else -1 - pointer.logical]
        at = self.start + place + pointer.physical
        return at if 0 <= at < len(self.partition.rows) else None

    def _aggregated(self, node: ex.Aggregated) -> Any:
        places = self._members(node.variable, node.final)
        if node.argument is None:
            return len(places)

        def of(expression: ex.Expression, place: int) -> Any:
            def leaf(inner: ex.Expression) -> Any:
                if isinstance(inner, ex.MatchNumber):
                    return self.number
                assert isinstance(inner, ex.Own)
                if inner.column is None:
                    return self.labels[place][0]
                return self.partition.rows[self.start + place].values[inner.column]

            return value(expression, leaf)

        values = [of(node.argument, place) for place in places]
        others = [] if node.second is None else [of(node.second, place) for place in places]
        return aggregate(node.function, values, node.distinct, others)


# --- the SELECT around it ------------------------------------------------------------------------


def _selected(
    clause: Recognition,
    given: list[Given],
    rows: Sequence[TableRow],
    names: Sequence[str],
    keyed: bool,
) -> Iterator[dict[str, Any]]:
    selection, items = clause.selection, list(clause.items(names))

    def of(row: Given, node: ex.Expression) -> Any:
        return value(node, lambda leaf: row.values[_name(leaf)])

    if selection.where is not None:
        given = [row for row in given if of(row, selection.where) is True]
    groups: list[list[Given]] = [[row] for row in given]
    if selection.is_grouped:
        by_value: dict[str, list[Given]] = {} if selection.groups else {"": []}
        for row in given:
            place = repr([of(row, group) for group in selection.groups] or "")
            by_value.setdefault(place if selection.groups else "", []).append(row)
        groups = list(by_value.values())

    def of_group(group: list[Given], node: ex.Expression) -> Any:
        def leaf(inner: ex.Expression) -> Any:
            if isinstance(inner, ex.Given):
                return group[0].values[inner.name]
            assert isinstance(inner, ex.Aggregated)
            if inner.argument is None:
                return len(group)
            values = [of(row, inner.argument) for row in group]
            second = inner.second
            others = [] if second is None else [of(row, second) for row in group]
            return aggregate(inner.function, values, inner.distinct, others)

        return value(node, leaf)

    if selection.having is not None:
        groups = [group for group in groups if of_group(group, selection.having) is True]
    for item, descending, nulls_first in reversed(selection.order):
        groups.sort(key=lambda group: _sortable(of_group(group, item), descending, nulls_first))
    found: list[dict[str, Any]] = []
    for group in groups:
        match = {name: of_group(group, item) for name, item in items}
        times = [row.start for row in group] or [row.time for row in rows[:1]] or [0]
        ends = [row.end for row in group] or [row.time for row in rows[-1:]] or [0]
        if not (selection.distinct and any(match == other["match"] for other in found)):
            found.append(
                {
                    "key": group[0].key if keyed and group else None,
                    "start": min(times),
                    "end": max(ends),
                    "time": max(ends),
                    "match": match,
                }
            )
    yield from found[selection.kept]


def _name(leaf: ex.Expression) -> str:
    assert isinstance(leaf, ex.Given)
    return leaf.name


class _Descending:
    def __init__(self, inner: Any) -> None:
        self.inner = inner

    def __lt__(self, other: _Descending) -> bool:
        return bool(other.inner < self.inner)


def _sortable(found: Any, descending: bool, nulls_first: bool) -> tuple[Any, ...]:
    if found is None:
        return (0 if nulls_first else 2,)
    return (1, _Descending(found) if descending else found)
