"""Matches that differ only in what merely has to exist, each once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from engines.columns.grouped import Groups
from engines.columns.layout import Rows
from engines.joins.frame import Frame, Name, Slot
from engines.joins.scan import Scan


def distinct(
    found: Iterable[Frame], kept: tuple[str, ...], slots: tuple[Slot, ...], scan: Scan
) -> Iterator[Frame]:
    """One frame with the kept columns of all of them, equal rows once; none for none."""
    frames = list(found)
    if not frames:
        return
    size = sum(frame.size for frame in frames)
    if size > scan.limits.results:
        scan.refuse(f"it has {size:,} matches, those included that differ in nothing returned")
    columns: dict[Name, Rows] = {}
    groups: dict[str, Groups] = {}
    identity = np.zeros(size, np.int64)
    names: list[Name] = [*kept, *slots]
    for name in names:
        if isinstance(name, str) and frames[0].is_group(name):
            groups[name] = Groups.concatenated([frame.group(name) for frame in frames])
            identity = _with_group(identity, groups[name])
        else:
            columns[name] = np.concatenate([frame.column(name) for frame in frames])
            identity = _with_column(identity, columns[name])
    _, first = np.unique(identity, return_index=True)
    yield Frame(size, columns, groups).take(first)


def _with_column(identity: Rows, values: Rows) -> Rows:
    """Numbers that are equal where both are; values are -1 or more."""
    span = int(values.max(initial=0)) + 2
    found: Rows = np.unique(identity * span + values + 1, return_inverse=True)[1]
    return found


def _with_group(identity: Rows, groups: Groups) -> Rows:
    sizes = groups.sizes
    for place in range(int(sizes.max(initial=0))):
        inside = place < sizes
        rows = np.full(len(sizes), -1)
        rows[inside] = groups.rows[groups.offsets[:-1][inside] + place]
        identity = _with_column(identity, rows)
    return identity
