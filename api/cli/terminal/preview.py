"""What was left out, and the account of a job's operators, on the terminal."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from api.http.schemas import HoldingOut, OperatorCounts, OperatorsOut, TreeDecision
    from engines.input.event_table import Faults

LINE_WIDTH = 80  # characters
COLUMN_KINDS = ("symbol", "events")  # columns that other operators make, without time of their own


def tell_faults(faults: Faults) -> None:
    """Say how many rows were left out, if any."""
    if faults.total:
        kinds = ", ".join(f"{number:,} {kind}" for kind, number in sorted(faults.counts.items()))
        typer.echo(f"left out {faults.total:,} rows ({kinds}); the first: {faults.first}", err=True)


def operator_lines(found: OperatorsOut, everything: bool = False) -> Iterator[str]:
    """The account of a job's operators in lines of 80 characters, two for each operator.

    Without `everything` only operators that do something by themselves and have begun.
    """
    shown = [
        o
        for o in found.operators
        if everything or (o.kind not in COLUMN_KINDS and o.rows_out is not None)
    ]
    yield from _wrapped(
        f"{found.job}, {found.status}: {len(shown)} of the {len(found.operators)} operators of "
        f"{found.plan}" + ("" if found.until is None else f", up to {found.until}")
    )
    if shown:
        yield ""
        yield _columns("CPU", "predicted", "", "rows in", "rows out", "predicted")
    for operator in shown:
        yield from _wrapped(f"{operator.kind} {operator.about}{_users(operator)}")
        yield _operator_numbers(operator)
        if operator.state is not None:
            yield f"  holds {_held(operator.state, operator.queries)}"
    yield from _sum_lines(found)
    for query, number in found.gone.items():
        yield from _wrapped(f"{query}, which is gone, gave {number:,} rows")
    for sentence in found.fallbacks:
        yield from _wrapped(f"not as planned: {sentence}")
    for decision in found.trees:
        yield from _tree_lines(decision)


def _sum_lines(found: OperatorsOut) -> Iterator[str]:
    """CPU of all operators, of none, and of all of the run, beside what was predicted."""
    claimed = [o.cpu_seconds for o in found.operators if o.cpu_seconds is not None]
    if not claimed:
        return
    yield "all operators"
    yield _columns(
        _seconds(sum(claimed)),
        _seconds(found.predicted_seconds),
        _ratio(sum(claimed), found.predicted_seconds),
    )
    if found.unclaimed_seconds is not None:
        whole = found.cpu_seconds or 0.0
        share = f"{found.unclaimed_seconds / whole:.0%}" if whole else ""
        yield "claimed by no operator"
        yield _columns(_seconds(found.unclaimed_seconds), share)


def _operator_numbers(operator: OperatorCounts) -> str:
    predicted = operator.predicted_rows
    return _columns(
        _seconds(operator.cpu_seconds),
        _seconds(operator.predicted_seconds),
        _ratio(operator.cpu_seconds, operator.predicted_seconds),
        _whole(operator.rows_in),
        _whole(operator.rows_out),
        _whole(None if predicted is None else round(predicted)),
    )


def _columns(*cells: str) -> str:
    widths = (11, 11, 8, 15, 15, 15)
    return "".join(f"{cell:>{width}}" for cell, width in zip(cells, widths, strict=False)).rstrip()


def _seconds(value: float | None) -> str:
    from optimizer.explain.text import cpu

    return "" if value is None else cpu(value * 1e9)


def _whole(value: int | None) -> str:
    return "" if value is None else f"{value:,}"


def _ratio(measured: float | None, predicted: float | None) -> str:
    """How many times what was predicted a measured time is."""
    from optimizer.explain.text import digits

    if not measured or not predicted:
        return ""
    times = measured / predicted
    return f"{digits(times)}×" if times < 1000 else ">999×"


def _users(operator: OperatorCounts) -> str:
    return f", for {operator.queries:,} queries" if operator.queries > 1 else ""


def _held(state: HoldingOut, queries: int) -> str:
    size = "that wait" if state.bytes is None else f"in {state.bytes:,} B"
    others = "" if state.queries <= queries else f", of {state.queries:,} queries"
    return f"{state.events:,} events {size}{others}"


def _tree_lines(decision: TreeDecision) -> Iterator[str]:
    names = ", ".join(decision.queries)
    yield from _wrapped(
        f"batch {decision.batch}: trees of {names} {decision.what}: {decision.reason}"
    )
    for query, tree in decision.new.items():
        old = decision.old.get(query)
        was = f", before {old}" if old not in (None, tree) else ""
        yield from (f"  {line}" for line in _wrapped(f"{query}: {tree}{was}", LINE_WIDTH - 2))


def _wrapped(text: str, width: int = LINE_WIDTH) -> list[str]:
    return textwrap.wrap(text, width, subsequent_indent="  ")
