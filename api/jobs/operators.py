"""The operators of a plan with what a job that runs it has counted of each.

Between the events of a partition and the rows of a query all is one pass of compiled kernels: what
symbols, segments and inner joins give is not counted one by one, and they have no numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from api.jobs.counts import Counts
from optimizer.physical.wording import some

Operator = Mapping[str, Any]  # as a plan's document has it


@dataclass(frozen=True)
class Holding:
    """What the state holds that an operator's queries, and maybe others, have together."""

    events: int
    bytes: int | None
    queries: int


@dataclass(frozen=True)
class Counted:
    """An operator, how many queries it serves, and its numbers; None: they are not known."""

    id: str
    kind: str
    about: str
    queries: int
    rows_in: int | None = None
    rows_out: int | None = None
    state: Holding | None = None


def counted(operators: Sequence[Operator], counts: Counts | None) -> list[Counted]:
    """All operators of a plan, in its order; without `counts` none has numbers."""
    ways = _Ways(operators)
    return [
        Counted(
            operator["id"],
            operator["kind"],
            about_of(operator),
            ways.served[operator["id"]].bit_count(),
            *(_NONE if counts is None else _numbers(operator, ways, counts)),
        )
        for operator in operators
    ]


def about_of(operator: Operator) -> str:
    """What an operator is about, in a few words of its own."""
    detail = operator["detail"]
    match operator["kind"]:
        case "scan":
            return f"in the order of {detail['time']}"
        case "symbol" | "events":
            return str(detail["symbol"])
        case "partition":
            return f"by {', '.join(detail['key'])}" if detail["key"] else "no key"
        case "segment":
            return ", ".join(detail["steps"])
        case "engine":
            return f"{detail['engine']}: {some(detail['queries'])}"
        case "output":
            return f"{detail['query']}: {detail['pattern']}"
        case "sink":
            return str(detail["rows"])
        case _:
            return str(detail["pattern"])


class _Ways:
    """How the rows of queries come about: which operators they come through, and straight from.

    A set of queries is a number with a bit for each: a plan may have ten thousand.
    """

    def __init__(self, operators: Sequence[Operator]) -> None:
        outputs = [operator for operator in operators if operator["kind"] == "output"]
        self._names = [output["detail"]["query"] for output in outputs]
        self.served = {operator["id"]: 0 for operator in operators}
        self.straight: dict[str, list[str]] = {}
        for place, output in enumerate(outputs):
            self.served[output["id"]] = 1 << place
            for source in output["inputs"]:
                self.straight.setdefault(source, []).append(self._names[place])
        for operator in reversed(operators):  # each comes after those that it reads
            if operator["kind"] == "sink":
                self.served[operator["id"]] = sum(self.served[i] for i in operator["inputs"])
                continue
            for source in operator["inputs"]:
                self.served[source] |= self.served[operator["id"]]

    def through(self, id: str) -> set[str]:
        """The queries whose rows come through an operator."""
        return {name for place, name in enumerate(self._names) if self.served[id] >> place & 1}


_Numbers = tuple[int | None, int | None, Holding | None]
_NONE: _Numbers = (None, None, None)


def _numbers(operator: Operator, ways: _Ways, counts: Counts) -> _Numbers:
    """Rows in, rows out, and state."""
    id, detail = operator["id"], operator["detail"]
    match operator["kind"]:
        case "scan":
            read = counts.events
            return None if read is None else read + counts.bad, read, None
        case "partition":
            return _partition(ways.through(id), counts)
        case "output":
            number = counts.rows.get(detail["query"], 0)
            return number, number, None
        case "sink":
            of_these = sum(counts.rows.get(name, 0) for name in ways.through(id))
            number = of_these if counts.kinds is None else counts.kinds[detail["rows"]]
            return number, number, None
        case _ if id in ways.straight:
            queries = ways.straight[id]
            rows = sum(counts.rows.get(name, 0) for name in queries)
            return _taken(queries, counts), rows, _state(set(queries), counts)
        case _:
            return _NONE


def _taken(queries: Iterable[str], counts: Counts) -> int | None:
    """Events that were given to queries: to the first of them, where others came to it later."""
    return max((counts.taken[name] for name in queries if name in counts.taken), default=None)


def _partition(queries: set[str], counts: Counts) -> _Numbers:
    found = [way for way in counts.ways if way.queries & queries]
    if not found:
        taken = _taken(queries, counts)
        return taken, taken, None
    arrived, taken = sum(way.arrived for way in found), sum(way.taken for way in found)
    together = sum(len(way.queries) for way in found)
    return arrived, taken, Holding(sum(way.waiting for way in found), None, together)


def _state(queries: set[str], counts: Counts) -> Holding | None:
    found = [held for held in counts.state if held.queries & queries]
    if not found:
        return None
    return Holding(
        sum(held.events for held in found),
        sum(held.bytes for held in found),
        sum(len(held.queries) for held in found),
    )
