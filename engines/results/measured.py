"""Rows of matches that are a table already."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from engines.results.chunks import RowKind, TableChunk
from engines.results.tables import MATCH_ORDER, least_rows


@dataclass(frozen=True, eq=False)
class MeasuredChunk(TableChunk):
    """Matches of a query with their JSON texts."""

    kind: RowKind = "matches"
    decided_by = "end"

    def first(self, number: int) -> pa.Table:
        return least_rows(self.rows, MATCH_ORDER, number)
