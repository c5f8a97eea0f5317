"""Rates measured from events."""

from __future__ import annotations

import numpy as np

from engines.columns.instances import Columns
from engines.errors import EventsError
from engines.events import Events
from optimizer.ir.pattern import Symbol
from optimizer.ir.pattern import events as components
from optimizer.ir.query import BoundWorkload
from workloads.model import Statistics


def measure(workload: BoundWorkload, events: Events) -> Statistics:
    """The rate of every type that the queries use; selectivities stay those that are given."""
    span = int(events.ticks[-1] - events.ticks[0]) * events.tick / 1e9 if len(events) else 0.0
    if span == 0:
        raise EventsError(
            "rates cannot be measured: the events are all of one moment; give a longer stream, "
            "or rates under 'statistics'"
        )
    columns = Columns(workload, events)
    types = {c.symbol.type for query in workload.queries for c in components(query.pattern)}
    rates = {
        name: int(np.count_nonzero(columns.instances(Symbol(name)))) / span
        for name in sorted(types)
    }
    return Statistics(rates, workload.statistics.selectivities)
