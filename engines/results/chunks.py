"""Rows of a query in chunks, as they are found; tables are made only of those that are needed."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Self, TypeAlias
from typing import Literal as OneOf

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from engines.account import Account
from engines.columns.columns import Columns
from engines.columns.groups import EventGroups
from engines.columns.layout import Rows
from engines.input.event_table import Events
from engines.results.json_text import (
    BoundAliases,
    RowNumbers,
    distinct_rows,
    match_pieces,
    parts,
    with_fixed,
)
from engines.results.kept_texts import KeptTexts
from engines.results.row_texts import NumberedTexts, moved, order_of_ties, put_together
from engines.results.tables import (
    AGGREGATE_ORDER,
    Results,
    coded_schema,
    combined_ranks,
    empty_results,
    joined_tables,
    least_places,
    least_rows,
    match_schema,
    no_text,
    one_text,
    plain,
    sorted_places,
    with_matches,
)
from optimizer.ir.produced import ENDED, STARTED
from optimizer.ir.query import Construction, Query, SituationPattern

if TYPE_CHECKING:
    from engines.results.structs import MatchStructs

    MatchForm: TypeAlias = MatchStructs | KeptTexts

NEVER = 2**62  # a time that no event has
RowKind = OneOf["aggregates", "matches"]
ROW_KINDS: tuple[RowKind, RowKind] = ("aggregates", "matches")


class RowChunk(ABC):
    """Some rows of one query."""

    kind: RowKind
    query: str

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def take(self, rows: Rows) -> Self:
        """Some of the rows."""

    @abstractmethod
    def decided(self) -> Rows:
        """The ticks at which each row is decided: an aggregate's time, a match's last event, or
        its first where matches that overlap are skipped.
        """

    @abstractmethod
    def tables(self, form: MatchForm | None = None, is_ordered: bool = False) -> Iterator[pa.Table]:
        """All rows, in tables of bounded size; texts that repeat may be dictionaries.

        Matches are JSON texts, or the structs of their query, or numbers of kept texts. With
        `is_ordered` rows are in the order of results, but for those of two tables that tie by key
        and times.
        """

    @abstractmethod
    def first(self, number: int) -> pa.Table:
        """The first rows in the order of results, not sorted, with all that tie with the last."""

    def in_order(self) -> Self:
        """The same rows, in the order of results as far as that takes no texts of rows."""
        return self

    def head(self, number: int) -> Self:
        """The first rows as they were found."""
        return self if len(self) <= number else self.take(np.arange(number))

    def between(self, start: int | None, stop: int | None) -> Self:
        """The rows that are decided from one time to before another."""
        if start is None and stop is None:
            return self
        ticks = self.decided()
        inside = np.ones(len(ticks), bool)
        if start is not None:
            inside &= ticks >= start
        if stop is not None:
            inside &= ticks < stop
        return self if inside.all() else self.take(np.flatnonzero(inside))


@dataclass(frozen=True, eq=False)
class TableChunk(RowChunk):
    """Rows that are a table already."""

    query: str
    rows: pa.Table
    is_new: bool = False  # are all rows of the slice that they were found in?
    decided_by: ClassVar[str]  # the column that says when a row is decided

    def between(self, start: int | None, stop: int | None) -> Self:
        return self if self.is_new else super().between(start, stop)

    def __len__(self) -> int:
        return int(self.rows.num_rows)

    def take(self, rows: Rows) -> Self:
        first, size = int(rows[0]) if len(rows) else 0, len(rows)
        # A part of a table holds all of it.
        if 2 * size > len(self) and (rows[1:] - rows[:-1] == 1).all():
            return replace(self, rows=self.rows.slice(first, size))
        return replace(self, rows=self.rows.take(pa.array(rows)))

    def decided(self) -> Rows:
        times = self.rows.column(self.decided_by)
        if pa.types.is_date32(times.type):
            times = times.cast(pa.int32())
        ticks: Rows = times.cast(pa.int64()).to_numpy()
        return ticks

    def tables(self, form: MatchForm | None = None, is_ordered: bool = False) -> Iterator[pa.Table]:
        yield self.rows


@dataclass(frozen=True, eq=False)
class AggregateChunk(TableChunk):
    """Rows of an aggregate query."""

    kind: RowKind = "aggregates"
    decided_by = "time"

    def head(self, number: int) -> Self:
        """The first windows as they were found, each with all of its aggregates."""
        if len(self) <= number:
            return self
        names = self.rows.column("aggregate").cast(pa.string())
        item = np.asarray(pc.rank(names, tiebreaker="dense"))
        order = np.argsort(item, kind="stable")
        sizes = np.bincount(item)[1:]
        window = np.empty(len(item), np.int64)  # of each row, counted for each aggregate alone
        window[order] = np.arange(len(item)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        return self.take(np.flatnonzero(window < number // len(sizes)))

    def first(self, number: int) -> pa.Table:
        return least_rows(self.rows, AGGREGATE_ORDER, number)


class MatchChunk(RowChunk):
    """Matches of a query; texts or structs are made for those rows of which they are asked.

    Making them is charged to the operator that gives the query's rows.
    """

    kind = "matches"

    def __init__(self, of: Query, columns: Columns, account: Account, operator: str) -> None:
        self.of, self.query = of, of.name
        self._columns, self._events = columns, columns.events
        self._account, self._operator = account, operator

    @abstractmethod
    def partitions(self) -> tuple[Rows, int] | None:
        """The number of each match's partition, and how many there are; None without a key."""

    @abstractmethod
    def key_texts(self, partitions: Rows) -> pa.Array:
        """The keys of partitions as JSON objects."""

    @abstractmethod
    def times(self) -> tuple[Rows, Rows, Rows]:
        """Ticks of each match's first and last event, and those at which it is certain."""

    @abstractmethod
    def matched(self) -> BoundAliases:
        """The events of each match."""

    @abstractmethod
    def last_rows(self) -> Rows:
        """The table's row of each match's last event."""

    @abstractmethod
    def bound(self) -> tuple[int, Sequence[EventGroups]]:
        """How many single events each match has, and its groups."""

    @property
    def events(self) -> Events:
        """The events that rows of the table are of."""
        return self._events

    def decided(self) -> Rows:
        if self.of.is_given_when_certain:
            return self.times()[2]
        # Which of those that overlap is given is decided among those that begin together.
        return self.times()[0 if self.of.skips_past else 1]

    def spans(self) -> tuple[Rows, Rows, Rows]:
        """Ticks at which each match starts, ends and is certain; an event may start before it ends.

        That is so of events that other queries make.
        """
        start, end, time = self.times()
        if not self.of.lasting or isinstance(self._output, SituationPattern):
            return start, end, time
        began, ended = (self._columns.vector(name).values for name in (STARTED, ENDED))
        starts = self._events.ticks - (ended - began) // self._events.tick
        for rows in self.aliases().values():
            if not isinstance(rows, EventGroups):
                start = np.minimum(start, np.where(rows >= 0, starts[rows], start))
                continue
            filled = np.flatnonzero(rows.sizes)
            if len(filled):
                least = np.minimum.reduceat(starts[rows.rows], rows.offsets[filled])
                start = start.copy()
                start[filled] = np.minimum(start[filled], least)
        return start, end, time

    def pieces(self, kept: KeptTexts | None = None) -> list[str | NumberedTexts]:
        """What the JSON of matches is put together of; events may be numbers of kept texts."""
        return match_pieces(self._output, self.matched(), self._columns, kept)

    def texts(self) -> pa.Array:
        """Each match as JSON."""
        return put_together(self.pieces(), len(self))

    def aliases(self) -> Mapping[str, RowNumbers | EventGroups]:
        """The table's row of each match's event, or its group of them, by alias."""
        return self.matched().columns

    @property
    def _output(self) -> Construction:
        assert isinstance(self.of.output, Construction)
        return self.of.output

    def tables(self, form: MatchForm | None = None, is_ordered: bool = False) -> Iterator[pa.Table]:
        size, found = len(self), self.in_order() if is_ordered else self
        for rows in parts(size, *found.bound()):
            with self._account.charge(self._operator):
                part = found if len(rows) == size else found.take(rows)
                table = part.table(form, is_ordered)
            yield table

    def first(self, number: int) -> pa.Table:
        with self._account.charge(self._operator):
            start, end, time = self.spans()
            places = least_places(iter((self._key_ranks(), time, start, end)), len(self), number)
            chosen = self if len(places) == len(self) else self.take(places)
        tables = list(chosen.tables())
        schema = coded_schema(match_schema(self._events.time_type))
        return pa.concat_tables([schema.empty_table(), *tables])

    def struct_column(self, structs: MatchStructs) -> pa.StructArray:
        """Each match as the struct of its query."""
        return structs.column(self.query, self._output, self.matched(), self._columns)

    def table(self, form: MatchForm | None = None, is_ordered: bool = False) -> pa.Table:
        """All rows at once; those that tie by key and times are put in order if others are."""
        schema, start, end, time = match_schema(self._events.time_type), *self.spans()
        columns = {
            "query": one_text(self.query, len(self)),
            "key": self.keys(),
            "start": self._events.times(start),
            "end": self._events.times(end),
            "time": self._events.times(time),
        }
        if form is not None and not isinstance(form, KeptTexts):
            columns["match"] = self.struct_column(form)
            schema = with_matches(schema, columns["match"].type)
            return pa.table(columns, schema=coded_schema(schema))
        pieces = self.pieces(form)
        if is_ordered and len(self) > 1:
            partitions = self.partitions()
            same = [start, end, time, *(() if partitions is None else (partitions[0],))]
            ties = np.logical_and.reduce([rank[1:] == rank[:-1] for rank in same])
            ordered = order_of_ties if form is None else form.order_of_ties
            places = ordered(pieces, ties)
            if places is not None:
                pieces = moved(pieces, places)
                columns = {name: column.take(pa.array(places)) for name, column in columns.items()}
        if form is None:
            columns["match"] = put_together(pieces, len(self))
        else:
            columns["match"] = form.rows(pieces, len(self))
            schema = with_matches(schema, columns["match"].type)
        return pa.table(columns, schema=coded_schema(schema))

    def keys(self) -> pa.DictionaryArray:
        """Each match's key as rows have it."""
        partitions = self.partitions()
        if partitions is None:
            if not self.of.fixed_key:
                return no_text(len(self))
            return with_fixed(pa.nulls(len(self), pa.string()), self.of).dictionary_encode()
        used, (place,) = distinct_rows([partitions[0]], partitions[1])
        texts = with_fixed(self.key_texts(used), self.of)
        return pa.DictionaryArray.from_arrays(place.astype(np.int32), texts)

    def in_order(self) -> Self:
        if len(self) < 2:
            return self
        with self._account.charge(self._operator):
            start, end, time = self.spans()
            keys = self._key_ranks()
            ranks = [time, start, end] if keys is None else [keys, time, start, end]
            places = sorted_places(combined_ranks(ranks))
            return self if places is None else self.take(places.astype(np.int64))

    def _key_ranks(self) -> Rows | None:
        """Numbers that compare as the keys do; None where all are the same."""
        partitions = self.partitions()
        if partitions is None:
            return None
        used, (place,) = distinct_rows([partitions[0]], partitions[1])
        if len(used) < 2:
            return None
        rank = np.empty(len(used), np.int64)
        texts = with_fixed(self.key_texts(used), self.of)
        rank[pc.sort_indices(texts).to_numpy()] = np.arange(len(used))
        found: Rows = rank[place]
        return found


def collected(chunks: Iterable[RowChunk], time_type: pa.DataType) -> Results:
    """All rows of chunks, in memory."""
    none = empty_results(time_type)
    tables: dict[RowKind, list[pa.Table]] = {
        "aggregates": [none.aggregates],
        "matches": [none.matches],
    }
    for chunk in chunks:
        tables[chunk.kind] += map(plain, chunk.tables())
    return Results(joined_tables(tables["aggregates"]), joined_tables(tables["matches"]))
