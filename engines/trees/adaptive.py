"""Plans that change while a stream runs, when the stream does: ZStream section 5.3.

All that is kept between two batches is events, so any plan can take over at any of them. The rule
has two thresholds (also Odense thesis 3.5.5): when a statistic that the plan rests on has changed
by more than one, another plan is looked for; it is taken where it costs less by more than the
other.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal as OneOf

from engines.how import How
from engines.trees.choices import Choice, cost_of_all, plan_queries
from engines.trees.observed import Asked, Observed, Question, Running, Snapshot, added_up, look
from engines.trees.picked import Picked
from optimizer.ir.query import Query

Plans = dict[str, list[Choice]]
LOGGED = 100  # decisions that are remembered


@dataclass(frozen=True)
class Thresholds:
    """When plans are looked for, and taken.

    `change`: t, how much of itself a statistic may change by. `gain`: c, the share of the cost that
    a plan must save. `enough`: events that statistics are the mean of, at least. `worth`: events
    that are touched for these, at least, so that planning, which takes some milliseconds, pays.
    """

    change: float = 0.5
    gain: float = 0.1
    enough: int = 10_000
    worth: float = 200_000.0


USUAL = Thresholds()


@dataclass(frozen=True)
class Decision:
    """What was done about some queries before a batch, and why.

    `planned`: they had no plan. `kept`: there was a better one, but not by enough, or none.
    `changed`: it is another one from this batch on.
    """

    what: OneOf["planned", "kept", "changed"]
    batch: int
    queries: tuple[str, ...]
    reason: str
    plans: tuple[str, ...] = ()

    def __str__(self) -> str:
        names = self.queries[0] if len(self.queries) == 1 else f"{len(self.queries)} queries"
        text = f"batch {self.batch}: plan of {names} {self.what}: {self.reason}"
        return "\n  ".join([text, *self.plans])


@dataclass
class _Known:
    """The plan of some queries, the statistics it was made or last held good for, and those of the
    latest batches since."""

    plans: Plans
    rests_on: Snapshot
    recent: deque[Snapshot] = field(default_factory=deque)
    since: int = 0  # events that came after the last look


class Adaptive:
    """The plans of a run, from batch to batch; `decisions` are the latest, `changes` counts all."""

    def __init__(self, thresholds: Thresholds = USUAL) -> None:
        self._thresholds = thresholds
        self._known: dict[Hashable, _Known] = {}
        self._batches: dict[Hashable, int] = {}
        self.decisions: deque[Decision] = deque(maxlen=LOGGED)
        self.changes = 0

    def plans(
        self, queries: Sequence[Query], picked: Picked, widths: Mapping[str, int], how: How
    ) -> Plans:
        """The plan for the next batch of events, of queries over the same events."""
        names = tuple(query.name for query in queries)
        batch = self._batches[names] = self._batches.get(names, 0) + 1
        known = self._known.get(names)
        if known is None:
            statistics = Running.of(look(picked, ()), picked)
            plans = plan_queries(queries, statistics, widths, how)
            if how.trees and how.adaptive:
                cost_of_all(_all(plans), statistics)  # asks for what given trees rest on
            known = self._known[names] = _Known(plans, statistics.answered())
            self._log("planned", batch, plans, "these are the first events")
        elif how.adaptive:
            self._look_again(known, batch, queries, picked, widths, how)
        return known.plans

    def _look_again(
        self,
        known: _Known,
        batch: int,
        queries: Sequence[Query],
        picked: Picked,
        widths: Mapping[str, int],
        how: How,
    ) -> None:
        limits = self._thresholds
        known.since += len(picked.columns.events)
        if known.since * 4 < limits.enough:
            return
        known.since = 0
        recent = self._recent(known, look(picked, known.rests_on.asked))
        changed = _most_changed(recent, known.rests_on)
        if changed is None or changed.times <= 1 + limits.change:
            return
        statistics = Running.of(recent, picked)
        before = cost_of_all(_all(known.plans), statistics)
        if before * recent.seconds < limits.worth:
            known.since = -4 * limits.enough  # nor will it be soon
            return
        plans = plan_queries(queries, statistics, widths, replace(how, trees=()))
        known.rests_on = statistics.answered()
        known.recent.clear()
        cost = cost_of_all(_all(plans), statistics)
        saving = 1 - cost / before if before else 0.0
        if saving <= limits.gain:
            self._log("kept", batch, known.plans, f"{changed}; a new plan saves {saving:.0%}")
            return
        known.plans = plans
        self.changes += 1
        self._log("changed", batch, plans, f"{changed}; the new plan saves {saving:.0%}")

    def _recent(self, known: _Known, newest: Snapshot) -> Snapshot:
        """The latest batches, as many as are enough; only those of the same kind as the newest."""
        if known.recent:
            changed = _most_changed(newest, added_up(known.recent))
            if changed is not None and changed.times > 1 + self._thresholds.change:
                known.recent.clear()
        known.recent.append(newest)
        held = sum(snapshot.events for snapshot in known.recent)
        while held - known.recent[0].events >= self._thresholds.enough:
            held -= known.recent.popleft().events
        return added_up(known.recent)

    def _log(
        self, what: OneOf["planned", "kept", "changed"], batch: int, plans: Plans, reason: str
    ) -> None:
        shown = tuple(f"{name}: {choice}" for name, choices in plans.items() for choice in choices)
        self.decisions.append(Decision(what, batch, tuple(plans), reason, shown))


@dataclass(frozen=True)
class _Change:
    asked: Asked
    times: float
    before: Observed
    now: Observed

    def __str__(self) -> str:
        kind = "selectivity" if isinstance(self.asked, Question) else "rate"
        unit = "" if isinstance(self.asked, Question) else " a second"
        return (
            f"the {kind} of {self.asked} went from {self.before.value:.3g} to "
            f"{self.now.value:.3g}{unit}"
        )


def _most_changed(now: Snapshot, before: Snapshot) -> _Change | None:
    most = None
    for asked, found, known in zip(now.asked, now.answers, before.answers, strict=True):
        if found is not None and known is not None:
            times = found.times(known)
            if most is None or times > most.times:
                most = _Change(asked, times, known, found)
    return most


def _all(plans: Plans) -> list[Choice]:
    return [choice for choices in plans.values() for choice in choices]
