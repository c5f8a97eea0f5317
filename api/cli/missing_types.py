"""Why a run may have found nothing: types that queries ask for, and that no event is of."""

from __future__ import annotations

from typing import TYPE_CHECKING

from workloads.errors import did_you_mean

if TYPE_CHECKING:
    from optimizer.ir.query import BoundWorkload

MAX_EVENTS_READ = 1_000_000  # events that are looked at
MAX_TYPES_SHOWN = 12


def absent_types(bound: BoundWorkload, path: str) -> str | None:
    """A sentence about the types that the column of types never has; None if it has them all.

    Types that are given by a condition are not looked at.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    from engines.input.batches import FileSource
    from engines.input.event_table import Faults
    from optimizer.ir.query import events

    column, given = bound.stream.type, bound.stream.types
    symbols = {event.symbol.type for query in bound.queries for event in events(query.pattern)}
    wanted = sorted(name for name in symbols if given.get(name) is None)
    if column is None or not wanted:
        return None
    there: set[str] = set()
    looked = 0
    source = FileSource(path, bound.stream, Faults("skip"))
    roles = (bound.stream.time, bound.stream.sequence, column)
    for batch in source.batches([name for name in dict.fromkeys(roles) if name is not None]):
        values = pc.unique(batch.table.column(column).cast(pa.string()))
        there |= {value for value in values.to_pylist() if value is not None}
        looked += len(batch)
        if looked >= MAX_EVENTS_READ or there.issuperset(wanted):
            break
    missing = [name for name in wanted if name not in there]
    if not missing:
        return None
    listed = ", ".join(sorted(there)[:MAX_TYPES_SHOWN]) + (
        ", …" if len(there) > MAX_TYPES_SHOWN else ""
    )
    hint = did_you_mean(missing[0], sorted(there)) or f"there are {listed or 'none'}"
    names = ", ".join(f"'{name}'" for name in missing[:MAX_TYPES_SHOWN])
    first = "" if looked < MAX_EVENTS_READ else f" among the first {looked:,} events"
    return f"no event has {names} in the column '{column}'{first}; {hint}"
