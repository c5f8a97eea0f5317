"""Result rows as tables, and their order.

Names of queries, keys and aggregates are texts that repeat. Where rows are made and sorted, these
columns are dictionaries and numbers in them (`coded`); `plain` has the texts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

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


def with_structs(schema: pa.Schema, kind: pa.StructType) -> pa.Schema:
    """The columns of match rows whose matches are structs."""
    return schema.set(schema.get_field_index("match"), pa.field("match", kind))


def coded_schema(schema: pa.Schema) -> pa.Schema:
    """The columns of rows whose repeating texts are dictionaries."""
    for name in CODED:
        if name in schema.names:
            schema = schema.set(schema.get_field_index(name), pa.field(name, CODES))
    return schema


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
        column if column.type == field.type else column.cast(field.type)
        for field, column in zip(schema, table.columns, strict=True)
    ]
    return pa.Table.from_arrays(columns, schema=schema)


def one_text(text: str, times: int) -> pa.DictionaryArray:
    """A column of codes that are all of one text."""
    return pa.DictionaryArray.from_arrays(np.zeros(times, np.int32), pa.array([text], pa.string()))


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


def joined_results(parts: Sequence[Results]) -> Results:
    """The rows of several results, at least one."""
    return Results(
        pa.concat_tables([part.aggregates for part in parts]),
        pa.concat_tables([part.matches for part in parts]),
    )


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
    table: pa.Table, order: tuple[str, ...], is_ranked: bool = False
) -> npt.NDArray[np.int32] | None:
    """The places of rows in order, None where they are; by numbers in place of texts.

    The texts of matches are long and nearly all different: they are looked at where all else ties.
    Dictionaries that `is_ranked` says so of are one, in order.
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
    same = _ties(joint, places, table.num_rows)
    if not same.any():
        return places
    tied = np.zeros(table.num_rows, np.bool_)
    tied[1:] |= same
    tied[:-1] |= same
    group = np.cumsum(np.append(True, ~same))[tied]
    rows = np.flatnonzero(tied).astype(np.int32) if places is None else places[tied]
    last = pa.table({"group": group, "last": table.column(order[-1]).take(pa.array(rows))})
    keys = [("group", "ascending", "at_start"), ("last", "ascending", "at_start")]
    among = pc.sort_indices(last, sort_keys=keys).to_numpy()
    if places is None:
        if (among[1:] > among[:-1]).all():
            return None
        places = np.arange(table.num_rows, dtype=np.int32)
    places[tied] = rows[among]
    return places


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
        for identity, one in distinct.items():
            self._ranks[identity] = np.append(ranks[at : at + len(one)], np.int32(-1))
            at += len(one)

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

    def column(self, places: npt.NDArray[np.int32]) -> pa.DictionaryArray:
        """The texts at places."""
        nulls = places < 0
        indices = pa.array(places, mask=nulls if nulls.any() else None)
        return pa.DictionaryArray.from_arrays(indices, self.texts)


def _identity(dictionary: pa.Array) -> tuple[int, ...]:
    """Where a dictionary's texts are in memory."""
    buffers = [0 if buffer is None else buffer.address for buffer in dictionary.buffers()]
    return (dictionary.offset, len(dictionary), *buffers)
