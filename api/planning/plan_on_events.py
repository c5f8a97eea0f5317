"""Plans that are made on a sample of the events that they will run over."""

from __future__ import annotations

from typing import TYPE_CHECKING
from typing import Literal as OneOf

if TYPE_CHECKING:
    from optimizer.plan.plan import Model, Plan, Solver
    from optimizer.statistics import Statistics
    from workloads.workload import Workload


def plan_on_events(
    workload: Workload,
    events: str | None = None,
    sharing: bool = True,
    device: OneOf["cpu", "opencl"] = "cpu",
    solver: Solver = "greedy",
    model: Model = "measured",
) -> Plan:
    """The plan of a workload, by its own statistics or else by a sample of the events.

    Without either, what nobody knows is assumed, and the plan says so.
    """
    from engines.calibration.machine_costs import known
    from optimizer.bind.binder import bind
    from optimizer.statistics import given
    from sharing.planner import make_plan
    from workloads.workload import to_document

    bound = bind(workload)
    statistics = None
    if events is not None and not given(bound.statistics, bound.queries).rates:
        statistics = sample_events(workload, events)
    return make_plan(
        bound,
        to_document(workload),
        solver,
        model,
        statistics,
        sharing=sharing,
        unit_costs=known(),
        device=device,
    )


def sample_events(workload: Workload, events: str) -> Statistics | None:
    """Statistics of events that are about to be read; None where there are none to see."""
    from engines.input.event_table import list_files
    from engines.limits import EventsError
    from engines.statistics.measure import sample_files
    from workloads.errors import WorkloadError

    try:
        list_files(events)
        return sample_files(workload, events)
    except (EventsError, WorkloadError):
        # A table of Spark's, nothing yet, or something wrong that the run itself says.
        return None
