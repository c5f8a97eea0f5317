"""What queries about situations mean, by brute force.

Situations are derived from all stretches of moments, relations by comparing end points, and the
moment at which a match is certain by trying every way in which its situations could go on.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from engines.reference.values import Row, true, value
from optimizer.ir.query import Query, ReturnValue, SituationPattern, whole_ticks
from optimizer.ir.situations import Constraint, ReturnEdge, Situation, Temporal

Moment = tuple[float, ...]  # a time, and a sequence number where the stream has them
NEVER: Moment = (math.inf, math.inf)
Instances = Callable[[Any], list[Row]]


@dataclass(frozen=True, eq=False)
class Stretch:
    """A situation: its events, its first moment, and the moment at which it has ended."""

    rows: tuple[Row, ...]
    start: Moment
    end: Moment


def situation_rows(
    query: Query, events: list[Row], instances: Instances, tick: int, steps: Iterator[int]
) -> Iterator[dict[str, Any]]:
    """The rows of a query over the events of one partition."""
    assert isinstance(query.output, SituationPattern)
    temporal = query.output.temporal
    sequenced = bool(events) and len(events[0].key) > 1
    streams = [
        list(_stretches(situation, instances, tick, sequenced)) for situation in temporal.situations
    ]
    if temporal.edge is not None:
        (stretches,) = streams
        yield from _edge_rows(query.output, stretches)
        return
    width = query.window.ticks(tick)
    for chosen in itertools.product(*streams):
        next(steps)
        if not _distinct(temporal, chosen):
            continue
        certain = _certain(temporal, chosen, tick, sequenced)
        if certain is None:
            continue
        start = min(stretch.start for stretch in chosen)
        if certain[0] - start[0] >= width:
            continue
        bound = {
            situation.name: tuple(row for row in stretch.rows if row.key <= certain)
            for situation, stretch in zip(temporal.situations, chosen, strict=True)
        }
        if all(true(condition, bound) for condition in query.conditions):
            yield {
                "start": int(start[0]),
                "end": int(certain[0]),
                "time": int(certain[0]),
                "match": _match(query.output, temporal, chosen, bound, certain),
            }


def _edge_rows(output: SituationPattern, stretches: list[Stretch]) -> Iterator[dict[str, Any]]:
    """A moment for each situation: at which it starts, or has ended."""
    temporal = output.temporal
    (situation,) = temporal.situations
    for stretch in stretches:
        moment = stretch.start if temporal.edge == "start" else stretch.end
        if moment == NEVER:
            continue
        time = int(moment[0])
        edge = min if temporal.edge == "start" else max
        at = edge(row.key for row in stretch.rows)
        bound = {situation.name: tuple(row for row in stretch.rows if row.key == at)}
        found = _match(output, temporal, [stretch], bound, moment)
        yield {"start": time, "end": time, "time": time, "match": found}


def _stretches(
    situation: Situation, instances: Instances, tick: int, sequenced: bool
) -> Iterator[Stretch]:
    """The longest runs of moments at which the condition holds for every event."""
    definition = situation.definition
    gap = None if definition.gap is None else whole_ticks(definition.gap, tick, "GAP")
    holding = {id(row) for row in instances(definition.symbol)}
    moments: dict[Moment, list[Row]] = {}
    for row in instances(definition.member):
        moments.setdefault(row.key, []).append(row)
    keys = sorted(moments)
    holds = [all(id(row) in holding for row in moments[key]) for key in keys]

    def goes_on(place: int) -> bool:
        """Is the moment behind this one part of the same stretch, if the condition holds there?"""
        return gap is None or keys[place + 1][0] - keys[place][0] <= gap

    def is_run(first: int, last: int) -> bool:
        return all(holds[first : last + 1]) and all(map(goes_on, range(first, last)))

    for first, last in _stretches_of(len(keys), is_run):
        if first > 0 and is_run(first - 1, last):
            continue
        if last + 1 < len(keys) and is_run(first, last + 1):
            continue
        if gap is not None and (last + 1 == len(keys) or not goes_on(last)):
            end = _due(keys[last][0] + gap, sequenced)
        else:
            end = keys[last + 1] if last + 1 < len(keys) else NEVER
        rows = tuple(row for key in keys[first : last + 1] for row in moments[key])
        yield Stretch(rows, keys[first], end)


def _stretches_of(number: int, is_run: Callable[[int, int], bool]) -> Iterator[tuple[int, int]]:
    """All stretches that are runs; what is behind one that is none cannot be one either."""
    for first in range(number):
        for last in range(first, number):
            if not is_run(first, last):
                break
            yield first, last


def _due(time: float, sequenced: bool) -> Moment:
    """A moment that time alone brings: behind all events of its tick."""
    return (time, math.inf) if sequenced else (time,)


def _distinct(temporal: Temporal, chosen: Sequence[Stretch]) -> bool:
    """Two names are one situation only where a constraint says that they may be equal."""
    for i, j in itertools.combinations(range(len(chosen)), 2):
        first, second = temporal.situations[i], temporal.situations[j]
        same = first.definition == second.definition and chosen[i].start == chosen[j].start
        asked = [c for c in temporal.constraints if {c.left, c.right} == {i, j}]
        if same and not any(c.mask >> 6 & 1 for c in asked):
            return False
    return True


# --- relations -----------------------------------------------------------------------------------


def _relation(start: Moment, end: Moment, other: Moment, other_end: Moment) -> str:
    """The relation of one stretch to another, by its definition."""
    if end < other:
        return "before"
    if end == other:
        return "meets"
    if other_end < start:
        return "after"
    if other_end == start:
        return "met by"
    return {
        (-1, -1): "overlaps",
        (-1, 0): "finished by",
        (-1, 1): "contains",
        (0, -1): "starts",
        (0, 0): "equals",
        (0, 1): "started by",
        (1, -1): "during",
        (1, 0): "finishes",
        (1, 1): "overlapped by",
    }[_compared(start, other), _compared(end, other_end)]


def _compared(first: Moment, second: Moment) -> int:
    return (first > second) - (first < second)


_NAMES = (
    *("before", "meets", "overlaps", "finished by", "contains", "starts", "equals", "started by"),
    *("during", "finishes", "overlapped by", "met by", "after"),
)


def _allows(constraint: Constraint, spans: Sequence[tuple[Moment, Moment]]) -> bool:
    found = _relation(*spans[constraint.left], *spans[constraint.right])
    return bool(constraint.mask >> _NAMES.index(found) & 1)


# --- certainty -----------------------------------------------------------------------------------


def _certain(
    temporal: Temporal, chosen: Sequence[Stretch], tick: int, sequenced: bool
) -> Moment | None:
    """The first moment at which the match is given; None where it never is."""
    known = [(stretch.start, stretch.end) for stretch in chosen]
    if temporal.emit == "complete":
        if any(stretch.end == NEVER for stretch in chosen):
            return None
        lasts = all(map(_lasts, temporal.situations, known, [tick] * len(known)))
        holds = lasts and all(_allows(c, known) for c in temporal.constraints)
        return max(stretch.end for stretch in chosen) if holds else None
    moments = {moment for span in known for moment in span if moment != NEVER}
    for situation, stretch in zip(temporal.situations, chosen, strict=True):
        if situation.at_least is not None:
            least = whole_ticks(situation.at_least, tick, "length")
            moments.add(_due(stretch.start[0] + least, sequenced))
    for now in sorted(moments):
        if all(_satisfied(temporal, spans, now, tick) for spans in _continuations(known, now)):
            return now
    return None


def _continuations(
    known: Sequence[tuple[Moment, Moment]], now: Moment
) -> Iterator[list[tuple[Moment, Moment]] | None]:
    """All that can become of situations of which only what lies up to now is known.

    Those that have not ended may end in any order, together, or never; None stands for one that
    has not begun, and need not.
    """
    if any(start > now for start, _ in known):
        yield None
        return
    going_on = [i for i, (_, end) in enumerate(known) if end > now]
    later = [(math.inf, float(i)) for i in range(len(going_on))]
    for ends in itertools.product([*later, NEVER], repeat=len(going_on)):
        spans = list(known)
        for i, end in zip(going_on, ends, strict=True):
            spans[i] = (spans[i][0], end)
        yield spans


def _satisfied(
    temporal: Temporal, spans: list[tuple[Moment, Moment]] | None, now: Moment, tick: int
) -> bool:
    if spans is None:
        return False
    for situation, (start, end) in zip(temporal.situations, spans, strict=True):
        if end[0] != math.inf:
            if not _lasts(situation, (start, end), tick):
                return False
            continue
        # It may end at once, or never.
        if situation.at_most is not None:
            return False
        least = 0 if situation.at_least is None else whole_ticks(situation.at_least, tick, "length")
        if now[0] - start[0] < least:
            return False
    return all(_allows(c, spans) for c in temporal.constraints)


def _lasts(situation: Situation, span: tuple[Moment, Moment], tick: int) -> bool:
    length = span[1][0] - span[0][0]
    least = 0 if situation.at_least is None else whole_ticks(situation.at_least, tick, "length")
    most = math.inf if situation.at_most is None else whole_ticks(situation.at_most, tick, "length")
    return least <= length <= most


# --- what is returned ----------------------------------------------------------------------------


def _match(
    output: SituationPattern,
    temporal: Temporal,
    chosen: Sequence[Stretch],
    bound: dict[str, tuple[Row, ...]],
    certain: Moment,
) -> dict[str, Any]:
    values = {item.name: item.value for item in output.items if isinstance(item, ReturnValue)}
    found: dict[str, Any] = {}
    for item in temporal.returned:
        if isinstance(item, ReturnEdge):
            stretch = chosen[item.situation]
            moment = stretch.start if item.edge == "start" else stretch.end
            shown = Time(int(moment[0])) if moment <= certain else None
            if item.name is not None:
                found[item.name] = shown
            else:
                found.setdefault(temporal.situations[item.situation].name, {})[item.edge] = shown
        else:
            found[item.name] = value(values[item.name], bound)
    return found


class Time(int):
    """A number of ticks that stands for a time."""
