"""Statistics and unit costs from the report of a run, to plan by what was measured.

Rates are those of the symbols that the run saw. A query whose matches tie events by conditions gave
more or fewer rows than these rates predict: the selectivities of its conditions are corrected by
that. Unit costs are corrected, kind of operator by kind, by the CPU that operators took.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, TypeAlias

from engines.report import operator_accounts
from optimizer.cost.stages import SLICE_EVENTS
from optimizer.cost.unit_costs import NAMES, UnitCosts
from optimizer.ir.query import BoundWorkload, Construction
from optimizer.plan.plan import Plan, to_json
from optimizer.statistics import Statistics
from optimizer.statistics.statistics import joint_text, joint_texts, symbols_of
from workloads.errors import SheafError

Planner: TypeAlias = Callable[[Statistics, UnitCosts], Plan]
LEAST_SECONDS = 0.005  # of CPU that say something of a kind of operator
MOST = 50.0  # times that a unit cost is corrected by
# By kind of operator, how the names of its operations begin.
STAGES: Mapping[str, tuple[str, ...]] = {
    "scan": ("read_",),
    "conditions": ("seen", "text_", "tested", "numbered"),
    "partition": ("key_", "arranged", "picked"),
    "output": ("aggregate_", "output_", "match_"),
    "sink": ("sunk_",),
    "group": ("group_",),
    "trees": ("joined", "node_"),
}
ENGINES: Mapping[str, tuple[str, ...]] = {
    "product": ("reversible_", "stack_", "product_"),
    "aseq": ("tree_", "sorted_"),
    "pretree": ("tree_", "sorted_"),
    "chopconnect": ("chop_",),
    "sem": ("sem_", "sorted_"),
    "fenwick": ("sem_", "sorted_"),
    "runs": ("run_", "product_"),
    "panes": ("pane_",),
    "folds": ("fold_",),
}
BEFORE_COUNTING = ("spoken", "watched", "keyed")


class ReportError(SheafError):
    """A document that is no report of a run."""


class Replanned(NamedTuple):
    """What a run says of its stream and of the machine that it ran on."""

    statistics: Statistics
    unit_costs: UnitCosts


def is_report(document: Any) -> bool:
    """Is a JSON document the report of a run, and not a plan?"""
    return (
        isinstance(document, Mapping)
        and "operators" in document
        and "events" in document
        and "groups" not in document
    )


def from_report(
    report: Mapping[str, Any],
    workload: BoundWorkload,
    known: Statistics,
    unit_costs: UnitCosts,
    planner: Planner,
) -> Replanned:
    """What a run measured, in place of what was known before; `planner` plans the workload."""
    events = report.get("events")
    operators = report.get("operators")
    if not isinstance(events, int) or not isinstance(operators, list) or events < 1:
        raise ReportError("the report has no events: there is nothing to plan by")
    span = report.get("span_seconds")
    if not span:
        span = events / known.total_rate if known.events and known.span else None
    if not span:
        raise ReportError(
            "neither the report nor the workload says in how many seconds its events came; "
            "give events and span under 'statistics'"
        )
    rates = _rates(operators, events / span)
    statistics = known.updated(rates=rates, events=events, span=span)
    planned = planner(statistics, unit_costs)
    corrected = _selectivities(operators, planned, workload, statistics, span)
    statistics = statistics.updated(selectivities=corrected)
    planned = planner(statistics, unit_costs)
    return Replanned(statistics, _costs(operators, planned, unit_costs, events))


def _rates(operators: Iterable[Mapping[str, Any]], total: float) -> dict[str, float]:
    """Events per second of each symbol; an event that several slices reach is tested in each."""
    found = {}
    for operator in operators:
        if operator["kind"] == "symbol" and operator.get("rows_in"):
            found[operator["about"]] = total * operator["rows_out"] / operator["rows_in"]
    return found


def _selectivities(
    operators: Iterable[Mapping[str, Any]],
    planned: Plan,
    workload: BoundWorkload,
    statistics: Statistics,
    span: float,
) -> dict[str, float]:
    """Those of conditions, so that queries are expected to give the rows that they gave."""
    measured = {
        operator["about"].partition(":")[0]: operator["rows_out"]
        for operator in operators
        if operator["kind"] == "output" and operator.get("rows_out") is not None
    }
    expected = {
        operator.detail["query"]: operator.rows
        for operator in planned.operators
        if operator.kind == "output"
    }
    factors: dict[str, list[float]] = defaultdict(list)
    before: dict[str, float] = {}
    for query in workload.queries:
        rows = expected.get(query.name)
        if not isinstance(query.output, Construction) or not query.conditions or not rows:
            continue
        if query.name not in measured:
            continue
        times = max(measured[query.name], 0.5) / (rows * span)
        symbols = symbols_of(query.pattern)
        for condition in query.conditions:
            name = next(
                (t for t in joint_texts(condition, symbols) if t in statistics.selectivities),
                joint_text(condition, symbols),
            )
            if name in statistics.selectivities:
                before[name] = statistics.selectivities[name]
                factors[name].append(times ** (1 / len(query.conditions)))
    return {
        name: min(1.0, before[name] * math.prod(some) ** (1 / len(some)))
        for name, some in factors.items()
    }


def _costs(
    operators: Iterable[Mapping[str, Any]], planned: Plan, unit_costs: UnitCosts, events: int
) -> UnitCosts:
    """Unit costs by which the plan that ran is expected to take what it took."""
    accounts = operator_accounts(
        to_json(planned)["operators"], None, events, is_cut=events > SLICE_EVENTS
    )
    predicted = {account.id: account.predicted_seconds or 0.0 for account in accounts}
    spent: dict[str, float] = defaultdict(float)
    wanted: dict[str, float] = defaultdict(float)
    for operator in operators:
        if operator["id"] not in predicted or operator.get("cpu_seconds") is None:
            continue
        kind = _kind(operator)
        spent[kind] += operator["cpu_seconds"]
        wanted[kind] += predicted[operator["id"]]
    factors = {
        kind: min(MOST, max(1 / MOST, spent[kind] / wanted[kind]))
        for kind in spent
        if spent[kind] >= LEAST_SECONDS and wanted[kind] > 0
    }
    counted = [factor for kind, factor in factors.items() if kind in ENGINES]
    # An engine that did not run is as much slower than expected here as those that did.
    usual = math.exp(sum(map(math.log, counted)) / len(counted)) if counted else 1.0
    times: dict[str, float] = {}
    for names, kind in [
        *((names, kind) for kind, names in STAGES.items()),
        *((names, kind) for kind, names in ENGINES.items()),
    ]:
        factor = factors.get(kind, usual if kind in ENGINES else 1.0)
        for name in NAMES:
            if name.startswith(names) and (kind in factors or name not in times):
                times[name] = factor
    times |= dict.fromkeys(BEFORE_COUNTING, usual)
    changed = {name: getattr(unit_costs.each, name) * times[name] for name in times}
    each = unit_costs.each._replace(**changed)
    return UnitCosts(each, f"a run of {events:,} events")


def _kind(operator: Mapping[str, Any]) -> str:
    """What its unit costs go by."""
    kind = str(operator["kind"])
    if kind == "counter":
        return str(operator["about"]).partition(":")[0].partition(" on ")[0]
    return kind if kind in STAGES else "trees"
