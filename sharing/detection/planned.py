"""What a plan says of queries that construct their matches as trees."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

from optimizer.ir.query import Aggregation, Query
from optimizer.physical.plan import Cost, Group
from sharing.assign import trusted
from sharing.candidates import Kind
from sharing.detection.choose import Choice, benefit, choose, readings_of
from sharing.detection.conflicts import Served
from sharing.detection.listed import Listed
from sharing.detection.obstacles import obstacles
from sharing.part import NANOSECONDS, Part, Wanted, together

TREES = "trees"
CALLED: Mapping[Kind, str] = {
    "prefix": "prefix cache",
    "suffix": "suffix cluster",
    "substring": "shared middle",
    "bitmark": "bit-marking",
}
NAMED = 4  # nodes in a reason


def detected(queries: Sequence[Query], wanted: Wanted, reasons: Mapping[str, str | None]) -> Part:
    """Plan queries all of which run as trees; `reasons` say why aggregates are not counted."""
    settings = readings_of(queries)
    before = {}
    if wanted.earlier is not None:
        kept = set(wanted.earlier.chosen)
        before = {c.pattern: c.queries for c in wanted.earlier.candidates if c.id in kept}
    parts = []
    for readings in settings.values():
        choice = choose(
            readings, wanted.statistics, wanted.solver, wanted.options, wanted.sharing, before
        )
        parts.append(_Planned(choice, wanted, reasons).part())
    found = together(parts)
    return (
        replace(found, obstacles=tuple(map(str, obstacles(settings)))) if wanted.sharing else found
    )


class _Planned:
    """The queries of one key and window."""

    def __init__(self, choice: Choice, wanted: Wanted, reasons: Mapping[str, str | None]) -> None:
        self.choice, self._problem = choice, choice.problem
        self._wanted, self._reasons = wanted, reasons
        touched = wanted.unit_costs.each.joined
        self._nanoseconds = touched / self._problem.roots[0].tree(()).seconds
        self.listed = Listed(choice, 1.0 if wanted.model == "aseq" else self._nanoseconds)

    def part(self) -> Part:
        """All of it, in the model's unit."""
        unit, choice = self.listed.unit, self.choice
        return Part(
            tuple(self.groups()),
            self.listed.candidates,
            self.listed.chosen,
            (),
            unit * choice.problem.separate,
            unit * choice.cost,
            unit * choice.saved,
            unit * choice.most,
            choice.proven,
        )

    def groups(self) -> Iterator[Group]:
        """Queries that share, directly or through others, together; each other alone."""
        queries = {r.query.name: r.query for r in self._problem.readings}
        served: dict[str, list[Served]] = {}
        together = self._together(list(queries))
        of_query = {name: names[0] for names in together for name in names}
        for node in self.choice.served:
            served.setdefault(of_query[self.listed.queries(node)[0]], []).append(node)
        for names in together:
            members = tuple(queries[name] for name in names)
            made = served.get(names[0], [])
            cost = self._cost(names, made)
            provisional = None if trusted(members, self._wanted.statistics) else True
            why = self._why(members, made, cost, provisional is not None)
            documents = {name: self._document(self._readings[name]) for name in names}
            tree, trees = (documents[names[0]], None) if len(names) == 1 else (None, documents)
            yield Group(
                names, TREES, why, tree=tree, trees=trees, cost=cost, provisional=provisional
            )

    @cached_property
    def _readings(self) -> dict[str, list[int]]:
        """The numbers of each query's readings."""
        found: dict[str, list[int]] = {}
        for number, reading in enumerate(self._problem.readings):
            found.setdefault(reading.query.name, []).append(number)
        return found

    def _cost(self, names: Sequence[str], made: Sequence[Served]) -> Cost:
        """What a group takes one by one and as planned."""
        roots = [self._problem.roots[i] for name in names for i in self._readings[name]]
        readers = [*roots, *(self._problem.nodes[served.node].reader for served in made)]
        shared = sum(reader.best(self.choice.made).cost for reader in readers)
        separate = sum(root.alone for root in roots)
        return Cost(self._nanoseconds * separate, self._nanoseconds * shared, NANOSECONDS)

    @cached_property
    def _names(self) -> dict[int, str]:
        return {served.node: self.listed.id(served) for served in self.choice.served}

    def _document(self, readings: Sequence[int]) -> dict[str, Any]:
        parts = [self.choice.trees.document(number, self._names) for number in readings]
        return parts[0] if len(parts) == 1 else {"operator": "OR", "parts": parts}

    def _together(self, names: Sequence[str]) -> list[tuple[str, ...]]:
        """The queries that share something, in their order."""
        parent = {name: name for name in names}

        def root(name: str) -> str:
            while parent[name] != name:
                parent[name] = parent[parent[name]]
                name = parent[name]
            return name

        for served in self.choice.served:
            first, *others = self.listed.queries(served)
            for other in others:
                parent[root(other)] = root(first)
        found: dict[str, list[str]] = {}
        for name in names:
            found.setdefault(root(name), []).append(name)
        return list(map(tuple, found.values()))

    # --- why -----------------------------------------------------------------------------------

    def _why(
        self, queries: Sequence[Query], made: Sequence[Served], cost: Cost, provisional: bool
    ) -> str:
        together = len(queries) > 1
        said = ["construct their matches together" if together else "constructs its matches"]
        counted = [q.name for q in queries if isinstance(q.output, Aggregation)]
        if counted and together:
            said.append(f"{', '.join(counted)} to count them: {self._reasons[counted[0]]}")
        elif counted:
            said[0] += f" to count them: {self._reasons[counted[0]]}"
        if made:
            saved = 100 * (1 - cost.shared / cost.separate) if cost.separate else 0.0
            said += [*self._nodes(made), f"saves {saved:.0f} % of what the trees touch one by one"]
        elif self._wanted.sharing:
            said.append(self._unshared(queries[0]))
        if provisional:
            said.append("chosen again on the events at hand, as rates or keys are only assumed")
        return "; ".join(said)

    def _nodes(self, made: Sequence[Served]) -> list[str]:
        ranked = sorted(made, key=lambda s: (-benefit(self._problem, s), s.node))
        texts = []
        for served in ranked[:NAMED]:
            node, many = self._problem.nodes[served.node], len(served.places)
            steps = ", ".join(node.steps)
            texts.append(
                f"{CALLED[self.listed.kind(served)]}: SEQ({steps}) made once for {many:,} readers"
            )
        if len(ranked) > NAMED:
            texts.append(f"and {len(ranked) - NAMED:,} more")
        return texts

    def _unshared(self, query: Query) -> str:
        if any(self._problem.roots[i].nodes for i in self._readings[query.name]):
            return "making once what it has in common with others does not pay"
        return "it has no piece in common with others of its key and window"
