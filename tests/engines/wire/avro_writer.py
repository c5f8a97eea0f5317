"""Avro's binary encoding, written from its specification; values are those of Python."""

import struct
from typing import Any


def encoded(schema: Any, value: Any) -> bytes:
    """A value of a schema without names for types."""
    if isinstance(schema, list):  # a union: the first branch that the value is of
        place = next(i for i, branch in enumerate(schema) if fits(branch, value))
        return whole(place) + encoded(schema[place], value)
    kind = schema["type"] if isinstance(schema, dict) else schema
    match kind:
        case "null":
            return b""
        case "boolean":
            return bytes([value])
        case "int" | "long":
            return whole(value)
        case "float":
            return struct.pack("<f", value)
        case "double":
            return struct.pack("<d", value)
        case "string":
            return whole(len(value.encode())) + value.encode()
        case "bytes":
            return whole(len(value)) + value
        case "fixed":
            return bytes(value)
        case "enum":
            return whole(schema["symbols"].index(value))
        case "array":
            items = b"".join(encoded(schema["items"], each) for each in value)
            return blocks(len(value), items)
        case "map":
            pairs = value.items()
            return blocks(
                len(value),
                b"".join(encoded("string", k) + encoded(schema["values"], v) for k, v in pairs),
            )
        case "record":
            return b"".join(encoded(f["type"], value[f["name"]]) for f in schema["fields"])
    return encoded(kind, value)


def blocks(number: int, items: bytes) -> bytes:
    """Items in one block, with its length in bytes where their number is odd."""
    if not number:
        return b"\x00"
    head = whole(-number) + whole(len(items)) if number % 2 else whole(number)
    return head + items + b"\x00"


def whole(number: int) -> bytes:
    bits = (number << 1) ^ (number >> 63)
    found = b""
    while bits > 127:
        found += bytes([bits & 127 | 128])
        bits >>= 7
    return found + bytes([bits])


def fits(schema: Any, value: Any) -> bool:
    kind = schema["type"] if isinstance(schema, dict) else schema
    wanted = {
        "null": type(None),
        "boolean": bool,
        "int": int,
        "long": int,
        "float": float,
        "double": float,
        "string": str,
        "enum": str,
        "bytes": bytes,
        "fixed": bytes,
        "array": list,
    }.get(kind, dict)
    return type(value) is wanted
