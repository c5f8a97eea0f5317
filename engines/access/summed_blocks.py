"""What is summed up of stored events: stretches of each symbol that an index answers for."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from engines.access.block_sums import BlockSums, SummedQuery
from engines.access.blocks import Int64s, Mask
from engines.access.stretches import ColumnStretches, Stretches, joined_columns
from optimizer.ir.aggregates import InputColumn
from optimizer.ir.pattern import Symbol
from workloads import expressions as ex


@dataclass(frozen=True, eq=False)
class SummedBlocks:
    """Queries that are answered from blocks, as far as no window opens or closes in them.

    By symbol it has the stretches that blocks are; row groups that are `read` have the rest.
    """

    queries: tuple[SummedQuery, ...]
    blocks: Mapping[Symbol, Stretches]
    end: int  # the last time of all events
    number: int  # of blocks that are summed up
    of_number: int
    row_groups: int  # that are read

    @staticmethod
    def of(sums: BlockSums, queries: Sequence[SummedQuery], read: Mask) -> SummedBlocks:
        """What is summed up where these row groups are read."""
        by_symbol: dict[Symbol, dict[InputColumn, set[str]]] = {}
        for one in queries:
            wanted = by_symbol.setdefault(one.symbol, {})
            for column, kinds in one.columns.items():
                wanted.setdefault(column, set()).update(kinds)
        blocks, found = sums.blocks, {}
        for symbol, columns in by_symbol.items():
            kept = np.flatnonzero(sums.possible.symbol(symbol) & ~read[blocks.unit])
            found[symbol] = Stretches(
                blocks.low[kept],
                blocks.high[kept],
                blocks.rows[kept],
                {column: _column(sums, column, kinds, kept) for column, kinds in columns.items()},
            )
        summed = int((~read[blocks.unit]).sum())
        return SummedBlocks(
            tuple(queries), found, int(blocks.high.max()), summed, len(blocks), int(read.sum())
        )

    @property
    def sentence(self) -> str:
        """What is done, for people."""
        names = ", ".join(one.query.name for one in self.queries)
        return (
            f"{self.number:,} of {self.of_number:,} blocks are summed up for {names}, and "
            f"{self.row_groups:,} row groups read where windows open or close"
        )

    def document(self) -> dict[str, Any]:
        """As plain values, for plans and reports."""
        return {
            "queries": [one.query.name for one in self.queries],
            "blocks": self.number,
            "of": self.of_number,
            "row_groups": self.row_groups,
        }


def _column(
    sums: BlockSums, column: InputColumn, kinds: Collection[str], kept: Int64s
) -> ColumnStretches:
    """What blocks have of a column."""
    (name,) = ex.attributes(column.value)
    found = []
    for file in sums.stored.files:
        own = kept[(kept >= file.begin) & (kept < file.begin + len(file.groups))] - file.begin
        if not len(own):
            continue
        totals = sums.totals(file, name)
        assert totals is not None
        assert totals.sums is not None, "only what is known is summed up"
        number, parts = totals.number[own], totals.sums.parts[:, own]
        low, high = totals.low[own], totals.high[own]
        if column.form == "present":  # each event has a number then, 1 or 0
            number, parts = file.sizes[own], number[None]
        if "sum" not in kinds:
            parts = parts[:0]
        if not {"min", "max"} & set(kinds):
            low = high = np.zeros(0)
        found.append(ColumnStretches(number, parts, low, high))
    return joined_columns(found)
