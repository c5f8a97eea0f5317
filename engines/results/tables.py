"""Result rows as tables, and their order.

Names of queries, keys and aggregates are texts that repeat. Where rows are made and sorted, these
columns are dictionaries and numbers in them (`coded`); `plain` has the texts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from engines.results.row_texts import NumberedTexts, order_of_ties
from kernels.rows.cpu import sort_places

Numbers = npt.NDArray[np.int64]
CODES = pa.dictionary(pa.int32(), pa.string())
CODED = ("query", "key", "aggregate")


@dataclass
class Results:
    """The rows of a workload: of its aggregate queries, and of those that return matches."""

    aggregates: pa.Table
    matches: pa.Table


@cache
def aggregate_schema(time_type: pa.DataType) -> pa.Schema:
    """The columns of aggregate rows."""
    return pa.schema(
        [
            ("query", pa.string()),
            ("key", pa.string()),
            ("time", time_type),
            ("seq", pa.int64()),
            ("aggregate", pa.string()),
            ("value", pa.float64()),
            ("count", pa.int64()),
            ("exact", pa.bool_()),
        ]
    )


@cache
def match_schema(time_type: pa.DataType) -> pa.Schema:
    """The columns of match rows."""
    return pa.schema(
        [
            ("query", pa.string()),
            ("key", pa.string()),
            ("start", time_type),
            ("end", time_type),
            ("time", time_type),
            ("match", pa.string()),
        ]
    )


def with_matches(schema: pa.Schema, kind: pa.DataType) -> pa.Schema:
    """The columns of match rows whose matches are of another type than text."""
    return schema.set(schema.get_field_index("match"), pa.field("match", kind))


@lru_cache(maxsize=256)
def coded_schema(schema: pa.Schema) -> pa.Schema:
    """The columns of rows whose repeating texts are dictionaries."""
    for name in CODED:
        if name in schema.names:
            schema = schema.set(schema.get_field_index(name), pa.field(name, CODES))
    return schema


@lru_cache(maxsize=256)
def plain_schema(schema: pa.Schema) -> pa.Schema:
    """The columns of the same rows with texts."""
    for number, field in enumerate(schema):
        if pa.types.is_dictionary(field.type):
            schema = schema.set(number, pa.field(field.name, field.type.value_type))
    return schema


def coded(table: pa.Table) -> pa.Table:
    """The same rows with dictionaries of the texts that repeat."""
    schema = coded_schema(table.schema)
    if schema.equals(table.schema):
        return table
    columns = [
        column if column.type == field.type else column.dictionary_encode()
        for field, column in zip(schema, table.columns, strict=True)
    ]
    return pa.Table.from_arrays(columns, schema=schema)


def plain(table: pa.Table) -> pa.Table:
    """The same rows with texts."""
    schema = plain_schema(table.schema)
    if schema.equals(table.schema):
        return table
    columns = [
        _plain(column) if pa.types.is_dictionary(column.type) else column
        for column in table.columns
    ]
    return pa.Table.from_arrays(columns, schema=schema)


def _plain(column: pa.ChunkedArray) -> pa.ChunkedArray | pa.Array:
    if column.num_chunks == 1:  # takes less time than a cast where there are few rows
        codes = column.chunk(0)
        if len(codes.dictionary) == 1 and not codes.null_count:
            return pa.repeat(codes.dictionary[0], len(codes))
        return codes.dictionary_decode()
    return column.cast(column.type.value_type)


def one_text(text: str, times: int) -> pa.DictionaryArray:
    """A column of codes that are all of one text."""
    return pa.DictionaryArray.from_arrays(_zeros(times), _dictionary_of(text))


def no_text(times: int) -> pa.DictionaryArray:
    """A column of codes that are all null."""
    return pa.DictionaryArray.from_arrays(no_numbers(times, pa.int32()), _dictionary_of(None))


# Columns of one value have their memory in common, so that rows take none for them.
_SHARED_ROWS = 100_000


def no_numbers(times: int, kind: pa.DataType) -> pa.Array:
    """A column of nulls."""
    return pa.nulls(times, kind) if times > _SHARED_ROWS else _nulls(kind).slice(0, times)


def _zeros(times: int) -> pa.Array:
    return pa.array(np.zeros(times, np.int32)) if times > _SHARED_ROWS else _codes().slice(0, times)


@cache
def _nulls(kind: pa.DataType) -> pa.Array:
    return pa.nulls(_SHARED_ROWS, kind)


@cache
def _codes() -> pa.Array:
    return pa.array(np.zeros(_SHARED_ROWS, np.int32))


@lru_cache(maxsize=4_096)  # rows of several chunks then have one dictionary
def _dictionary_of(text: str | None) -> pa.Array:
    return pa.array([] if text is None else [text], pa.string())


@cache
def empty_results(time_type: pa.DataType) -> Results:
    """No rows at all."""
    return Results(aggregate_schema(time_type).empty_table(), match_schema(time_type).empty_table())


def of_kind(table: pa.Table, kind: str) -> Results:
    """The rows of a table of one kind."""
    none = empty_results(table.schema.field("time").type)
    return replace(none, **{kind: table})


AGGREGATE_ORDER = ("query", "key", "time", "seq", "aggregate")
MATCH_ORDER = ("query", "key", "time", "start", "end", "match")
STRUCT_ORDER = MATCH_ORDER[:-1]  # structs are not compared


def row_counts(results: Results) -> Counter[str]:
    """How many rows each query has, of those that have any."""
    found: Counter[str] = Counter()
    for table in (results.aggregates, results.matches):
        for pair in pc.value_counts(table.column("query")).to_pylist():
            found[pair["values"]] += pair["counts"]
    return found


def gathered(batches: Iterable[pa.RecordBatch], number: int) -> Iterator[pa.Table]:
    """Batches, which may be small, as tables of about so many rows."""
    waiting: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        for start in range(0, batch.num_rows, number):
            waiting.append(batch.slice(start, number))
            size += waiting[-1].num_rows
            if size >= number:
                yield pa.Table.from_batches(waiting)
                waiting, size = [], 0
    if waiting:
        yield pa.Table.from_batches(waiting)


def joined_results(parts: Sequence[Results]) -> Results:
    """The rows of several results, at least one."""
    return Results(
        joined_tables([part.aggregates for part in parts]),
        joined_tables([part.matches for part in parts]),
    )


def joined_tables(tables: Sequence[pa.Table]) -> pa.Table:
    """The rows of several tables with the same columns, at least one."""
    filled = [table for table in tables if table.num_rows] or tables[:1]
    return filled[0] if len(filled) == 1 else pa.concat_tables(filled)


# --- order ----------------------------------------------------------------------------------------


def sorted_results(results: Results) -> Results:
    """The same rows by query, key and time, then by everything else: one order for one result."""
    return Results(
        sorted_rows(results.aggregates, AGGREGATE_ORDER), sorted_rows(results.matches, MATCH_ORDER)
    )


def sorted_rows(table: pa.Table, order: tuple[str, ...]) -> pa.Table:
    """The rows by the given columns, nulls first."""
    places = ordered_places(table, order)
    return table if places is None else table.take(pa.array(places))


def ordered_places(
    table: pa.Table,
    order: tuple[str, ...],
    is_ranked: bool = False,
    texts_of: Callable[[pa.Array], pa.Array] | None = None,
) -> npt.NDArray[np.int32] | None:
    """The places of rows in order, None where they are; by numbers in place of texts.

    The texts of matches are long and nearly all different: they are looked at where all else ties.
    With `texts_of`, which gives them, each chunk of the rows is in order by itself. Dictionaries
    that `is_ranked` says so of are one, in order.
    """
    if table.num_rows < 2:
        return None
    long = order[-1] == "match"
    names = order[:-1] if long else order
    columns = [table.column(name) for name in names]
    ranks = [rank for column in columns if (rank := _ranks(column, is_ranked)) is not None]
    joint = combined_ranks(ranks) if ranks else []
    places = sorted_places(joint)
    if not long:
        return places
    same, matches = _ties(joint, places, table.num_rows), table.column(order[-1])
    if not same.any():
        return places
    if places is None:
        places, same = _settled(matches, same, texts_of is not None)
        if not same.any():
            return None if (places[1:] > places[:-1]).all() else places
    tied = np.zeros(table.num_rows, np.bool_)
    tied[1:] |= same
    tied[:-1] |= same
    group, rows = np.cumsum(np.append(True, ~same))[tied], places[tied]
    last = matches.take(pa.array(rows))
    if texts_of is not None:
        last = texts_of(last.combine_chunks())
    last = pa.table({"group": group, "last": last})
    keys = [("group", "ascending", "at_start"), ("last", "ascending", "at_start")]
    places[tied] = rows[pc.sort_indices(last, sort_keys=keys).to_numpy()]
    return None if (places[1:] > places[:-1]).all() else places


def _settled(
    texts: pa.ChunkedArray, same: npt.NDArray[np.bool_], is_ordered: bool
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.bool_]]:
    """The places of rows whose ties within a chunk are in order, and the ties across chunks.

    Chunks may be in order already. Ties across them are all those of stretches of which a part is
    in another chunk.
    """
    places, across = np.arange(len(texts), dtype=np.int32), np.zeros_like(same)
    ends = np.cumsum([len(chunk) for chunk in texts.chunks])
    for chunk, end in zip(texts.chunks, ends.tolist(), strict=True):
        first = end - len(chunk)
        if not len(chunk):
            continue
        if not is_ordered:
            which = np.arange(len(chunk), dtype=np.int32)
            order = order_of_ties([NumberedTexts(chunk, which)], same[first : end - 1])
            if order is not None:
                places[first:end] = order + first
        if end < len(texts) and same[end - 1]:
            low = end - 1 - int(np.argmin(np.append(same[:end][::-1], False)))
            high = end + int(np.argmin(np.append(same[end:], False)))
            across[low + 1 : high] = True
    return places, across


def sorted_places(ranks: Sequence[Numbers]) -> npt.NDArray[np.int32] | None:
    """The places of rows by their ranks from zero on, those that tie as they come; None in order.

    The first rank decides, the others among those that tie.
    """
    if not ranks or _is_in_order(ranks):
        return None
    places = np.arange(len(ranks[0]), dtype=np.int32)
    for rank in reversed(ranks):
        sort_places(rank, places)
    return places


def _is_in_order(ranks: Sequence[Numbers]) -> bool:
    same = None
    for rank in ranks:
        before, after = rank[:-1], rank[1:]
        less = before > after
        if (less if same is None else less & same).any():
            return False
        ties = before == after
        same = ties if same is None else same & ties
        if not same.any():
            break
    return True


def _ties(
    ranks: Sequence[Numbers], places: npt.NDArray[np.int32] | None, size: int
) -> npt.NDArray[np.bool_]:
    """Which rows, in order, tie with the next."""
    same = np.ones(size - 1, np.bool_)
    for rank in ranks:
        ranked = rank if places is None else rank[places]
        same &= ranked[1:] == ranked[:-1]
    return same


def least_rows(table: pa.Table, order: tuple[str, ...], number: int) -> pa.Table:
    """The first rows by the given columns, not sorted, with all that tie with the last of them."""
    ranks = (_ranks(table.column(name)) for name in order)
    places = least_places(ranks, table.num_rows, number)
    return table if len(places) == table.num_rows else table.take(pa.array(places))


def least_places(ranks: Iterator[Numbers | None], size: int, number: int) -> Numbers:
    """The places of the first rows by their ranks, not sorted, with all that tie with the last.

    Ranks of None are all the same. Nothing is sorted, and later ranks are made only for ties.
    """
    chosen: list[Numbers] = []
    tied, room = np.arange(size), number
    while 0 < room < len(tied):
        rank = next(ranks, tied)
        if rank is tied:
            break
        if rank is None:
            continue
        ranked = rank[tied]
        last = np.partition(ranked, room - 1)[room - 1]
        before = tied[ranked < last]
        chosen.append(before)
        tied, room = tied[ranked == last], room - len(before)
    return np.concatenate([*chosen, tied]) if room else np.zeros(0, np.int64)


def combined_ranks(ranks: list[Numbers]) -> list[Numbers]:
    """The same ranks from zero on, neighbours as one number where 63 bits hold them."""
    found: list[Numbers] = []
    spread = 2**62
    for rank in ranks:
        low, high = int(rank.min()), int(rank.max())
        if high - low >= 2**62:  # numbers that 63 bits do not hold from zero on
            found += [(rank >> 32) - (low >> 32), rank & 0xFFFFFFFF]
            spread = 2**62
        elif spread * (high - low + 1) < 2**62:
            found[-1] = found[-1] * (high - low + 1) + (rank - low)
            spread *= high - low + 1
        else:
            found.append(rank - low)
            spread = high - low + 1
    return found


def _ranks(column: pa.ChunkedArray, is_ranked: bool = False) -> Numbers | None:
    """Numbers that compare as the values do, nulls least; None where all are the same."""
    if column.null_count == len(column):
        return None
    if pa.types.is_string(column.type):
        column = column.dictionary_encode()
    if pa.types.is_dictionary(column.type) and is_ranked:
        return np.concatenate([rank_numbers(chunk) for chunk in column.chunks])
    if pa.types.is_dictionary(column.type):
        dictionary, codes = ranked_codes(column)
        if len(dictionary) == 1 and not column.null_count:
            return None
        return codes.astype(np.int64)
    return rank_numbers(column)


def rank_numbers(column: pa.ChunkedArray | pa.Array) -> Numbers:
    """Numbers that compare as the values do, nulls least; those of dictionaries are in order."""
    if pa.types.is_dictionary(column.type):
        codes = pc.fill_null(column.indices, -1) if column.null_count else column.indices
        return np.asarray(codes).astype(np.int64)
    if pa.types.is_date32(column.type):
        column = column.cast(pa.int32())
    numbers = column.cast(pa.int64())
    return np.asarray(pc.fill_null(numbers, -(2**63)) if column.null_count else numbers)


def ranked_codes(column: pa.ChunkedArray) -> tuple[pa.Array, npt.NDArray[np.int32]]:
    """All texts of a column of dictionaries, in order, and each row's place among them, -1: null.

    Chunks mostly have their dictionary in common: each is looked at once.
    """
    dictionaries = Dictionaries(chunk.dictionary for chunk in column.chunks)
    codes = [dictionaries.places(chunk) for chunk in column.chunks]
    return dictionaries.texts, np.concatenate(codes) if codes else np.zeros(0, np.int32)


class Dictionaries:
    """Dictionaries of texts as one, in order."""

    def __init__(self, given: Iterable[pa.Array]) -> None:
        distinct: dict[tuple[int, ...], pa.Array] = {_identity(one): one for one in given}
        every = pa.concat_arrays([pa.array([], pa.string()), *distinct.values()])
        encoded = every.dictionary_encode()
        order = pc.sort_indices(encoded.dictionary)
        self.texts = encoded.dictionary.take(order)
        rank = np.empty(len(order) + 1, np.int32)
        rank[order.to_numpy()] = np.arange(len(order))
        # Behind the last text of each dictionary is what stands for null.
        ranks, at = rank[encoded.indices.to_numpy()], 0
        self._ranks: dict[tuple[int, ...], npt.NDArray[np.int32]] = {}
        self._same: set[tuple[int, ...]] = set()  # whose texts stand first, in their order
        for identity, one in distinct.items():
            own = ranks[at : at + len(one)]
            self._ranks[identity] = np.append(own, np.int32(-1))
            at += len(one)
            if (own == np.arange(len(own))).all():
                self._same.add(identity)

    def places(self, column: pa.DictionaryArray) -> npt.NDArray[np.int32]:
        """The place of each row's text, -1 for null; the dictionary is one of those given."""
        indices = pc.fill_null(column.indices, -1) if column.null_count else column.indices
        places: npt.NDArray[np.int32] = self._ranks[_identity(column.dictionary)][
            indices.to_numpy()
        ]
        return places

    def ranks(self, dictionary: pa.Array) -> npt.NDArray[np.int32]:
        """The place of each text of one of the dictionaries given."""
        return self._ranks[_identity(dictionary)][:-1]

    def column(self, column: pa.DictionaryArray) -> pa.DictionaryArray:
        """The same texts as places in this dictionary; the column's own is one of those given."""
        identity = _identity(column.dictionary)
        indices = column.indices
        if identity not in self._same:
            ranks = self._ranks[identity]
            if len(ranks) == 2 and not column.null_count:  # a single text
                indices = pa.array(np.full(len(column), ranks[0]))
            else:
                indices = pa.array(ranks[:-1]).take(indices)
        return pa.DictionaryArray.from_arrays(indices, self.texts)


def with_places(batch: pa.RecordBatch, dictionaries: Mapping[str, Dictionaries]) -> pa.RecordBatch:
    """The same rows with codes that are places in dictionaries, which have those of the batch."""
    columns = [
        dictionaries[name].column(column) if name in dictionaries else column
        for name, column in zip(batch.schema.names, batch.columns, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=batch.schema)


def _identity(dictionary: pa.Array) -> tuple[int, ...]:
    """Where a dictionary's texts are in memory."""
    buffers = [0 if buffer is None else buffer.address for buffer in dictionary.buffers()]
    return (dictionary.offset, len(dictionary), *buffers)
