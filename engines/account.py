"""An account of a run: what each operator of its plan took in, gave, and spent.

Operators are timed by batch, not by event: one clock reading where work passes from one operator to
another. An operator's time is its own, without that of the operators that it asks for rows.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Self, TypeVar

Part = TypeVar("Part")
_COUNTED = ("rows_in", "rows_out", "nanoseconds")


class _ThreadAccount(threading.local):
    """What one thread has counted and spent, and the operators that it works for now."""

    def __init__(self, all_of_them: list[dict[str, Counter[str]]]) -> None:
        self.rows_in: Counter[str] = Counter()
        self.rows_out: Counter[str] = Counter()
        self.nanoseconds: Counter[str] = Counter()
        self.stack: list[str] = []
        self.since = 0
        all_of_them.append({name: getattr(self, name) for name in _COUNTED})


class Account:
    """Rows and CPU of operators, by their ids; threads count side by side."""

    def __init__(self, totals: Mapping[str, Mapping[str, int]] | None = None) -> None:
        self._threads: list[dict[str, Counter[str]]] = []
        self._own = _ThreadAccount(self._threads)
        if totals is not None:
            self.add(totals)

    def __reduce__(self) -> tuple[type[Account], tuple[dict[str, dict[str, int]]]]:
        """As its totals: what threads work for now stays in their process."""
        return Account, (self.totals(),)

    @property
    def rows_in(self) -> Counter[str]:
        """The rows that came to operators."""
        return self._sum("rows_in")

    @property
    def rows_out(self) -> Counter[str]:
        """The rows that operators gave."""
        return self._sum("rows_out")

    @property
    def nanoseconds(self) -> Counter[str]:
        """The CPU time of operators."""
        return self._sum("nanoseconds")

    def _sum(self, name: str) -> Counter[str]:
        found: Counter[str] = Counter()
        for counts in list(self._threads):
            found.update(counts[name].copy())
        return found

    def charge(self, operator: str) -> Charge:
        """A context whose CPU time is the operator's, but for what is charged within it."""
        return Charge(self, operator)

    def count(self, operator: str, rows_in: int = 0, rows_out: int = 0) -> None:
        """Add rows that came to an operator, and that it gave."""
        self._own.rows_in[operator] += rows_in
        self._own.rows_out[operator] += rows_out

    def count_each(self, operators: Iterable[str], rows: Iterable[int]) -> None:
        """Add the rows that came to each of some operators, and that it gave."""
        own = self._own
        rows_in, rows_out = own.rows_in, own.rows_out
        for operator, number in zip(operators, rows, strict=True):
            rows_in[operator] += number
            rows_out[operator] += number

    def spend(self, operator: str, nanoseconds: int) -> None:
        """Add CPU time that was spent for an operator elsewhere, such as in another thread."""
        self._own.nanoseconds[operator] += nanoseconds

    def add(self, totals: Mapping[str, Mapping[str, int]]) -> None:
        """Add the totals of another account."""
        for name in _COUNTED:
            getattr(self._own, name).update(totals[name])

    def clear(self) -> None:
        """Begin again with nothing."""
        for thread in self._threads:
            for counts in thread.values():
                counts.clear()

    def totals(self) -> dict[str, dict[str, int]]:
        """All of it as plain values."""
        return {name: dict(self._sum(name)) for name in _COUNTED}

    def enter(self, operator: str) -> None:
        """From now on the thread's time is the operator's, until it is left."""
        own, now = self._own, time.thread_time_ns()
        if own.stack:
            own.nanoseconds[own.stack[-1]] += now - own.since
        own.stack.append(operator)
        own.since = now

    def leave(self) -> None:
        """From now on the thread's time is that of the operator before."""
        own, now = self._own, time.thread_time_ns()
        own.nanoseconds[own.stack.pop()] += now - own.since
        own.since = now


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
def all_threads(
    account: Account, operator: str, others: Callable[[], int] = lambda: 0
) -> Iterator[None]:
    """A context whose CPU is the operator's, with that of the threads that write for it.

    `others` tells the CPU time of threads that have accounts of their own.
    """
    process, thread = time.process_time_ns() - others(), time.thread_time_ns()
    try:
        with account.charge(operator):
            yield
    finally:
        own = time.thread_time_ns() - thread
        account.spend(operator, max(0, time.process_time_ns() - others() - process - own))


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
