"""Times that are written as text."""

from __future__ import annotations

import re

import pyarrow as pa

_MOMENT = re.compile(r"\d{4}-\d\d-\d\d[ T]\d\d")  # the start of one


def with_times(table: pa.Table) -> pa.Table:
    """Texts that are times as such: from JSON, Arrow takes only whole seconds for times."""
    for place, field in enumerate(table.schema):
        if pa.types.is_string(field.type):
            times = as_times(table.column(place))
            if times is not None:
                table = table.set_column(place, field.name, times)
    return table


def as_times(texts: pa.ChunkedArray) -> pa.ChunkedArray | None:
    """Texts as moments, all with a zone or all without; None where one of them is something else.

    A date alone, and an empty column, stay as they are.
    """
    first = next((text.as_py() for text in texts if text.is_valid), "")
    if not _MOMENT.match(first):
        return None
    for zone in (None, "UTC"):
        try:
            return texts.cast(pa.timestamp("ns", zone))
        except pa.ArrowInvalid:
            continue
    return None
