"""Trees chosen on the events at hand, and changed when the stream does."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal as OneOf

from engines.matching.trees.buffers import SelectedEvents
from engines.statistics.running import (
    Observation,
    Question,
    Snapshot,
    SnapshotStatistics,
    StatisticQuestion,
    added_up,
    look,
)
from optimizer.cost.unit_costs import COMPILED
from optimizer.ir.pattern import Event, alternatives, parts_of
from optimizer.ir.query import Query, Reading, Window
from optimizer.plan import join_operators as op
from optimizer.plan.compile_tree import ReadingTree
from optimizer.plan.join_operators import Operator
from optimizer.statistics import Statistics
from optimizer.trees import Tree, best_tree
from optimizer.trees.plain import plain_tree
from optimizer.trees.propagation import best_passing, estimate_tree
from optimizer.trees.quick_sharing import common_trees

Trees = dict[str, tuple[ReadingTree, ...]]  # of each query, one for each of its readings


def choose_trees(
    queries: Sequence[Query],
    statistics: Statistics,
    widths: Mapping[str, int],
    sharing: bool,
) -> Trees:
    """A tree for each OR-free reading of each query's pattern.

    With `sharing`, queries of one window get the pieces that they have in common.
    """
    together: dict[Hashable, list[Reading]] = {}
    for query in queries:
        group = widths[query.name] if sharing else query.name
        readings = [Reading.of(query, pattern) for pattern in alternatives(query.pattern)]
        together.setdefault(group, []).extend(readings)
    found: dict[str, list[ReadingTree]] = {query.name: [] for query in queries}
    for readings in together.values():
        if sharing and len(readings) > 1:
            trees = common_trees(readings, statistics)
        else:
            trees = [_choose_tree(reading.asked, statistics) for reading in readings]
        compiled = [ReadingTree.of(r, tree) for r, tree in zip(readings, trees, strict=True)]
        for reading, chosen in zip(readings, _passed(readings, compiled, statistics), strict=True):
            found[reading.query.name].append(chosen)
    return {name: tuple(trees) for name, trees in found.items()}


def _choose_tree(asked: Query, statistics: Statistics) -> Tree:
    """The cheapest tree of a query without ORs; there is but one for two events."""
    pattern = asked.pattern
    parts = parts_of(pattern)
    if isinstance(pattern, Event) or (
        len(parts) == 2 and all(isinstance(part, Event) for part in parts)
    ):
        return plain_tree(pattern)
    return best_tree(asked, statistics, model=COMPILED).tree


def _passed(
    readings: Sequence[Reading], chosen: Sequence[ReadingTree], statistics: Statistics
) -> Iterator[ReadingTree]:
    """The trees, those that save by it with the last component passed down to their events.

    What several queries read stays as it is: each would leave other events.
    """
    readers = Counter(operator for tree in chosen for operator in _joins(tree))
    for reading, tree in zip(readings, chosen, strict=True):
        better = None
        if all(readers[operator] == 1 for operator in _joins(tree)):
            better = best_passing(tree.asked, tree.tree, statistics)
        yield tree if better is None else ReadingTree.of(reading, better)


def _joins(tree: ReadingTree) -> set[Operator]:
    return {o for o in op.walk_operators(tree.compiled.operator) if isinstance(o, op.Join)}


def cost_of_all(trees: Trees, statistics: Statistics, widths: Mapping[str, int]) -> float:
    """What some trees cost together, in events touched per second; what is shared counts once."""
    costs: dict[tuple[Hashable, Operator | None], float] = {}
    for name, readings in trees.items():
        for reading in readings:
            found = estimate_tree(reading.asked, reading.tree, statistics)
            longer = dict(_longer(reading.compiled.operator, None))
            for node, cost in zip(found.nodes, found.costs, strict=True):
                operator = reading.compiled.nodes.get(node)
                place: Hashable = (name, node)
                if operator is not None:
                    place = longer.get(operator) or widths[name]
                costs[place, operator] = cost / found.seconds
    return sum(costs.values())


def _longer(operator: Operator, window: Window | None) -> Iterator[tuple[Operator, Window]]:
    """The operators that are made in a longer window than the query's, and in which."""
    if window is not None:
        yield operator, window
    inner = operator.window if isinstance(operator, op.Within) else window
    for part in op.inputs(operator):
        yield from _longer(part, inner)


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


DEFAULT_THRESHOLDS = Thresholds()


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
class _KeptPlan:
    """The trees of some queries, the statistics they were made or last held good for, and those of
    the latest batches since."""

    trees: Trees
    rests_on: Snapshot
    recent: deque[Snapshot] = field(default_factory=deque)
    since: int = 0  # events that came after the last look


class AdaptivePlans:
    """The trees of a run, from batch to batch; `decisions` are the latest, `changes` counts all."""

    def __init__(self, thresholds: Thresholds = DEFAULT_THRESHOLDS) -> None:
        self._thresholds = thresholds
        self._known: dict[Hashable, _KeptPlan] = {}
        self._batches: dict[Hashable, int] = {}
        self.decisions: deque[Decision] = deque(maxlen=LOGGED)
        self.changes = 0

    def trees(
        self,
        queries: Sequence[Query],
        planned: Trees,
        picked: SelectedEvents,
        widths: Mapping[str, int],
        sharing: bool = True,
        adaptive: bool = True,
    ) -> Trees:
        """The trees for the next batch of events, of queries over the same events.

        Queries that are not `planned` get trees chosen on these events.
        """
        names = tuple(query.name for query in queries)
        batch = self._batches[names] = self._batches.get(names, 0) + 1
        known = self._known.get(names)
        if known is None:
            statistics = SnapshotStatistics.of(look(picked, ()), picked)
            left = [query for query in queries if query.name not in planned]
            chosen = choose_trees(left, statistics, widths, sharing) if left else {}
            trees = {name: planned.get(name) or chosen[name] for name in names}
            if planned and adaptive:
                cost_of_all(trees, statistics, widths)  # asks for what given trees rest on
            known = self._known[names] = _KeptPlan(trees, statistics.answered())
            if chosen:
                self._log("chosen", batch, "these are the first events", {}, chosen)
        elif adaptive:
            self._look_again(known, batch, queries, picked, widths, sharing)
        return known.trees

    def _look_again(
        self,
        known: _KeptPlan,
        batch: int,
        queries: Sequence[Query],
        picked: SelectedEvents,
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
        statistics = SnapshotStatistics.of(recent, picked)
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

    def _recent(self, known: _KeptPlan, newest: Snapshot) -> Snapshot:
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
    asked: StatisticQuestion
    times: float
    before: Observation
    now: Observation

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
