"""The part of a plan with the queries whose matches are constructed: groups, candidates,
obstacles.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import fsum
from typing import Any

from optimizer.cost.unit_costs import COMPILED
from optimizer.explain.text import some
from optimizer.ir.query import (
    Aggregation,
    BoundWorkload,
    Query,
    Reading,
)
from optimizer.plan.compile_tree import reading_trees
from optimizer.plan.groups import Cost, DeferredGroup, TreeGroup
from optimizer.plan.operators import Graph
from optimizer.plan.plan import CONSTRUCTING, Operator, PlanCandidate
from optimizer.plan.tree_operators import add_reading
from optimizer.trees import Passed, Tree, best_tree, labels_of
from optimizer.trees.propagation import EventPassing, best_passing
from optimizer.trees.tree import from_document, to_document
from sharing.counting.candidates import CandidateKind
from sharing.counting.grouping import trusted
from sharing.matching.build_nodes import problem_of
from sharing.matching.choice import NodeChoice, choose_in, readings_of
from sharing.matching.nodes import (
    SHARED,
    At,
    NodePlacement,
    NodePosition,
    NodeProblem,
    conflicts,
    everywhere,
)
from sharing.request import NANOSECONDS_UNIT, PlanPart, PlanRequest

LISTED_CONFLICTS = 1000  # of one candidate


@dataclass(frozen=True, eq=False)
class CandidateList:
    """The candidates of a choice; `unit` is what a benefit of one is in the plan's unit.

    The benefit of a node that is made is what the plan costs less with it than with those before
    it alone: together they are what all of them save. That of any other is what the plan would
    cost less if it were made too, which is below zero.
    """

    choice: NodeChoice
    unit: float

    def id(self, served: NodePlacement) -> str:
        """A node's name for the places that it serves."""
        problem = self.choice.problem
        return problem.id(problem.nodes[served.node], self._places(served))

    def kind(self, served: NodePlacement) -> CandidateKind:
        """What a node is for the places that it serves."""
        return self.choice.problem.kind(self._places(served))

    def _places(self, served: NodePlacement) -> list[NodePosition]:
        places = self.choice.problem.nodes[served.node].places
        return [p for p in places if At(p.reading, p.piece.first) in served.places]

    def queries(self, served: NodePlacement) -> tuple[str, ...]:
        """The queries that a node serves, in order."""
        readings = sorted({place.reading for place in served.places})
        return tuple(dict.fromkeys(self.choice.problem.readings[i].query.name for i in readings))

    @cached_property
    def made(self) -> list[NodePlacement]:
        """The nodes that are made, the most useful first."""
        problem, every = self.choice.problem, self.choice.made
        worth = {
            s.node: -problem.saved(every, every - {s.node}, [s.node])[0] for s in self.choice.served
        }
        return sorted(self.choice.served, key=lambda s: (-worth[s.node], s.node))

    @cached_property
    def entries(self) -> list[NodePlacement]:
        """The nodes that are made, for those that they serve, and each other for all that have it.

        Of the latter, those of one query's readings are left out.
        """
        others = [s for s in everywhere(self.choice.problem) if s.node not in self.choice.made]
        return [*self.made, *(served for served in others if len(self.queries(served)) > 1)]

    @cached_property
    def chosen(self) -> tuple[str, ...]:
        """The ids of those that are made."""
        return tuple(map(self.id, self.made))

    @cached_property
    def candidates(self) -> tuple[PlanCandidate, ...]:
        """As a plan lists them."""
        ids = list(map(self.id, self.entries))
        found = []
        for i, served in enumerate(self.entries):
            node = self.choice.problem.nodes[served.node]
            near = self._near[i]
            found.append(
                PlanCandidate(
                    id=ids[i],
                    pattern=node.steps,
                    queries=self.queries(served),
                    kind=self.kind(served),
                    benefit=self.unit * self.worth[i],
                    conflicts=tuple(ids[j] for j in near[:LISTED_CONFLICTS]),
                    conflicting=len(near),
                    why=self._why(i),
                )
            )
        return tuple(found)

    @cached_property
    def worth(self) -> list[float]:
        """What each entry is worth, in events touched in a second."""
        problem, before = self.choice.problem, frozenset[int]()
        found = []
        for served in self.made:
            after = before | {served.node}
            found.append(problem.saved(before, after, [served.node])[0])
            before = after
        made, others = self.choice.made, self.entries[len(self.made) :]
        found += [problem.saved(made, made | {s.node}, [s.node])[0] for s in others]
        least = NOTHING * problem.separate
        return [0.0 if abs(worth) <= least else worth for worth in found]

    @cached_property
    def _near(self) -> list[list[int]]:
        near: list[list[int]] = [[] for _ in self.entries]
        for one, other in conflicts(self.choice.problem, self.entries):
            near[one].append(other)
            near[other].append(one)
        return near

    @cached_property
    def _around(self) -> dict[int, int]:
        """For each node that is a piece of one that is made, the most useful such one."""
        found: dict[int, int] = {}
        for i, served in reversed(list(enumerate(self.made))):
            outer = self.choice.problem.nodes[served.node]
            found |= dict.fromkeys(outer.reader.nodes, i)
        return found

    def _why(self, i: int) -> str:
        served, problem = self.entries[i], self.choice.problem
        if i < len(self.made):
            if len(self.queries(served)) < 2:
                return "chosen: the tree of its query costs less with it"
            mine = set(self.queries(served))
            others = [
                n for n in problem.queries(problem.nodes[served.node].places) if n not in mine
            ]
            rest = f"; {', '.join(others)} cost less without it" if others else ""
            return f"chosen{rest}"
        rivals = [j for j in self._near[i] if j < len(self.made)]
        if rivals:
            return f"not shared: overlaps {self._named(min(rivals))}, which is chosen"
        if served.node in self._around:
            return (
                "not made by itself: it is part of "
                f"{self._named(self._around[served.node])}, which is chosen"
            )
        return "not shared: the trees cost less without it"

    def _named(self, i: int) -> str:
        steps = ", ".join(self.choice.problem.nodes[self.entries[i].node].steps)
        return f"{self.id(self.entries[i])} ({steps})"


CALLED: Mapping[CandidateKind, str] = {
    "prefix": "prefix cache",
    "suffix": "suffix cluster",
    "substring": "shared middle",
    "bitmark": "bit-marking",
}
NAMED = 4  # nodes in a reason
MAX_ROUNDS = 8  # in which nodes whose queries lose are given up; then all others are
NOTHING = 1e-9  # sums of doubles in another order differ in their last digits


def tree_problems(queries: Sequence[Query], request: PlanRequest) -> list[NodeProblem]:
    """What queries all of which run as trees have in common, by key."""
    nodes = request.sharing and request.shape == "any"
    return [
        problem_of(readings, request.statistics, nodes and not request.is_late)
        for readings in readings_of(queries).values()
    ]


def detected(
    problems: Sequence[NodeProblem],
    workload: BoundWorkload,
    request: PlanRequest,
    reasons: Mapping[str, str | None],
) -> Iterator[PlanPart]:
    """The groups and trees of each problem's queries; `reasons` are why these are not counted."""
    before = {}
    if request.earlier is not None:
        kept = set(request.earlier.chosen)
        before = {c.pattern: c.queries for c in request.earlier.candidates if c.id in kept}
    for problem in problems:
        if request.is_late:
            choice = NodeChoice(problem, frozenset(), 0.0)
        else:
            choice = choose_in(problem, request.solver, request.limited, before)
        planned = _Planned(choice, workload, request, reasons)
        for round_ in range(1, MAX_ROUNDS + 1):
            fewer = planned.without_losses()
            if fewer is None:
                break
            if round_ == MAX_ROUNDS or request.is_late:
                fewer = replace(fewer, made=frozenset())
            planned = _Planned(fewer, workload, request, reasons)
        yield planned.part()


@dataclass(frozen=True)
class _Compiled:
    """The trees of some queries as operators: which of them each query has, and which nodes are.

    `nodes` are the operators of each candidate's subtrees, by its id.
    """

    operators: Mapping[str, Operator]
    of: Mapping[str, frozenset[str]]
    nodes: Mapping[str, frozenset[str]]

    def cost(self, names: Iterable[str]) -> float:
        """What the operators of these queries take, each once."""
        every = frozenset[str]().union(*(self.of[name] for name in names))
        return fsum(self.operators[number].cost for number in sorted(every))

    @cached_property
    def users(self) -> dict[str, tuple[str, ...]]:
        """The queries of each operator."""
        found: dict[str, list[str]] = {}
        for name, own in self.of.items():
            for number in own:
                found.setdefault(number, []).append(name)
        return {number: tuple(names) for number, names in found.items()}

    def groups(self) -> list[tuple[str, ...]]:
        """Queries that have operators in common, directly or through others, in their order."""
        parent = {name: name for name in self.of}

        def root(name: str) -> str:
            while parent[name] != name:
                parent[name] = parent[parent[name]]
                name = parent[name]
            return name

        for first, *others in self.users.values():
            for other in others:
                parent[root(other)] = root(first)
        found: dict[str, list[str]] = {}
        for name in self.of:
            found.setdefault(root(name), []).append(name)
        return list(map(tuple, found.values()))

    def unplanned(self) -> list[Operator]:
        """The largest operators that several queries have and no chosen node covers for them."""
        shared = {n for n, names in self.users.items() if len(names) > 1}
        covered = {
            number
            for below in self.nodes.values()
            for served in [self._served(below)]
            for number in below
            if served.issuperset(self.users[number])
        }
        inner = {
            source
            for number in shared
            for source in self.operators[number].inputs
            if source in shared and set(self.users[source]) <= set(self.users[number])
        }
        # Readers that ask for the same take their rows together.
        taken = {number for number in shared if "reader" in self.operators[number].detail}
        return [o for n, o in self.operators.items() if n in shared - covered - inner - taken]

    def _served(self, below: frozenset[str]) -> set[str]:
        """The queries that have all of these operators."""
        rarest = min(below, key=lambda number: (len(self.users[number]), number))
        return {name for name in self.users[rarest] if below <= self.of[name]}


class _Planned:
    """The queries of one key."""

    def __init__(
        self,
        choice: NodeChoice,
        workload: BoundWorkload,
        request: PlanRequest,
        reasons: Mapping[str, str | None],
    ) -> None:
        self.choice, self._problem = choice, choice.problem
        self._workload, self._request, self._reasons = workload, request, reasons
        touched = request.unit_costs.each.joined
        self._nanoseconds = touched
        self.listed = CandidateList(choice, self._nanoseconds)
        self._queries = {r.query.name: r.query for r in self._problem.readings}

    def part(self) -> PlanPart:
        """All of it."""
        groups = list(self._groups())
        candidates, chosen = self._candidates(groups)
        separate = fsum(self._alone.values())
        shared = sum(group.cost.shared for group in groups if group.cost is not None)
        # Trees may take less than the search for nodes knows of, by what is passed down.
        passed = max(0.0, self._nanoseconds * self._problem.separate - separate)
        least = max(max(self._alone.values()), self._nanoseconds * self.choice.bound - passed)
        least = min(least, shared)
        exact = all(root.tree(()).exact for root in self._problem.roots)
        proven = exact and shared - least <= NOTHING * max(shared, separate)
        return PlanPart(tuple(groups), candidates, chosen, separate, least, proven)

    def without_losses(self) -> NodeChoice | None:
        """The choice without nodes whose queries would take less alone; None where none would."""
        lost: set[int] = set()
        for names in self._compiled.groups():
            alone = fsum(self._alone[name] for name in names)
            if self._compiled.cost(names) > alone * (1 + NOTHING):
                lost |= {s.node for s in self.choice.served if self.listed.queries(s)[0] in names}
        if not lost:
            return None
        made = self._problem.used(self.choice.made - lost)
        return NodeChoice(self._problem, made, self.choice.bound)

    @cached_property
    def _compiled(self) -> _Compiled:
        return self._compile(self._documents, self._request.sharing)

    @cached_property
    def _alone(self) -> dict[str, float]:
        """What each query takes by itself: with its own tree, where it reads no node."""
        readers = {
            name: _joined([self._tree_alone(number) for number in numbers])
            for name, numbers in self._readings.items()
            if any(self._taken(number) for number in numbers)
        }
        compiled = self._compile(readers, sharing=False)
        return {
            name: (compiled if name in readers else self._compiled).cost([name])
            for name in self._readings
        }

    def _compile(self, documents: Mapping[str, Mapping[str, Any]], sharing: bool) -> _Compiled:
        graph = Graph(self._workload, self._request.statistics, self._request.unit_costs, sharing)
        of: dict[str, frozenset[str]] = {}
        nodes: dict[str, frozenset[str]] = {}
        for name, document in documents.items():
            query = self._queries[name]
            own: set[str] = set()
            marked = {from_document(part): mark for part, mark in _marked(document)}
            for reading in reading_trees(query, from_document(document)):
                ids = add_reading(graph.of(query), query, reading)
                own |= set(ids.values())
                for tree, operator in reading.compiled.nodes.items():
                    if tree in marked and operator in ids:
                        below = _below(graph, ids[operator])
                        nodes[marked[tree]] = nodes.get(marked[tree], below) | below
            of[name] = frozenset(n for n in own if graph.operators[n].kind in CONSTRUCTING)
        return _Compiled(graph.operators, of, nodes)

    # --- trees ---------------------------------------------------------------------------------

    @cached_property
    def _readings(self) -> dict[str, list[int]]:
        """The numbers of each query's readings."""
        found: dict[str, list[int]] = {}
        for number, reading in enumerate(self._problem.readings):
            found.setdefault(reading.query.name, []).append(number)
        return found

    @cached_property
    def _documents(self) -> dict[str, dict[str, Any]]:
        """The trees of each query, those of its readings together."""
        marks = {served.node: self.listed.id(served) for served in self.choice.served}
        return {
            name: _joined([self._tree(number, marks) for number in numbers])
            for name, numbers in self._readings.items()
        }

    def _taken(self, number: int) -> bool:
        """Does the tree of a reading read a node?"""
        return bool(self._problem.roots[number].best(self.choice.made).taken)

    def _tree(self, number: int, marks: Mapping[int, str]) -> dict[str, Any]:
        """The tree of a reading, with what is passed down to it."""
        reading = self._problem.readings[number]
        document = self.choice.trees.document(number, marks)
        if self._taken(number) and self._request.propagation == "auto":
            return document  # each of its readers would leave other events
        other = self._other_tree(reading, from_document(document))
        return document if other is None else to_document(other, labels_of(reading.asked))

    def _tree_alone(self, number: int) -> dict[str, Any]:
        """The tree that a reading has where nothing is shared."""
        reading = self._problem.readings[number]
        tree = self._problem.roots[number].tree(()).tree
        return to_document(self._other_tree(reading, tree) or tree, labels_of(reading.asked))

    def _other_tree(self, reading: Reading, tree: Tree) -> Tree | None:
        """A tree in the place of this one, which the search for nodes does not know of."""
        request, asked = self._request, reading.asked
        if request.shape != "any" and request.shape != "stepwise":
            shaped = best_tree(asked, request.statistics, model=COMPILED, shape=request.shape).tree
            return self._forced(asked, shaped) or shaped
        if request.propagation != "auto":
            return self._forced(asked, tree)
        return best_passing(asked, tree, request.statistics, worth=0.0)

    def _forced(self, asked: Query, tree: Tree) -> Tree | None:
        way = self._request.propagation
        if way == "auto" or way == "push" or EventPassing(asked, way).reach is None:
            return None
        return Passed(tree, way)

    # --- groups and candidates -----------------------------------------------------------------

    def _groups(self) -> Iterator[TreeGroup | DeferredGroup]:
        for names in self._compiled.groups():
            members = [self._queries[name] for name in names]
            alone = fsum(self._alone[name] for name in names)
            cost = Cost(alone, self._compiled.cost(names), NANOSECONDS_UNIT)
            deferred = self._is_deferred(members)
            documents = {name: self._documents[name] for name in names}
            why = self._why(members, cost, deferred)
            kind = DeferredGroup if deferred else TreeGroup
            yield kind(names, why, documents, cost, self._request.device)

    def _is_deferred(self, queries: Sequence[Query]) -> bool:
        """Are its trees chosen on the events, as what they rest on is only assumed?"""
        request = self._request
        if request.shape != "any" or request.propagation != "auto":
            return False  # they are asked for
        return not trusted(queries, request.statistics)

    def _candidates(
        self, groups: Sequence[TreeGroup | DeferredGroup]
    ) -> tuple[tuple[PlanCandidate, ...], tuple[str, ...]]:
        """All candidates, with equal subtrees; the chosen ones add up to what each group saves."""
        every = list(self.listed.candidates)
        chosen = set(self.listed.chosen)
        more: list[PlanCandidate] = []
        for group in groups:
            inside = set(group.queries)
            own = [i for i, c in enumerate(every) if c.id in chosen and inside >= set(c.queries)]
            assert group.cost is not None
            saved = group.cost.separate - group.cost.shared
            rest = saved - sum(every[i].benefit for i in own)
            equal = [o for o in self._unplanned if self._compiled.users[o.id][0] in inside]
            if equal:
                more += self._equal_subtrees(equal, rest)
            elif own:  # what is passed down to queries alone is lost with the first node
                first = every[own[0]]
                every[own[0]] = replace(first, benefit=first.benefit + rest)
        found = (*every, *more)
        return found, tuple(c.id for c in found if c.id in chosen or c in more)

    @cached_property
    def _unplanned(self) -> list[Operator]:
        return self._compiled.unplanned()

    def _equal_subtrees(self, operators: Sequence[Operator], saved: float) -> list[PlanCandidate]:
        """Subtrees that several trees have without being chosen for it, and what they save."""
        weights = []
        for operator in operators:
            users = self._compiled.users[operator.id]
            below = _below_in(self._compiled.operators, operator.id)
            cost = sum(self._compiled.operators[n].cost for n in below)
            weights.append((len(users) - 1) * cost)
        total = sum(weights)
        found = []
        for operator, weight in zip(operators, weights, strict=True):
            users = self._compiled.users[operator.id]
            share = weight / total if total else 1 / len(operators)
            content = json.dumps([operator.id, users]).encode()
            found.append(
                PlanCandidate(
                    "share-" + hashlib.sha256(content).hexdigest()[:12],
                    (str(operator.detail["pattern"]),),
                    users,
                    "subtree",
                    saved * share,
                    why="chosen: the best trees of its queries have it in common anyway",
                )
            )
        return found

    # --- why -----------------------------------------------------------------------------------

    def _why(self, queries: Sequence[Query], cost: Cost, deferred: bool) -> str:
        several = len(queries) > 1
        said = ["construct their matches together" if several else "constructs its matches"]
        counted = [q.name for q in queries if isinstance(q.output, Aggregation)]
        if counted and several:
            said.append(f"{', '.join(counted)} to count them: {self._reasons[counted[0]]}")
        elif counted:
            said[0] += f" to count them: {self._reasons[counted[0]]}"
        if several:
            names = {query.name for query in queries}
            said += self._shared(names)
            saved = 100 * (1 - cost.shared / cost.separate) if cost.separate else 0.0
            said.append(f"saves {saved:.0f} % of what the trees take one by one")
        elif self._request.sharing:
            said.append(self._unshared(queries[0]))
        if deferred:
            said.append("chosen again on the events at hand, as rates or keys are only assumed")
        return "; ".join(said)

    def _shared(self, names: set[str]) -> list[str]:
        texts = []
        for served in self.listed.made:
            users = self.listed.queries(served)
            if names.issuperset(users) and len(users) > 1:
                texts.append(self._node(served, users))
        for operator in self._unplanned:
            users = self._compiled.users[operator.id]
            if names.issuperset(users):
                texts.append(f"equal subtrees: {operator.detail['pattern']} once for {some(users)}")
        more = [f"and {len(texts) - NAMED:,} more"] if len(texts) > NAMED else []
        return [*texts[:NAMED], *more]

    def _node(self, served: NodePlacement, users: Sequence[str]) -> str:
        node = self._problem.nodes[served.node]
        steps = ", ".join(node.steps).replace("& ", "")
        pattern = type(node.piece.pattern).__name__.upper()
        return f"{CALLED[self.listed.kind(served)]}: {pattern}({steps}) made once for {some(users)}"

    def _unshared(self, query: Query) -> str:
        if any(self._problem.roots[i].nodes for i in self._readings[query.name]):
            return "making once what it has in common with others does not pay"
        return "no other query of its key joins anything that it joins"


def _joined(parts: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The trees of a query's readings as one."""
    return parts[0] if len(parts) == 1 else {"operator": "OR", "parts": list(parts)}


def _marked(document: Any) -> Iterator[tuple[Mapping[str, Any], str]]:
    """The subtrees that are nodes, with their candidates' ids."""
    match document:
        case [*parts]:
            for part in parts:
                yield from _marked(part)
        case {"parts": [*parts]}:
            if SHARED in document and isinstance(document[SHARED], str):
                yield document, document[SHARED]
            yield from _marked(parts)
        case {}:
            for value in document.values():
                yield from _marked(value)


def _below(graph: Graph, number: str) -> frozenset[str]:
    return frozenset(_below_in(graph.operators, number))


def _below_in(operators: Mapping[str, Operator], number: str) -> set[str]:
    """An operator and all below it that construct matches."""
    found: set[str] = set()
    open_ = [number]
    while open_:
        at = open_.pop()
        if at not in found and operators[at].kind in CONSTRUCTING:
            found.add(at)
            open_ += operators[at].inputs
    return found
