"""Plans that change while a stream runs, when the stream does: ZStream section 5.3.

All that is kept between two batches is events, so any plan can take over at any of them. The rule
has two thresholds (also Odense thesis 3.5.5): when a statistic that the plan rests on has changed
by more than one, another plan is looked for; it is taken where it costs less by more than the
other.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal as OneOf

from engines.trees.choices import Trees, choose_trees, cost_of_all
from engines.trees.observed import Asked, Observed, Question, Running, Snapshot, added_up, look
from engines.trees.picked import Picked
from optimizer.ir.query import Query

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
    """What was done about the trees of some queries before a batch, and why.

    `chosen`: the plan left them to be chosen on the events. `kept`: there were better ones, but not
    by enough, or none. `changed`: they are others from this batch on. `old` and `new` are the trees
    as text, by query.
    """

    what: OneOf["chosen", "kept", "changed"]
    batch: int
    queries: tuple[str, ...]
    reason: str
    old: Mapping[str, str] = field(default_factory=dict)
    new: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        names = self.queries[0] if len(self.queries) == 1 else f"{len(self.queries)} queries"
        lines = [f"batch {self.batch}: trees of {names} {self.what}: {self.reason}"]
        for query, tree in self.new.items():
            was = self.old.get(query)
            lines.append(f"{query}: {tree}" + (f" (was {was})" if was not in (None, tree) else ""))
        return "\n  ".join(lines)


@dataclass
class _Known:
    """The trees of some queries, the statistics they were made or last held good for, and those of
    the latest batches since."""

    trees: Trees
    rests_on: Snapshot
    recent: deque[Snapshot] = field(default_factory=deque)
    since: int = 0  # events that came after the last look


class Adaptive:
    """The trees of a run, from batch to batch; `decisions` are the latest, `changes` counts all."""

    def __init__(self, thresholds: Thresholds = USUAL) -> None:
        self._thresholds = thresholds
        self._known: dict[Hashable, _Known] = {}
        self._batches: dict[Hashable, int] = {}
        self.decisions: deque[Decision] = deque(maxlen=LOGGED)
        self.changes = 0

    def trees(
        self,
        queries: Sequence[Query],
        planned: Trees,
        picked: Picked,
        widths: Mapping[str, int],
        sharing: bool = True,
        adaptive: bool = True,
    ) -> Trees:
        """The trees for the next batch of events, of queries over the same events.

        Queries that are not `planned` get trees chosen on these events.
        """
        names = tuple(query.name for query in queries)
        if not adaptive and len(planned) == len(names):
            return planned
        batch = self._batches[names] = self._batches.get(names, 0) + 1
        known = self._known.get(names)
        if known is None:
            statistics = Running.of(look(picked, ()), picked)
            left = [query for query in queries if query.name not in planned]
            chosen = choose_trees(left, statistics, widths, sharing) if left else {}
            trees = {name: planned.get(name) or chosen[name] for name in names}
            if planned and adaptive:
                cost_of_all(trees, statistics, widths)  # asks for what given trees rest on
            known = self._known[names] = _Known(trees, statistics.answered())
            if chosen:
                self._log("chosen", batch, "these are the first events", {}, chosen)
        elif adaptive:
            self._look_again(known, batch, queries, picked, widths, sharing)
        return known.trees

    def _look_again(
        self,
        known: _Known,
        batch: int,
        queries: Sequence[Query],
        picked: Picked,
        widths: Mapping[str, int],
        sharing: bool,
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
        before = cost_of_all(known.trees, statistics, widths)
        if before * recent.seconds < limits.worth:
            known.since = -4 * limits.enough  # nor will it be soon
            return
        trees = choose_trees(queries, statistics, widths, sharing)
        known.rests_on = statistics.answered()
        known.recent.clear()
        cost = cost_of_all(trees, statistics, widths)
        saving = 1 - cost / before if before else 0.0
        if saving <= limits.gain:
            self._log("kept", batch, f"{changed}; others save {saving:.0%}", {}, known.trees)
            return
        why = f"{changed}; the new ones save {saving:.0%}"
        self._log("changed", batch, why, known.trees, trees)
        known.trees = trees
        self.changes += 1

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
        self,
        what: OneOf["chosen", "kept", "changed"],
        batch: int,
        reason: str,
        old: Trees,
        new: Trees,
    ) -> None:
        texts = [
            {name: " | ".join(map(str, readings)) for name, readings in trees.items()}
            for trees in (old, new)
        ]
        self.decisions.append(Decision(what, batch, tuple(new), reason, *texts))


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
