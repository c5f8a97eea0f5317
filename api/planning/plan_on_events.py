"""Plans that are made on a sample of the events that they will run over."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING
from typing import Literal as OneOf

if TYPE_CHECKING:
    from api.run_settings import RunSettings
    from engines.input.event_paths import EventPath
    from engines.spark.frames.batch import KnownEvents
    from engines.spark.frames.live import LiveFrames
    from engines.statistics.measure import EventSample
    from optimizer.plan.plan import Model, Plan, Solver
    from workloads.workload import Workload


def plan_on_events(
    workload: Workload,
    events: EventPath | None = None,
    sharing: bool = True,
    device: OneOf["cpu", "opencl"] = "cpu",
    solver: Solver = "greedy",
    model: Model = "measured",
    settings: RunSettings | None = None,
) -> Plan:
    """The plan of a workload by what it states of its stream, and else by a sample of the events.

    What nobody knows is assumed, and the plan says so. With `settings` the events are read as a run
    with these does, so that what is wrong with them is an error, and the plan notes what queries
    ask for and the sample does not have; without, the run itself says all that.
    """
    from engines.calibration.machine_costs import known
    from optimizer.bind.binder import bind
    from sharing.planner import make_plan
    from workloads.workload import to_document

    sample = None
    if events is not None and settings is not None:
        from engines.statistics.measure import sample_files

        bind(workload)  # its own mistakes come before those of the events
        sample = sample_files(
            workload, events, on_error=settings.on_error, disorder=settings.late()
        )
    elif events is not None:
        sample = sample_events(workload, events)
    bound = bind(workload) if sample is None else sample.workload
    plan = make_plan(
        bound,
        to_document(workload),
        solver,
        model,
        None if sample is None else sample.statistics,
        sharing=sharing,
        unit_costs=known(),
        device=device,
    )
    if events is None or sample is None or settings is None:
        return plan
    from engines.access.choice import access_document

    access = access_document(events, bound, settings.access, solver)
    return replace(plan, notes=sample.notes, access=access)


def plan_on_frame(
    workload: Workload,
    frame: LiveFrames,
    sharing: bool = True,
    device: OneOf["cpu", "opencl"] = "cpu",
    solver: Solver = "greedy",
    model: Model = "measured",
) -> tuple[Plan, KnownEvents | None]:
    """The plan of a workload over a data frame of Spark's, and what was seen of its events.

    Of several sources there is a live one for each. Live streams are not looked at: where the
    workload has no statistics, they are assumed.
    """
    from engines.calibration.machine_costs import known
    from engines.spark.frames.plans import bind_to_frame, statistics_of
    from sharing.planner import make_plan
    from workloads.imported_rules import refusals
    from workloads.workload import to_document

    bound, seen = bind_to_frame(workload, frame)
    statistics = None if seen is None else statistics_of(bound, seen)
    plan = make_plan(
        bound,
        to_document(workload),
        solver,
        model,
        statistics,
        sharing=sharing,
        unit_costs=known(),
        device=device,
    )
    return replace(plan, notes=tuple(refusals(bound.refused))), seen


def sample_events(workload: Workload, events: EventPath) -> EventSample | None:
    """Events that are about to be read; None where there are none to see."""
    from engines.limits import EventsError
    from engines.statistics.measure import sample_files
    from workloads.errors import WorkloadError

    try:
        return sample_files(workload, events, with_notes=False)
    except (EventsError, WorkloadError):
        # A table of Spark's, nothing yet, or something wrong that the run itself says.
        return None
