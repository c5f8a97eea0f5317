"""Matches as numbers of the texts that they are put together of, until they are written.

Texts of matches are long and have much in common: each event's is kept once. A match is a list of
numbers: its form, which says what stands between texts, and each text's in its turn, -1 for none.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from engines.input.event_table import Events
from engines.results.json_text import RowNumbers, distinct_rows, object_texts
from engines.results.row_texts import NumberedTexts, Piece, order_of_ties, put_together
from engines.results.tables import MATCH_ORDER, gathered, sorted_rows, with_matches
from engines.results.text_store import Numbers, TextStore

TEXT_NUMBERS = pa.list_(pa.int64())
HELD_BYTES = 8 * 2**20  # of texts that are left in memory when other events come
MOST_BYTES = 64 * 2**20  # that are left in memory at all
MOST_OBJECTS = 4  # kinds of objects of which it is known what is kept
ROWS_AT_ONCE = 20_000  # that are put together


class KeptTexts:
    """The texts of a run's matches, in files in `folder` as far as memory is not to hold them."""

    def __init__(self, folder: Path) -> None:
        self._store = TextStore(folder)
        self._forms: dict[tuple[str, ...], int] = {}
        self._events: Events | None = None
        self._known: dict[tuple[str, ...], Numbers] = {}  # of events' texts; -1 for none yet
        self._columns: dict[int, tuple[pa.Array, int]] = {}  # by what they are: the first number

    def objects(
        self, columns: Sequence[RowNumbers], names: Sequence[str], events: Events
    ) -> list[NumberedTexts]:
        """Rows of a table as objects of some of its columns."""
        self._read(events)
        place = tuple(names)
        known = self._known.pop(place, None)
        if known is None:
            known = np.full(len(events), -1, np.int64)
        self._known[place] = known
        if len(self._known) > MOST_OBJECTS:
            del self._known[next(iter(self._known))]
        new = [column[known[column] < 0] for column in columns]
        if any(map(len, new)):
            rows, _ = distinct_rows(new, len(events))
            first = self._store.add(object_texts(rows, names, events))
            known[rows] = np.arange(first, first + len(rows))
        return [NumberedTexts(None, known[column]) for column in columns]

    def column(self, texts: pa.Array, numbers: Numbers, events: Events) -> NumberedTexts:
        """For each row one of some texts, which rows of other queries of these events have too."""
        self._read(events)
        known = self._columns.get(id(texts))
        if known is None:
            known = self._columns[id(texts)] = texts, self._store.add(texts)
        return NumberedTexts(None, numbers + known[1])

    def _read(self, events: Events) -> None:
        """Go on with texts of events: those of others come no more."""
        if events is not self._events or self._store.held > MOST_BYTES:
            if self._store.held > HELD_BYTES:
                self._store.spill()
            self._events, self._known, self._columns = events, {}, {}

    def order_of_ties(
        self, pieces: Sequence[str | NumberedTexts], ties: npt.NDArray[np.bool_]
    ) -> npt.NDArray[np.int32] | None:
        """`order_of_ties` of pieces with the objects that were asked for last."""
        if not ties.any():
            return None
        shown: list[str | NumberedTexts] = []
        for piece in pieces:
            if isinstance(piece, str) or piece.texts is not None:
                shown.append(piece)
            else:
                shown += self._store.numbered(piece.numbers)
        return order_of_ties(shown, ties)

    def rows(self, pieces: Sequence[str | NumberedTexts], size: int) -> pa.ListArray:
        """Matches that are to be put together of pieces."""
        between, columns = [""], [np.zeros(size, np.int64)]
        for piece in pieces:
            if isinstance(piece, str):
                between[-1] += piece
            else:
                columns.append(self._numbers(piece))
                between.append("")
        columns[0][:] = self._forms.setdefault(tuple(between), len(self._forms))
        width = len(columns)
        offsets = np.arange(0, (size + 1) * width, width, dtype=np.int32)
        return pa.ListArray.from_arrays(offsets, np.stack(columns, 1).reshape(-1))

    def texts(self, rows: pa.ListArray) -> pa.Array:
        """The text of each match."""
        return put_together(self.pieces(rows), len(rows))

    def pieces(self, rows: pa.ListArray) -> list[Piece]:
        """What matches are put together of."""
        offsets, values = rows.offsets.to_numpy(), rows.values.to_numpy()
        starts, sizes = offsets[:-1], offsets[1:] - offsets[:-1]
        used, (which,) = distinct_rows([values[starts]], len(self._forms))
        forms = [form for form, number in self._forms.items() if number in used]
        found: list[Piece] = []
        for turn in range(max(map(len, forms), default=0)):
            if turn:
                longer = sizes > turn
                numbers = np.full(len(rows), -1, np.int64)
                numbers[longer] = values[starts[longer] + turn]
                found += self._store.numbered(numbers)
            between = [form[turn] if turn < len(form) else "" for form in forms]
            if any(between):
                few = len(forms) == 1
                found.append(between[0] if few else NumberedTexts(pa.array(between), which))
        return found

    def with_texts(self, rows: pa.RecordBatchReader) -> pa.RecordBatchReader:
        """The same rows with matches as texts."""
        schema = with_matches(rows.schema, pa.string())
        place = schema.get_field_index("match")

        def batches() -> Iterator[pa.RecordBatch]:
            for table in gathered(rows, ROWS_AT_ONCE):
                for batch in table.combine_chunks().to_batches(ROWS_AT_ONCE):
                    columns = batch.columns
                    columns[place] = self.texts(columns[place])
                    yield pa.RecordBatch.from_arrays(columns, schema=schema)

        return pa.RecordBatchReader.from_batches(schema, batches())

    def without_texts(self, table: pa.Table) -> pa.Table:
        """The rows of a table, in order, whose matches are texts or numbers already."""
        place = table.schema.get_field_index("match")
        if table.schema.types[place] == TEXT_NUMBERS:
            return table
        table = sorted_rows(table, MATCH_ORDER)
        texts = table.column(place).combine_chunks()
        every = np.arange(len(texts), dtype=np.int32)
        rows = self.rows([NumberedTexts(texts, every)], len(texts))
        return table.set_column(place, "match", rows)

    def _numbers(self, piece: NumberedTexts) -> Numbers:
        """The numbers of a piece's texts, which are kept from now on."""
        texts, numbers = piece
        if texts is None:
            return numbers
        if self._store.held > MOST_BYTES:
            self._store.spill()
        present = numbers >= 0
        wanted = numbers[present]
        if len(texts) > 2 * len(wanted):
            used, (wanted,) = distinct_rows([wanted], len(texts))
            texts = texts.take(pa.array(used))
        found = np.full(len(numbers), -1, np.int64)
        found[present] = wanted + np.int64(self._store.add(texts))
        return found
