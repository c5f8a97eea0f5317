"""The report of a run: for each operator of its plan what it took and gave, beside what the plan
predicted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from engines.account import Account
from engines.execution import RunReport
from optimizer.cost.stages import ONE_SLICE
from optimizer.explain.text import some
from optimizer.plan.plan import Plan

if TYPE_CHECKING:
    from engines.matching.trees.adaptive import Decision

Operator = Mapping[str, Any]  # as a plan's document has it


@dataclass(frozen=True)
class OperatorAccount:
    """An operator with what was predicted and measured of it.

    CPU seconds are its own. A segment is counted within its counter, and symbols and the events of
    a partition are columns that others make: these have rows and no time. An operator that is
    `unplanned` ran in place of planned ones, as trees changed or data did not allow those, or for
    an earlier plan of a stream.
    """

    id: str
    kind: str
    about: str
    queries: int
    rows_in: int | None = None
    rows_out: int | None = None
    cpu_seconds: float | None = None
    predicted_seconds: float | None = None
    predicted_rows: float | None = None
    unplanned: bool = False

    def document(self) -> dict[str, Any]:
        plain: dict[str, Any] = {
            "id": self.id,
            "kind": self.kind,
            "about": self.about,
            "queries": self.queries,
            "rows_in": self.rows_in,
            "rows_out": self.rows_out,
            "cpu_seconds": _rounded(self.cpu_seconds),
            "predicted_seconds": _rounded(self.predicted_seconds),
        }
        if self.predicted_rows is not None:
            plain["predicted_rows"] = round(self.predicted_rows)
        return plain | {"unplanned": True} if self.unplanned else plain


def operator_accounts(
    operators: Sequence[Operator],
    account: Account | None = None,
    events: int | None = None,
    seconds: float | None = None,
    is_cut: bool = True,
) -> list[OperatorAccount]:
    """All operators of a plan, in its order, and after them those that ran in their place.

    `events` and `seconds` are of the stream so far: with these the plan's costs for a second of
    stream become predictions, which are others for a stream that was not cut into slices. Without
    an account none has measured numbers.
    """
    served = _served(operators)
    scale = _scale(operators, events, seconds)
    totals = None if account is None else account.totals()
    found = []
    for operator in operators:
        rows_in, rows_out, spent = _measured(operator, totals)
        cost, rows = operator["cost"], operator["rows"]
        if not is_cut:
            cost = operator["detail"].get(ONE_SLICE, cost)
        found.append(
            OperatorAccount(
                operator["id"],
                operator["kind"],
                about_of(operator),
                served[operator["id"]].bit_count(),
                rows_in,
                rows_out,
                spent,
                None if scale is None else scale * cost / 1e9,
                None if scale is None or rows is None else scale * rows,
            )
        )
    if totals is not None:
        known = {operator["id"] for operator in operators}
        for id, nanoseconds in totals["nanoseconds"].items():
            if id not in known:
                kind = id.rpartition("-")[0]
                found.append(
                    OperatorAccount(
                        id,
                        kind,
                        "not in this plan",
                        0,
                        totals["rows_in"].get(id, 0),
                        totals["rows_out"].get(id, 0),
                        nanoseconds / 1e9,
                        unplanned=True,
                    )
                )
    return found


def _scale(
    operators: Sequence[Operator], events: int | None, seconds: float | None
) -> float | None:
    """The seconds of stream that the plan's costs are to be multiplied with.

    By the number of events, where the plan knows how many come in a second.
    """
    scan = next(operator for operator in operators if operator["kind"] == "scan")
    if events is not None and scan["rows"]:
        return float(events / scan["rows"])
    return seconds


def _measured(
    operator: Operator, totals: Mapping[str, Mapping[str, int]] | None
) -> tuple[int | None, int | None, float | None]:
    """Rows in, rows out and CPU seconds."""
    if totals is None:
        return None, None, None
    id = operator["id"]
    rows_out = totals["rows_out"].get(id)
    rows_in = totals["rows_in"].get(id) or None
    inputs = [totals["rows_out"].get(source) for source in operator["inputs"]]
    match operator["kind"]:
        case "events":  # the events of a symbol, as its partition has them
            rows_in = inputs[0]
            rows_out = inputs[0] if rows_out is None else rows_out
        case "segment":
            rows_in = rows_out = None
        case "union":  # which passes on what its readings give
            rows_in = rows_out = sum(number for number in inputs if number is not None)
        case "counter":
            rows_out = 0 if rows_out is None else rows_out
        case "output" if totals["rows_in"].get(id) == 0:  # what it reads is of other queries
            rows_in, rows_out = 0, rows_out or 0
        case _:
            if rows_in is None:
                rows_in = sum(number for number in inputs if number is not None)
            rows_out = 0 if rows_out is None else rows_out
    return rows_in, rows_out, totals["nanoseconds"].get(id, 0) / 1e9


def about_of(operator: Operator) -> str:
    """What an operator is about, in a few words of its own."""
    detail = operator["detail"]
    match operator["kind"]:
        case "scan":
            return f"in the order of {detail['time']}"
        case "conditions":
            return f"{len(detail['symbols'])} symbols"
        case "symbol" | "events":
            return str(detail["symbol"])
        case "partition":
            return f"by {', '.join(detail['key'])}" if detail["key"] else "no key"
        case "segment":
            return ", ".join(detail["steps"])
        case "counter":
            on = "" if detail["device"] == "cpu" else f" on {detail['device']}"
            return f"{detail['engine']}{on}: {some(detail['queries'])}"
        case "output":
            return f"{detail['query']}: {detail['pattern']}"
        case "into":
            return f"{detail['type']}: rows of {detail['query']} for {some(detail['readers'])}"
        case "sink":
            return str(detail["rows"])
        case _:  # a plan of an earlier version has other kinds
            return str(detail.get("pattern", ""))


def _served(operators: Sequence[Operator]) -> dict[str, int]:
    """The queries whose rows come through each operator, as a number with a bit for each query."""
    served = {operator["id"]: 0 for operator in operators}
    outputs = [operator for operator in operators if operator["kind"] == "output"]
    for place, output in enumerate(outputs):
        served[output["id"]] = 1 << place
    for operator in reversed(operators):  # each comes after those that it reads
        if operator["kind"] == "sink":
            served[operator["id"]] = sum(served[i] for i in operator["inputs"])
            continue
        if operator["kind"] == "into":  # the rows of its maker, which others only read
            continue
        for source in operator["inputs"]:
            served[source] |= served[operator["id"]]
    return served


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 6)


def report_document(plan: Plan, report: RunReport) -> dict[str, Any]:
    """What a run says of itself at its end, as plain values."""
    from optimizer.plan.plan import to_json

    operators = to_json(plan)["operators"]
    run_over = report.read.get("events", report.events)
    accounts = operator_accounts(
        operators, report.account, run_over, report.span_seconds, report.is_cut
    )
    claimed = sum(account.cpu_seconds or 0.0 for account in accounts)
    predicted = [a.predicted_seconds for a in accounts if a.predicted_seconds is not None]
    run = report.seconds.get("run", 0.0)
    document: dict[str, Any] = {
        "events": report.events,
        "seconds": report.seconds,
        "cpu_seconds": round(report.cpu_seconds, 4),
        "predicted_seconds": round(sum(predicted), 4) if predicted else None,
        "events_per_second": round(report.events / max(run, 1e-9)),
        "span_seconds": report.span_seconds,
        "skipped": report.skipped,
        "rows": {"aggregates": report.numbers[0], "matches": report.numbers[1]},
        "rows_by_query": {name: report.rows.get(name, 0) for name in plan.written},
        "engine": report.engine,
        "device": report.device,
        "plan": plan.id,
        **report.about,
        "operators": [account.document() for account in accounts],
        "unclaimed_seconds": round(max(0.0, report.cpu_seconds - claimed), 4),
        "fallbacks": list(report.fallbacks),
        "plan_changes": report.changes,
        "trees": decision_documents(report.decisions),
        "read": report.read,
        **({"access": report.access} if report.access else {}),
        "notes": report.notes,
    }
    if report.ledger.stopped:
        document["stopped"] = report.ledger.stopped
    if report.ledger.dropped.total():
        document["dropped"] = dict(report.ledger.dropped)
    return document


def decision_documents(decisions: Sequence[Decision | Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Decisions about trees as plain values: what, when, of which queries, old and new, and why."""
    return [
        dict(decision) if isinstance(decision, Mapping) else asdict(decision)
        for decision in decisions
    ]
