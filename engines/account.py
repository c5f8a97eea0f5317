"""An account of a run: what each operator of its plan took in, gave, and spent.

Operators are timed by batch, not by event: one clock reading where work passes from one operator to
another. An operator's time is its own, without that of the operators that it asks for rows.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Self, TypeVar

Part = TypeVar("Part")


class Account:
    """Rows and CPU of operators, by their ids, in one thread."""

    def __init__(self) -> None:
        self.rows_in: Counter[str] = Counter()
        self.rows_out: Counter[str] = Counter()
        self.nanoseconds: Counter[str] = Counter()
        self._stack: list[str] = []
        self._since = 0

    def charge(self, operator: str) -> Charge:
        """A context whose CPU time is the operator's, but for what is charged within it."""
        return Charge(self, operator)

    def count(self, operator: str, rows_in: int = 0, rows_out: int = 0) -> None:
        """Add rows that came to an operator, and that it gave."""
        self.rows_in[operator] += rows_in
        self.rows_out[operator] += rows_out

    def spend(self, operator: str, nanoseconds: int) -> None:
        """Add CPU time that was spent for an operator elsewhere, such as in another thread."""
        self.nanoseconds[operator] += nanoseconds

    def add(self, totals: Mapping[str, Mapping[str, int]]) -> None:
        """Add the totals of another account."""
        self.rows_in.update(totals["rows_in"])
        self.rows_out.update(totals["rows_out"])
        self.nanoseconds.update(totals["nanoseconds"])

    def clear(self) -> None:
        """Begin again with nothing."""
        for counts in (self.rows_in, self.rows_out, self.nanoseconds):
            counts.clear()

    def totals(self) -> dict[str, dict[str, int]]:
        """All of it as plain values."""
        return {
            "rows_in": dict(self.rows_in),
            "rows_out": dict(self.rows_out),
            "nanoseconds": dict(self.nanoseconds),
        }

    def enter(self, operator: str) -> None:
        """From now on time is the operator's, until it is left."""
        now = time.thread_time_ns()
        if self._stack:
            self.nanoseconds[self._stack[-1]] += now - self._since
        self._stack.append(operator)
        self._since = now

    def leave(self) -> None:
        """From now on time is that of the operator before."""
        now = time.thread_time_ns()
        self.nanoseconds[self._stack.pop()] += now - self._since
        self._since = now


@dataclass(frozen=True, slots=True)
class Charge:
    """A stretch of work that is charged to an operator."""

    account: Account
    operator: str

    def __enter__(self) -> Self:
        self.account.enter(self.operator)
        return self

    def __exit__(self, *error: object) -> None:
        self.account.leave()


def charged(account: Account, operator: str, parts: Iterator[Part]) -> Iterator[Part]:
    """The parts of an iterator; finding each is charged to an operator."""
    while True:
        with account.charge(operator):
            part = next(parts, None)
        if part is None:
            return
        yield part


@contextmanager
def all_threads(account: Account, operator: str) -> Iterator[None]:
    """A context whose CPU is the operator's, with that of the threads that write for it."""
    process, thread = time.process_time_ns(), time.thread_time_ns()
    try:
        with account.charge(operator):
            yield
    finally:
        own = time.thread_time_ns() - thread
        account.spend(operator, max(0, time.process_time_ns() - process - own))


@dataclass
class Fallbacks:
    """What the data or the device did not allow as planned, and what was done instead."""

    sentences: dict[str, None] = field(default_factory=dict)  # each once, in their order

    def add(self, sentence: str) -> None:
        self.sentences[sentence] = None

    def update(self, others: Mapping[str, Any] | list[str]) -> None:
        self.sentences.update(dict.fromkeys(others))

    def clear(self) -> None:
        self.sentences.clear()

    def __iter__(self) -> Any:
        return iter(self.sentences)

    def __len__(self) -> int:
        return len(self.sentences)
