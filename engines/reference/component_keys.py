"""Keys that differ by component, and groups: the partitions that an event is in, and as what."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import MutableMapping, Sequence
from dataclasses import replace
from typing import Any, cast

from engines.reference.special_windows import is_instance
from engines.reference.values import Row
from optimizer.ir.keys import AddedKey, ComponentKey, GroupKey
from workloads.workload import Stream


def key_values(key: ComponentKey, event: Row) -> list[Any]:
    """The values that an event has in columns of a key, each once."""
    found = [value for column in key.read_columns for value in _values(event, column)]
    return list(dict.fromkeys(v for v in found if key.optional or v is not None))


def group_values(key: GroupKey, stream: Stream, part: Sequence[Row]) -> list[Any]:
    """The values by which the matches of a partition are split."""
    mine = (event for event in part if is_instance(stream, key.symbol, event))
    found = (value for event in mine for value in _values(event, key.attribute))
    return list(dict.fromkeys(value for value in found if value is not None))


def of_partition(event: Row, keys: Sequence[AddedKey], values: Sequence[Any]) -> Row:
    """An event in the partition of some values, with which of its columns have them."""
    added = {
        key.member_column(column): value in _values(event, column)
        for key, value in zip(keys, values, strict=True)
        for column in key.read_columns
    }
    if not keys:
        return event
    # The values of an event may be more than they list: fields inside of structs.
    own = cast(MutableMapping[str, Any], event.values)
    return replace(event, values=ChainMap(added, own))


def _values(event: Row, column: str) -> list[Any]:
    value = event.values[column]
    return value if isinstance(value, list) else [value]
