"""Result rows as plain values, and values as text."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa


def rows(table: pa.Table, offset: int, limit: int) -> list[dict[str, Any]]:
    """Rows of a result table as JSON has them: `key` and `match` as objects, times in ISO 8601."""
    import pyarrow as pa

    from engines.results.json_text import iso_texts
    from engines.results.struct_texts import table_with_texts

    page = table.slice(offset, limit)
    page = table_with_texts(page)
    for index, field in enumerate(page.schema):
        if pa.types.is_temporal(field.type):
            texts = iso_texts(page.column(index).combine_chunks())
            page = page.set_column(index, field.name, texts)
    found: list[dict[str, Any]] = page.to_pylist()
    for row in found:
        for name in ("key", "match"):
            if row.get(name) is not None:
                row[name] = json.loads(row[name])
    return found


def cell(value: Any, digits: int = 12) -> str:
    """A value as short as it can be said: objects as `a.x=1 b.x=2`."""
    match value:
        case None:
            return ""
        case bool():
            return "yes" if value else "no"
        case float():
            text = f"{value:,.{digits}g}"
            return f"{value:,.0f}" if "e+" in text and abs(value) < 1e15 else text
        case dict():
            return " ".join(_fields(value, "", digits))
        case _:
            return str(value)


def _fields(value: dict[str, Any], prefix: str, digits: int) -> list[str]:
    found: list[str] = []
    for name, inner in value.items():
        if isinstance(inner, dict):
            found += _fields(inner, f"{prefix}{name}.", digits)
        elif isinstance(inner, list):
            found.append(f"{prefix}{name}=[{len(inner)}]")
        else:
            found.append(f"{prefix}{name}={cell(inner, digits)}")
    return found
