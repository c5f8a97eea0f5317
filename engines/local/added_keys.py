"""Events parted by more than the columns of a key: those of components, and groups."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from engines.columns.columns import Columns
from engines.input.event_table import Events
from engines.local.component_keys import by_component_keys
from engines.local.group_keys import by_group_keys
from optimizer.ir.keys import AddedKey, ComponentKey, GroupKey


def by_added_keys(columns: Columns, keys: Sequence[AddedKey]) -> Events:
    """The events, each once for each combination of values of the keys that it is looked at under.

    Columns for each key have the value, and of which components the event may be one.
    """
    tied = [key for key in keys if isinstance(key, ComponentKey)]
    groups = [key for key in keys if isinstance(key, GroupKey)]
    events, origin = columns.events, np.arange(len(columns.events))
    if tied:
        events, origin = by_component_keys(events, tied)
    return by_group_keys(columns, events, origin, groups) if groups else events
