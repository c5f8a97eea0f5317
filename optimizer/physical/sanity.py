"""What every plan must fulfil before it may run; each breach is a `PlanError` that names it.

- Ids are unique, and an operator reads only what stands before it: no cycle, nothing dangling.
- The inputs of an operator give what it needs: kinds, columns, order and partitioning.
- No operator keeps a state that nothing bounds.
- Every query is in one group, and its rows reach one sink once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from optimizer.physical.errors import PlanError
from optimizer.physical.operator import CONSTRUCTING, Operator, OperatorKind

_MATCHES: tuple[OperatorKind, ...] = ("events", *CONSTRUCTING)


@dataclass(frozen=True, slots=True)
class _Needs:
    """What an operator of a kind reads.

    `alike`: its inputs must be spread as it is itself. `order`: they come sorted by that column.
    """

    kinds: tuple[OperatorKind, ...]
    fewest: int = 1
    most: int | None = None
    order: str | None = None
    alike: bool = False


_JOINED = _Needs(_MATCHES, order="end", alike=True)
_NEEDS: Mapping[OperatorKind, _Needs] = {
    "scan": _Needs((), 0, 0),
    "conditions": _Needs(("scan",), 1, 1),
    "symbol": _Needs(("conditions",), 1, 1),
    "partition": _Needs(("scan",), 1, 1),
    "events": _Needs(("partition", "symbol"), 2, 2),
    "segment": _Needs(("events", "segment"), order="end", alike=True),
    "counter": _Needs(("events", "segment"), order="end", alike=True),
    "stepwise": _Needs(("events",), order="end", alike=True),
    "output": _Needs(("counter", *_MATCHES), 1, 1, order="end", alike=True),
    **{kind: _JOINED for kind in CONSTRUCTING if kind != "stepwise"},
    "sink": _Needs(("output",)),
}


def check(
    queries: Sequence[str], groups: Iterable[Sequence[str]], operators: Sequence[Operator]
) -> None:
    """Refuse a plan for these queries, in those groups, that does not hold together."""
    _check_groups(queries, groups)
    _check_graph(operators)
    by_id = {operator.id: operator for operator in operators}
    for operator in operators:
        _check_inputs(operator, [by_id[source] for source in operator.inputs])
        if operator.state.bound == "unbounded":
            raise PlanError(f"the plan is unbounded: {operator.id}: {operator.state.reason}")
    _check_outputs(queries, operators)


def _check_groups(queries: Sequence[str], groups: Iterable[Sequence[str]]) -> None:
    planned = Counter(query for group in groups for query in group)
    if planned != Counter(dict.fromkeys(queries, 1)):
        wrong = sorted(set(queries) ^ planned.keys()) + sorted(
            query for query, times in planned.items() if times > 1
        )
        raise PlanError(f"the plan does not run these queries exactly once: {', '.join(wrong)}")


def _check_graph(operators: Sequence[Operator]) -> None:
    known = {operator.id for operator in operators}
    before: set[str] = set()
    for operator in operators:
        if operator.id in before:
            raise PlanError(f"two operators are called {operator.id}")
        if missing := set(operator.inputs) - known:
            raise PlanError(
                f"operator {operator.id} reads {_names(missing)}, which the plan does not have"
            )
        if later := set(operator.inputs) - before:
            raise PlanError(
                f"operator {operator.id} reads {_names(later)}, which does not stand before it: "
                "the plan has a cycle, or is not in order"
            )
        before.add(operator.id)


def _check_inputs(operator: Operator, inputs: Sequence[Operator]) -> None:
    needs = _NEEDS[operator.kind]
    if len(inputs) < needs.fewest or (needs.most is not None and len(inputs) > needs.most):
        most = "" if needs.most is None else f" to {needs.most}"
        raise PlanError(
            f"operator {operator.id} reads {len(inputs)} operators, and a {operator.kind} reads "
            f"{needs.fewest}{most or ' or more'}"
        )
    for source in inputs:
        what = f"operator {operator.id} reads {source.id}, which"
        if source.kind not in needs.kinds:
            raise PlanError(
                f"{what} is a {source.kind}; a {operator.kind} reads {' or '.join(needs.kinds)}"
            )
        if needs.order is not None and source.order[:1] != (needs.order,):
            given = ", ".join(source.order) or "nothing"
            raise PlanError(f"{what} is sorted by {given}, and not by {needs.order}")
        if needs.alike and source.partitioning != operator.partitioning:
            raise PlanError(
                f"{what} is spread {source.partitioning}, and not {operator.partitioning}"
            )
    _check_columns(operator, inputs)


def _check_columns(operator: Operator, inputs: Sequence[Operator]) -> None:
    """Every column that an operator reads is there, and a sink's rows are all of its kind."""
    there = {column for source in inputs for column in source.schema}
    if missing := [c for c in operator.detail.get("columns", ()) if c not in there]:
        raise PlanError(
            f"operator {operator.id} needs {_names(missing)}, which none of its inputs has"
        )
    if absent := [column for column in operator.order if column not in operator.schema]:
        raise PlanError(f"operator {operator.id} is sorted by {_names(absent)}, which it has not")
    if operator.kind == "events":
        kinds = sorted(source.kind for source in inputs)
        if kinds != ["partition", "symbol"]:
            raise PlanError(f"operator {operator.id} reads no symbol in a partition: {kinds}")
        (spread,) = (s.partitioning for s in inputs if s.kind == "partition")
        if spread != operator.partitioning:
            raise PlanError(
                f"operator {operator.id} is spread {operator.partitioning}, and its partition "
                f"{spread}"
            )
    if operator.kind == "sink":
        for source in inputs:
            if dict(source.schema) != dict(operator.schema):
                raise PlanError(
                    f"operator {operator.id} takes rows of {_names(operator.schema)}; {source.id} "
                    f"gives {_names(source.schema)}"
                )


def _check_outputs(queries: Sequence[str], operators: Sequence[Operator]) -> None:
    """Each query has one output, which one sink reads once."""
    outputs = {o.id: str(o.detail.get("query")) for o in operators if o.kind == "output"}
    written = Counter(source for sink in operators if sink.kind == "sink" for source in sink.inputs)
    times = Counter(outputs[source] for source in written.elements())
    if unknown := set(outputs.values()) - set(queries):
        raise PlanError(f"the plan gives rows of what is no query of it: {_names(unknown)}")
    if twice := [query for query in queries if times[query] > 1]:
        raise PlanError(f"the plan would return these queries more than once: {_names(twice)}")
    if never := [query for query in queries if not times[query]]:
        raise PlanError(f"the plan would not return these queries: {_names(never)}")
    if idle := outputs.keys() - written.keys():
        raise PlanError(f"nothing reads {_names(idle)}")
    read = {source for operator in operators for source in operator.inputs}
    if unread := [o.id for o in operators if o.kind != "sink" and o.id not in read]:
        raise PlanError(f"nothing reads {_names(unread)}")


def _names(names: Iterable[str]) -> str:
    return ", ".join(sorted(names))
