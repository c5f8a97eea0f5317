"""JSON Schema: the columns of objects that a schema describes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from engines.limits import EventsError

_KINDS = {
    "integer": pa.int64(),
    "number": pa.float64(),
    "boolean": pa.bool_(),
    "string": pa.string(),
}
_MAX_DEPTH = 32


def json_columns(text: str) -> pa.Schema:
    """The properties that have one type; of others nobody knows what they will be."""
    schema = json.loads(text)
    if not isinstance(schema, dict) or "properties" not in _pointed(schema, schema):
        raise EventsError(
            "a message's JSON Schema names no properties, so its columns are not known; say what "
            "messages are like by --schema or attributes"
        )
    kind = _kind(schema, schema, 0)
    assert kind is not None
    return pa.schema(list(kind))


def _kind(schema: Any, root: Mapping[str, Any], depth: int) -> pa.DataType | None:
    schema = _pointed(schema, root)
    kinds = schema.get("type", "object" if "properties" in schema else None)
    branches = schema.get("oneOf", schema.get("anyOf"))
    if kinds is None and isinstance(branches, list):
        some = [each for each in branches if _pointed(each, root).get("type") != "null"]
        return _kind(some[0], root, depth + 1) if len(some) == 1 and depth < _MAX_DEPTH else None
    given = [kind for kind in (kinds if isinstance(kinds, list) else [kinds]) if kind != "null"]
    if len(given) != 1 or depth > _MAX_DEPTH:
        return None
    if given[0] == "object":
        found = {
            name: _kind(each, root, depth + 1)
            for name, each in schema.get("properties", {}).items()
        }
        fields = [(name, kind) for name, kind in found.items() if kind is not None]
        return pa.struct(fields) if fields else None
    if given[0] == "array":
        inside = _kind(schema.get("items", {}), root, depth + 1)
        return None if inside is None else pa.list_(inside)
    return _KINDS.get(str(given[0]))


def _pointed(schema: Any, root: Mapping[str, Any]) -> Mapping[str, Any]:
    """A schema, or the one within the same text that it refers to."""
    for _ in range(_MAX_DEPTH):
        if not isinstance(schema, dict) or "$ref" not in schema:
            break
        found: Any = root
        for part in str(schema["$ref"]).removeprefix("#").split("/"):
            if part and isinstance(found, dict):
                found = found.get(part.replace("~1", "/").replace("~0", "~"))
        schema = found
    return schema if isinstance(schema, dict) else {}
