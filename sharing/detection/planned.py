"""What a plan says of queries that construct their matches as trees."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

from optimizer.cost.trees import COMPILED
from optimizer.ir.query import Aggregation, Query
from optimizer.physical.plan import Cost, DeferredGroup, TreeGroup
from optimizer.trees import Passed, Tree, best_tree, labels_of
from optimizer.trees.document import from_document, to_document
from optimizer.trees.pieces import Reading
from optimizer.trees.propagation import Passing, best_passing, estimate_tree
from sharing.assign import trusted
from sharing.candidates import Kind
from sharing.detection.choose import Choice, benefit, choose, readings_of
from sharing.detection.conflicts import Served
from sharing.detection.listed import Listed
from sharing.detection.obstacles import obstacles
from sharing.part import NANOSECONDS, Part, PlanRequest, together

CALLED: Mapping[Kind, str] = {
    "prefix": "prefix cache",
    "suffix": "suffix cluster",
    "substring": "shared middle",
    "bitmark": "bit-marking",
}
NAMED = 4  # nodes in a reason


def detected(
    queries: Sequence[Query], request: PlanRequest, reasons: Mapping[str, str | None]
) -> Part:
    """Plan queries all of which run as trees; `reasons` say why aggregates are not counted."""
    settings = readings_of(queries)
    before = {}
    if request.earlier is not None:
        kept = set(request.earlier.chosen)
        before = {c.pattern: c.queries for c in request.earlier.candidates if c.id in kept}
    parts = []
    nodes = request.sharing and request.shape == "bushy"
    for readings in settings.values():
        choice = choose(
            readings, request.statistics, request.solver, request.options, nodes, before
        )
        parts.append(_Planned(choice, request, reasons).part())
    found = together(parts)
    return (
        replace(found, obstacles=tuple(map(str, obstacles(settings)))) if request.sharing else found
    )


class _Planned:
    """The queries of one key and window."""

    def __init__(
        self, choice: Choice, request: PlanRequest, reasons: Mapping[str, str | None]
    ) -> None:
        self.choice, self._problem = choice, choice.problem
        self._request, self._reasons = request, reasons
        touched = request.unit_costs.each.joined
        self._nanoseconds = touched / self._problem.roots[0].tree(()).seconds
        self.listed = Listed(choice, 1.0 if request.model == "aseq" else self._nanoseconds)

    def part(self) -> Part:
        """All of it, in the model's unit."""
        unit, choice = self.listed.unit, self.choice
        passed = sum(self._spared.values())
        return Part(
            tuple(self.groups()),
            self.listed.candidates,
            self.listed.chosen,
            (),
            unit * (choice.problem.separate - passed),
            unit * (choice.cost - passed),
            unit * choice.saved,
            unit * choice.most,
            choice.proven,
        )

    def groups(self) -> Iterator[TreeGroup | DeferredGroup]:
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
            deferred = self._is_deferred(members)
            why = self._why(members, made, cost, deferred)
            documents = {name: self._documents[name] for name in names}
            kind = DeferredGroup if deferred else TreeGroup
            yield kind(names, why, documents, cost, self._request.device)

    def _is_deferred(self, queries: Sequence[Query]) -> bool:
        """Are its trees chosen on the events, as what they rest on is only assumed?"""
        request = self._request
        if request.shape != "bushy" or request.propagation != "auto":
            return False  # they are asked for
        return not trusted(queries, request.statistics)

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
        passed = sum(self._spared[i] for name in names for i in self._readings[name])
        return Cost(
            self._nanoseconds * (separate - passed),
            self._nanoseconds * (shared - passed),
            NANOSECONDS,
        )

    @cached_property
    def _names(self) -> dict[int, str]:
        return {served.node: self.listed.id(served) for served in self.choice.served}

    @cached_property
    def _documents(self) -> dict[str, dict[str, Any]]:
        """The trees of each query, those of its readings together."""
        found = {}
        for name, numbers in self._readings.items():
            parts = [self._trees[number] for number in numbers]
            found[name] = parts[0] if len(parts) == 1 else {"operator": "OR", "parts": parts}
        return found

    @cached_property
    def _trees(self) -> list[dict[str, Any]]:
        """The tree of each reading, by number, with what is passed down to it."""
        found = []
        for number, reading in enumerate(self._problem.readings):
            document = self.choice.trees.document(number, self._names)
            if (other := self._other_tree(number, reading, document)) is not None:
                document = to_document(other, labels_of(reading.asked))
            found.append(document)
        return found

    @cached_property
    def _spared(self) -> dict[int, float]:
        """What the tree of each reading costs less because of what is passed down to it."""
        found = {}
        for number, document in enumerate(self._trees):
            found[number] = 0.0
            if document.get("operator") == "PASSED":
                reading = self._problem.readings[number]
                estimate = estimate_tree(
                    reading.asked, from_document(document), self._request.statistics
                )
                found[number] = self._problem.roots[number].alone - sum(estimate.costs)
        return found

    def _other_tree(
        self, number: int, reading: Reading, document: Mapping[str, Any]
    ) -> Tree | None:
        """A tree in the place of the one that was chosen.

        By itself only for readings that share nothing: each reader would leave other events.
        """
        request, asked = self._request, reading.asked
        if request.shape != "bushy" and request.shape != "stepwise":
            shaped = best_tree(asked, request.statistics, model=COMPILED, shape=request.shape).tree
            return self._forced(asked, shaped) or shaped
        if request.propagation != "auto":
            return self._forced(asked, from_document(document))
        if self._problem.roots[number].best(self.choice.made).taken:
            return None
        return best_passing(asked, from_document(document), request.statistics, worth=0.0)

    def _forced(self, asked: Query, tree: Tree) -> Tree | None:
        way = self._request.propagation
        if way == "auto" or way == "push" or Passing(asked, way).reach is None:
            return None
        return Passed(tree, way)

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
        elif self._request.sharing:
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
