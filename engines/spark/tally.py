"""What tasks tell the driver beside their results: how much they have read and found."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark import AccumulatorParam
    from pyspark.sql import SparkSession

    from engines.faults import Fault

Read = tuple[int, dict[str, int], "tuple[Fault, str] | None"]  # rows, bad ones by kind, the first

# Events, rows by query, the number of its program, and the totals of its account.
Part = tuple[int, dict[str, int], int, dict[str, dict[str, int]]]


class Merging:
    """An accumulator's parameter: what is told last under a name is what holds.

    A task that runs twice tells the same twice, which then counts once.
    """

    def zero(self, value: dict[Any, Any]) -> dict[Any, Any]:
        return {}

    def addInPlace(self, one: dict[Any, Any], other: dict[Any, Any]) -> dict[Any, Any]:  # noqa: N802
        one.update(other)
        return one


class Tally:
    """What the tasks of a job have told so far."""

    def __init__(self, session: SparkSession) -> None:
        param: AccumulatorParam[dict[Any, Any]] = Merging()  # type: ignore[assignment]
        self.accumulator = session.sparkContext.accumulator({}, param)
        self.queries: tuple[tuple[str, ...], ...] = ()  # of each program that parts run
        self.whole: int | None = None  # what Spark reads by itself, and tells nothing of

    def splits(self) -> dict[int, Read]:
        """What was read, by the number of the split."""
        return self._told("split")

    def parts(self) -> dict[int, Part]:
        """Of the parts that are done: events that came, rows found by query, its program."""
        return self._told("part")

    def spent(self) -> int:
        """Nanoseconds of CPU that tasks have read for."""
        return sum(self._told("spent").values())

    def read(self) -> int | None:
        """Rows that have been read from storage; None while that is not known."""
        if self.whole is not None:  # parts begin when all is read
            return self.whole if self.parts() else None
        told = [rows for rows, _, _ in self.splits().values()] + [*self._told("stretch").values()]
        return sum(told) if told else None

    def _told(self, kind: str) -> dict[int, Any]:
        # A copy at once: another thread adds to it.
        told = self.accumulator.value.copy()
        return {name[1]: value for name, value in told.items() if name[0] == kind}
