"""The operators of a plan with what a job that runs it has counted of each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from api.jobs.counts import JobCounts
from engines.account import Account
from engines.report import OperatorAccount, operator_accounts

Operator = Mapping[str, Any]  # as a plan's document has it


@dataclass(frozen=True)
class HeldState:
    """What the state holds that an operator's queries, and maybe others, have together."""

    events: int
    bytes: int | None
    queries: int


@dataclass(frozen=True)
class JobOperator:
    """An operator with its numbers, and what it holds in a stream."""

    account: OperatorAccount
    state: HeldState | None = None


def job_operators(operators: Sequence[Operator], counts: JobCounts | None) -> list[JobOperator]:
    """All operators of a plan, in its order; without `counts` none has measured numbers."""
    if counts is None:
        return [JobOperator(account) for account in operator_accounts(operators)]
    account = Account()
    if counts.operators:
        account.add(counts.operators)
    found = operator_accounts(operators, account, counts.events, counts.report.get("span_seconds"))
    lineage = _Lineage(operators)
    by_id = {operator["id"]: operator for operator in operators}
    return [
        JobOperator(each) if each.unplanned else _completed(each, by_id[each.id], lineage, counts)
        for each in found
    ]


class _Lineage:
    """How the rows of queries come about: which operators they come through, and straight from.

    A set of queries is a number with a bit for each: a plan may have ten thousand.
    """

    def __init__(self, operators: Sequence[Operator]) -> None:
        outputs = [operator for operator in operators if operator["kind"] == "output"]
        self._names = [output["detail"]["query"] for output in outputs]
        self._served = {operator["id"]: 0 for operator in operators}
        self.straight: dict[str, set[str]] = {}
        for place, output in enumerate(outputs):
            self._served[output["id"]] = 1 << place
            for source in output["inputs"]:
                self.straight.setdefault(source, set()).add(self._names[place])
        for operator in reversed(operators):  # each comes after those that it reads
            if operator["kind"] == "sink":
                self._served[operator["id"]] = sum(self._served[i] for i in operator["inputs"])
                continue
            if operator["kind"] == "into":  # the rows of its maker, which others only read
                continue
            for source in operator["inputs"]:
                self._served[source] |= self._served[operator["id"]]

    def through(self, id: str) -> set[str]:
        """The queries whose rows come through an operator."""
        return {name for place, name in enumerate(self._names) if self._served[id] >> place & 1}


def _completed(
    account: OperatorAccount, operator: Operator, lineage: _Lineage, counts: JobCounts
) -> JobOperator:
    """With what a job knows of reading, of writing, and of state."""
    id = operator["id"]
    match operator["kind"]:
        case "scan" if counts.events is not None:
            read = counts.events
            return JobOperator(replace(account, rows_in=read + counts.bad, rows_out=read))
        case "scan":
            return JobOperator(replace(account, rows_in=None, rows_out=None))
        case "partition" if counts.ways:
            queries = lineage.through(id)
            found = [way for way in counts.ways if way.queries & queries]
            if not found:
                return JobOperator(account)
            arrived, taken = sum(way.arrived for way in found), sum(way.taken for way in found)
            together = sum(len(way.queries) for way in found)
            waiting = HeldState(sum(way.waiting for way in found), None, together)
            return JobOperator(replace(account, rows_in=arrived, rows_out=taken), waiting)
        case "output":
            number = counts.rows.get(operator["detail"]["query"], 0)
            return JobOperator(replace(account, rows_out=number))
        case "sink":
            of_these = sum(counts.rows.get(name, 0) for name in lineage.through(id))
            kind = operator["detail"]["rows"]
            number = of_these if counts.kinds is None else counts.kinds[kind]
            return JobOperator(replace(account, rows_in=number, rows_out=number))
        case _ if id in lineage.straight:
            return JobOperator(account, _state(lineage.straight[id], counts))
        case _:
            return JobOperator(account)


def _state(queries: set[str], counts: JobCounts) -> HeldState | None:
    found = [held for held in counts.state if held.queries & queries]
    if not found:
        return None
    return HeldState(
        sum(held.events for held in found),
        sum(held.bytes for held in found),
        sum(len(held.queries) for held in found),
    )
