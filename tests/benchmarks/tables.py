"""Rows of benchmarks as text: tables for a terminal, Markdown for documents, JSON for programs."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict

from tests.benchmarks.measuring import Goal, Measured, Row, Said

_CASE = 34  # characters
_CELL = 19
UNITS = (
    "Events per second; in brackets how many times as fast the first column is. Memory is the rise "
    "of the peak, in MB."
)


_GOALS = ("workload", "what", "target", "measured", "")


def as_json(row: Row) -> str:
    """One line."""
    if isinstance(row, Said):
        return json.dumps(asdict(row))
    if isinstance(row, Goal):
        return json.dumps(asdict(row) | {"holds": row.holds})
    derived = {"events_per_second": row.events_per_second, "ratios": row.ratios}
    return json.dumps(asdict(row) | derived)


def as_text(rows: Iterable[Row]) -> Iterator[str]:
    """Lines for a terminal, each as soon as its row is there."""
    table: tuple[str, ...] = ()
    for row in rows:
        if isinstance(row, Said):
            yield f"  {row.text}"
            continue
        if isinstance(row, Goal):
            case = f"{row.workload}: {row.text}"
            yield f"  {case:<72}{_target(row):>16}{row.measured:>10.2f}{_verdict(row):>10}"
            continue
        columns = _columns(row)
        if table != (row.table, *columns):
            # A variant that is left out from some case on keeps its column.
            if not (table[:1] == (row.table,) and set(columns) <= set(table[1:])):
                table = (row.table, *columns)
                yield f"  {row.table}"
                yield "  " + " " * _CASE + "".join(f"{name:>{_CELL}}" for name in columns)
            columns = list(table[1:])
        cells = "".join(f"{_cell(row, name):>{_CELL}}" for name in columns)
        yield f"  {row.case:<{_CASE}}{cells}"
        if row.memory:
            cells = "".join(f"{_memory(row, name):>{_CELL}}" for name in columns)
            yield f"  {'  memory':<{_CASE}}{cells}"
        for name, why in row.skipped.items():
            yield f"    {name} skipped: {why}"


def as_markdown(name: str, text: str, rows: Iterable[Row]) -> Iterator[str]:
    """Lines of a section: what is measured, and a table for each set of columns."""
    yield f"## {name}"
    yield ""
    yield text
    current: tuple[str, ...] = ()
    notes: list[str] = []
    for row in rows:
        if isinstance(row, Said):
            yield from _ended(notes)
            yield from ["", row.text]
            current = ()
            continue
        if isinstance(row, Goal):
            if current != _GOALS:
                yield from _ended(notes)
                yield from ["", f"| {' | '.join(_GOALS)} |", "|---" * len(_GOALS) + "|"]
                current = _GOALS
            cells = [row.workload, row.text, _target(row), f"{row.measured:.2f}", _verdict(row)]
            yield f"| {' | '.join(cells)} |"
            continue
        columns = _columns(row)
        if current[:1] != (row.table,) or not set(columns) <= set(current[1:]):
            yield from _ended(notes)
            current = (row.table, *columns)
            yield from ["", f"{row.table[:1].upper()}{row.table[1:]}:", ""]
            yield f"| | {' | '.join(columns)} |"
            yield "|---" * (len(columns) + 1) + "|"
        cells = [_cell(row, column) for column in current[1:]]
        yield f"| {row.case} | {' | '.join(cells)} |"
        if row.memory:
            cells = [_memory(row, column) for column in current[1:]]
            yield f"| {row.case}, memory | {' | '.join(cells)} |"
        notes += [f"{row.case}, {name}: {why}" for name, why in row.skipped.items()]
    yield from _ended(notes)
    yield ""


def _target(row: Goal) -> str:
    return f"{'at least' if row.at_least else 'at most'} {row.target:g}"


def _verdict(row: Goal) -> str:
    return "holds" if row.holds else "missed"


def _ended(notes: list[str]) -> Iterator[str]:
    """What was left out of the table that ends here."""
    if notes:
        yield from ["", "Left out: " + "; ".join(notes) + "."]
        notes.clear()


def _columns(row: Measured) -> list[str]:
    return list(dict.fromkeys([*row.seconds, *row.skipped]))


def _cell(row: Measured, name: str) -> str:
    if name not in row.seconds:
        return "-"
    speed = human(row.events_per_second[name])
    return speed if name not in row.ratios else f"{speed} ({_times(row.ratios[name])})"


def _memory(row: Measured, name: str) -> str:
    return f"{row.memory[name] / 1e6:.1f} MB" if name in row.memory else "-"


def _times(ratio: float) -> str:
    return f"{ratio:,.0f}×" if ratio >= 100 else f"{ratio:.3g}×"


def human(speed: float) -> str:
    """1.23 M, 45.6 k, 789."""
    for unit, name in ((1e6, " M"), (1e3, " k")):
        if speed >= unit:
            return f"{speed / unit:.3g}{name}"
    return f"{speed:.3g}"
