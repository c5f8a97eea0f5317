"""FROM (VALUES …): a statement that has its rows itself runs where the events are those rows."""

from __future__ import annotations

from collections import Counter

from engines.input.event_table import Events
from engines.matching.rowpattern.ordered_table import plain_column
from engines.results.json_text import json_text
from optimizer.ir.recognition import Recognition
from workloads.errors import UnsupportedError


def check_rows(clause: Recognition, events: Events) -> None:
    """Refuse events that are not the rows of FROM."""
    if not clause.rows or not clause.row_columns:
        return
    columns = [plain_column(events, name).to_pylist() for name in clause.row_columns]
    there = Counter(map(_text, zip(*columns, strict=True)))
    if there != Counter(map(_text, clause.rows)):
        raise UnsupportedError(
            "the rows of FROM (VALUES …) are not the events that are run over; name the stream in "
            "the place of them, as FROM events"
        )


def _text(row: tuple[object, ...]) -> str:
    """A row as it compares: 1 and 1.0 are the same."""
    same = [float(v) if isinstance(v, int | float) and v is not True else v for v in row]
    return json_text(same)
