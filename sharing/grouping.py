"""How the chosen candidates chop each query into segments."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from sharing.candidates import Candidates
from sharing.errors import SharingError


@dataclass(frozen=True)
class Segment:
    """So many steps of a query from `start` on; `shared` is the number of a candidate, or None."""

    start: int
    length: int
    shared: int | None = None

    @property
    def end(self) -> int:
        """The step after its last."""
        return self.start + self.length


Chopped = Mapping[str, tuple[Segment, ...]]


class ChopError(SharingError):
    """Segments that do not make up their query: each step must be in exactly one."""


def chop(candidates: Candidates, chosen: Iterable[int]) -> Chopped:
    """The segments of every query, in order: those that are shared, and what lies between them.

    Raises ChopError where two of the chosen are in conflict.
    """
    shared: dict[int, list[Segment]] = {}
    for i in chosen:
        for place in range(int(candidates.first[i]), int(candidates.first[i + 1])):
            segment = Segment(int(candidates.position[place]), int(candidates.length[i]), i)
            shared.setdefault(int(candidates.query[place]), []).append(segment)
    chopped = {}
    for q, query in enumerate(candidates.of):
        listed = sorted(shared.get(q, []), key=lambda segment: segment.start)
        chopped[query.name] = tuple(_filled(listed, len(query.steps)))
        check(query.name, chopped[query.name], len(query.steps))
    return chopped


def check(query: str, segments: Sequence[Segment], steps: int) -> None:
    """Raise ChopError unless the segments, in order, hold each of so many steps once."""
    at = 0
    for segment in segments:
        if segment.start != at or segment.length < 1:
            wrong = "overlap" if segment.start < at else "leave a gap"
            raise ChopError(f"the segments of {query} {wrong} at step {min(at, segment.start) + 1}")
        at = segment.end
    if at != steps:
        raise ChopError(f"the segments of {query} have {at} steps, and it has {steps}")


def lengths(chopped: Chopped) -> dict[str, tuple[int, ...]]:
    """The length of each query's segments, as Chop-Connect takes them."""
    return {name: tuple(s.length for s in segments) for name, segments in chopped.items()}


def _filled(shared: Sequence[Segment], steps: int) -> Iterable[Segment]:
    at = 0
    for segment in shared:
        if segment.start > at:
            yield Segment(at, segment.start - at)
        yield segment
        at = segment.end
    if at < steps:
        yield Segment(at, steps - at)
