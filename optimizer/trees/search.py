"""The cheapest tree of a query, by dynamic programming over subsets and sequences; which queries
have one.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, TypeAlias

from optimizer.cost import unit_costs as cost
from optimizer.cost.unit_costs import ZSTREAM, JoinCosts
from optimizer.ir.pattern import (
    Event,
    GroupWithout,
    Neg,
    Pattern,
    Position,
    Proj,
    Symbol,
    alternatives,
    events,
    places,
    print_pattern,
    walk,
)
from optimizer.ir.pattern import events as components
from optimizer.ir.query import Aggregation, Query, is_about_situations
from optimizer.statistics import KeyStatistics, Statistics
from optimizer.trees.build_problem import compile_query
from optimizer.trees.cost_walk import CostStep, walk_cost
from optimizer.trees.narrowing import walk_query
from optimizer.trees.negation import depends, negated_choices
from optimizer.trees.problem import (
    CLOSE,
    NO_TREE,
    Conjunction,
    Disjunction,
    Edge,
    GivenFragment,
    GivenItem,
    GroupLeaf,
    PatternPart,
    SequenceItem,
    Shape,
    Single,
    SolvedTree,
    TreeProblem,
    fragments_of,
)
from optimizer.trees.sequence_search import MAX_EXACT_ITEMS, SequenceTables
from optimizer.trees.tree import (
    AndJoin,
    KSeq,
    Latest,
    Leaf,
    NegTop,
    NSeq,
    OrMerge,
    Shared,
    Tree,
    TreeError,
    Walk,
    free_groups,
    leaf_groups,
    renamed,
)
from optimizer.trees.walk_search import WalkOrders, WalkPart, is_walked, least_parts
from workloads import expressions as ex
from workloads.errors import TooLargeError
from workloads.syntax import All, One

MAX_SUBSETS = 9  # parts that are tried in every order: 3^9 splits; more are merged greedily
MAX_LEAF_CHOICES = 4  # groups each of which is tried as the only leaf
OWN = "its own"  # what a piece is called that is made for one tree
MAX_MERGED = 32  # parts of which any two may be merged next; more are merged in so many groups


class Subsets:
    """The best way to put some parts of an AND together, for every subset of them."""

    def __init__(
        self, problem: TreeProblem, part: Conjunction, items: Sequence[SolvedTree], shape: Shape
    ) -> None:
        self.problem, self.part, self.items, self.shape = problem, part, items, shape
        self.predicates = [
            (sum(1 << i for i, item in enumerate(part.items) if item.aliases & p.aliases), p)
            for p in part.predicates
        ]
        self._known: dict[int, tuple[float, int]] = {}

    def solve(self) -> SolvedTree:
        n = len(self.items)
        leaves = [(1 << i, item) for i, item in enumerate(self.items)]
        exact = all(item.exact for item in self.items)
        if n > MAX_MERGED:
            return self._in_groups(leaves)._replace(exact=False)
        if self.shape == "left":
            return functools.reduce(self._merge, leaves)[1]._replace(exact=exact)
        if self.shape == "right":
            folded = functools.reduce(lambda found, leaf: self._merge(leaf, found), leaves[::-1])
            return folded[1]._replace(exact=exact)
        if n > MAX_SUBSETS:
            return self._greedy(leaves)[1]._replace(exact=False)
        return self._every(n)._replace(exact=exact)

    def _every(self, n: int) -> SolvedTree:
        best: list[SolvedTree] = [self.items[0]] * (1 << n)
        walks = self._walks()
        for mask in range(1, 1 << n):
            lowest = mask & -mask
            if mask == lowest:
                best[mask] = self.items[mask.bit_length() - 1]
                continue
            total, chosen = math.inf, 0
            if walks is not None and mask.bit_count() >= least_parts(self.shape):
                walk = walks.best_of(mask)
                total = walk[0] + sum(
                    item.cost for i, item in enumerate(self.items) if mask >> i & 1
                )
                best[mask] = SolvedTree(
                    Walk(tuple(self.items[i].tree for i in walk[1]), ordered=False), total
                )
                if self.shape == "walk":
                    continue
            rest = mask ^ lowest
            some = (rest - 1) & rest  # what goes with the lowest part; all but the whole
            while True:
                left = lowest | some
                own = self._join(left, mask ^ left) + best[left].cost + best[mask ^ left].cost
                if total == math.inf or (
                    own * CLOSE > total if self.shape == "worst" else own < total * CLOSE
                ):
                    total, chosen = own, left
                if not some:
                    break
                some = (some - 1) & rest
            if chosen:
                both = best[chosen].tree, best[mask ^ chosen].tree
                best[mask] = SolvedTree(AndJoin(*both), total)
        return best[-1]

    def _walks(self) -> WalkOrders | None:
        """The orders of walks; none where a part is shared, or a negation decides in it."""
        items = self.part.items
        shared = any(isinstance(item, GivenItem) for item in items)
        if shared or not is_walked(self.problem.model, self.shape):
            return None
        parts = [WalkPart(item.rows, item.rows, item.events, item.aliases) for item in items]
        return WalkOrders(self.problem, parts, self.part.predicates, ordered=False)

    def _in_groups(self, leaves: list[tuple[int, SolvedTree]]) -> SolvedTree:
        """Neighbours are merged first, and then what they made, which keeps the tree shallow."""
        while len(leaves) > 1:
            leaves = [
                self._greedy(leaves[at : at + MAX_MERGED])
                for at in range(0, len(leaves), MAX_MERGED)
            ]
        return leaves[0][1]

    def _greedy(self, leaves: list[tuple[int, SolvedTree]]) -> tuple[int, SolvedTree]:
        """Always the cheapest pair next, or for the worst tree the dearest."""
        sign = -1 if self.shape == "worst" else 1
        costs: dict[tuple[int, int], float] = {}  # by the parts of both

        def join(pair: tuple[int, int]) -> float:
            both = leaves[pair[0]][0], leaves[pair[1]][0]
            if both not in costs:
                costs[both] = sign * self._join(*both)
            return costs[both]

        while len(leaves) > 1:
            i, j = min(itertools.combinations(range(len(leaves)), 2), key=join)
            merged = self._merge(leaves[i], leaves[j])
            leaves = [leaf for k, leaf in enumerate(leaves) if k not in (i, j)] + [merged]
        return leaves[0]

    def _merge(
        self, left: tuple[int, SolvedTree], right: tuple[int, SolvedTree]
    ) -> tuple[int, SolvedTree]:
        total = left[1].cost + right[1].cost + self._join(left[0], right[0])
        return left[0] | right[0], SolvedTree(AndJoin(left[1].tree, right[1].tree), total)

    def _join(self, left: int, right: int) -> float:
        problem, model = self.problem, self.problem.model
        (left_rows, left_events), (right_rows, right_events) = self._rows(left), self._rows(right)
        pairs = left_rows * right_rows * problem.same_key(left_events, right_events)
        pairs *= cost.looked_at(model, left_events, right_events, ordered=False)
        count, equal = 0, None
        for mask, predicate in self.predicates:
            if mask & ~(left | right) or not mask & ~left or not mask & ~right:
                continue
            if predicate.equality and model.equality == "hash":
                equal = predicate.selectivity * (1.0 if equal is None else equal)
            else:
                count += 1
        made, _ = self._rows(left | right)
        return cost.join(model, pairs, left_rows + right_rows, count, equal, made)

    def _rows(self, mask: int) -> tuple[float, int]:
        """The rows and events of a subset of the parts."""
        if mask not in self._known:
            rows, events = 1.0, 0
            for i, item in enumerate(self.part.items):
                if mask >> i & 1:
                    rows *= item.rows * self.problem.same_key(events, item.events)
                    rows *= cost.meeting(self.problem.model, events, item.events, ordered=False)
                    events += item.events
            for needed, predicate in self.predicates:
                if not needed & ~mask:
                    rows *= predicate.selectivity
            self._known[mask] = rows, events
        return self._known[mask]


def solve(problem: TreeProblem, shape: Shape = "any") -> SolvedTree:
    """The cheapest tree of a shape, or the worst of all; negations that need all come last."""
    if problem.one_pass:
        return _latest(problem)
    tree, total, exact = _part(problem, problem.root, shape)
    rows = problem.root.rows
    in_turn = sorted(problem.top, key=lambda negation: negation.survival)
    for number, negation in enumerate(in_turn, 1):
        after = problem.rows_after(in_turn[:number])
        inner = solve(negation.problem)
        total += cost.filtered(problem.model, rows, negation.predicates, after) + inner.cost
        tree, rows = NegTop(tree, inner.tree), after
    return SolvedTree(tree, total, exact)


def _latest(problem: TreeProblem) -> SolvedTree:
    """The one pass over the events of a negated sequence."""
    chain, model = problem.root, problem.model
    assert isinstance(chain, SequenceItem)
    parts: list[Tree] = []
    total, exact = 0.0, True
    for number, item in enumerate(chain.items):
        assert isinstance(item, Single)
        part: Tree = Leaf(item.alias)
        for negation in chain.gaps[number - 1].negations if number else ():
            inner = solve(negation.problem)
            total += inner.cost + cost.pushed(model, item.rows, negation.predicates)
            part, exact = NSeq(part, inner.tree, "left"), exact and inner.exact
        parts.append(part)
    looked_at = sum(item.rows for item in chain.items)
    total += cost.latest(model, looked_at, chain.items[-1].rows)
    return SolvedTree(Latest(tuple(parts)), total, exact)


def _part(problem: TreeProblem, part: PatternPart | Edge, shape: Shape) -> SolvedTree:
    match part:
        case Edge():
            return NO_TREE
        case Single(alias):
            return SolvedTree(Leaf(alias), 0.0)
        case GroupLeaf(closure, cost=own):
            return SolvedTree(KSeq(None, (closure,), None), own)
        case GivenItem(given):
            return SolvedTree(Shared(given.name, given.aliases), given.cost)
        case SequenceItem() | Conjunction() | Disjunction():
            items = [_part(problem, item, shape) for item in part.items]
    match part:
        case SequenceItem():
            return SequenceTables(problem, part, items, solve, shape).solve()
        case Conjunction():
            return Subsets(problem, part, items, shape).solve()
        case Disjunction():
            total = sum(item.cost for item in items) + cost.merged(problem.model, part.rows)
            exact = all(item.exact for item in items)
            return SolvedTree(OrMerge(tuple(item.tree for item in items)), total, exact)


@dataclass(frozen=True, slots=True)
class CostedTree:
    """A tree with its cost and its rows, both in one window's length of stream.

    `exact` where no tree of the same shape is cheaper by the model: not where an AND has very many
    parts, or a gap very many negations.
    """

    tree: Tree
    cost: float
    cardinality: float
    seconds: float
    exact: bool = True

    @property
    def per_second(self) -> float:
        """The cost in events touched per second, for comparing queries with other windows."""
        return self.cost / self.seconds


def best_tree(
    query: Query,
    statistics: Statistics,
    given: Sequence[GivenFragment] = (),
    model: JoinCosts = ZSTREAM,
    shape: Shape = "any",
) -> CostedTree:
    """The cheapest tree, in which the given pieces are leaves.

    `shape` restricts sequences and conjunctions to left-deep or right-deep trees, or asks for the
    worst tree of all; where groups are tied so that there is no such tree, it is one of any shape.
    Raises `MissingStatisticError` where a number is not known.
    """
    best: CostedTree | None = None
    for leaves in _leaf_choices(query, model, shape):
        problem = compile_query(query, statistics, given, model, leaves)
        try:
            found = solve(problem, shape)
        except TreeError:
            if shape not in ("left", "right"):
                raise
            found = solve(problem)
        if best is None or found.cost < best.cost * CLOSE:
            best = CostedTree(found.tree, found.cost, problem.rows, problem.seconds, found.exact)
    assert best is not None
    if shape != "any" or model.arrivals == "halves":
        return best
    for aliases in _read_together(problem.root):
        best = _with_own_piece(best, aliases, query, statistics, given, model)
    return best


def _read_together(part: PatternPart | Edge) -> Iterator[frozenset[str]]:
    """Stretches of single events beside a negation that reads all of them.

    Where it is pushed to such a stretch, less is joined; the search pushes to single items only.
    """
    if not isinstance(part, SequenceItem):
        return
    for place, gap in enumerate(part.gaps):
        for negation in gap.negations:
            numbers = {i for i, item in enumerate(part.items) if item.aliases & negation.reads}
            for own in ({*numbers, place}, {*numbers, place + 1}):
                items = part.items[min(own) : max(own) + 1]
                beside = max(own) <= place or min(own) > place
                single = all(isinstance(item, Single) for item in items)
                if 1 < len(items) < len(part.items) and beside and single:
                    yield frozenset().union(*(item.aliases for item in items))


def _with_own_piece(
    best: CostedTree,
    aliases: frozenset[str],
    query: Query,
    statistics: Statistics,
    given: Sequence[GivenFragment],
    model: JoinCosts,
) -> CostedTree:
    """The tree that makes a piece by itself, where it is cheaper than the best so far."""
    pieces = fragments_of(query.pattern, query.conditions, whole=False, bare=False)
    piece = next((p for p in pieces if p.positive == aliases), None)
    if piece is None:
        return best
    own = best_tree(piece.asked(query), statistics, (), model)
    offered = [*given, GivenFragment(OWN, aliases, own.cost)]
    problem = compile_query(query, statistics, offered, model)
    found = solve(problem)
    if found.cost >= best.cost * CLOSE:
        return best
    tree = renamed(found.tree, {}, {OWN: own.tree})
    return replace(best, tree=tree, cost=found.cost, exact=False)


def _leaf_choices(query: Query, model: JoinCosts, shape: Shape) -> Iterator[frozenset[str]]:
    """Groups to be made by themselves: none, each of those that can be, and all of them."""
    yield frozenset()
    if model.arrivals == "poisson" and shape not in ("left", "right", "worst"):
        free = free_groups(query)
        if len(free) > 1:
            yield from (frozenset({alias}) for alias in sorted(free)[:MAX_LEAF_CHOICES])
        if free:
            yield free


def cost_of(
    tree: Tree,
    query: Query,
    statistics: Statistics,
    given: Sequence[GivenFragment] = (),
    model: JoinCosts = ZSTREAM,
) -> CostedTree:
    """What a tree costs; raises `TreeError` where it does not evaluate the query."""
    problem = compile_query(query, statistics, given, model, leaf_groups(tree))
    root = walk_cost(problem, tree)[0]
    return CostedTree(tree, root.cost, root.rows, problem.seconds, exact=False)


def steps_of(
    tree: Tree,
    query: Query,
    statistics: Statistics,
    given: Sequence[GivenFragment] = (),
    model: JoinCosts = ZSTREAM,
) -> list[CostStep]:
    """Every operator of a tree with its cost and rows, the root first."""
    if not given:
        return walk_query(query, tree, statistics, model).steps
    problem = compile_query(query, statistics, given, model, leaf_groups(tree))
    return walk_cost(problem, tree)


def labels_of(query: Query) -> dict[str, str]:
    """What each alias is of, as the query's patterns are printed: `A[x > 1]+ a`."""
    return {event.alias: print_pattern(event) for event in events(query.pattern)}


MAX_CHOICES = 64  # ways to read the ORs of a pattern; each has a tree of its own


def refusal(query: Query) -> str | None:
    """Why a query is not run as a tree; None where it is."""
    if query.special_windows is not None:
        return query.special_windows
    if is_about_situations(query):
        return "it is about situations, which are derived in order"
    if query.strategy != "any":
        return f"of its matches only those of STRATEGY {query.strategy.upper()} count"
    if any(ex.prev_alias(condition) is not None for condition in query.conditions):
        return "its conditions compare events with those just before them"
    aggregates = isinstance(query.output, Aggregation)
    if aggregates and query.lasting:
        return f"windows hold events of {query.lasting[0]} from their start on"
    for node in walk(query.pattern):
        if isinstance(node, Proj):
            return "some of its components only have to exist"
        if isinstance(node, Event) and isinstance(node.quantifier, GroupWithout):
            if not node.quantifier.absent:
                return f"the group {node.alias} has a given number of events"
            return f"between the events of {node.alias} something must not occur"
    try:
        choices = alternatives(query.pattern)
    except TooLargeError:
        return "its ORs can be read in too many ways"
    if not choices:
        return "it can never match"
    if len(choices) > MAX_CHOICES:
        return f"its ORs can be read in {len(choices):,} ways"
    for pattern in choices:
        if not _has_tree(query, pattern):
            return "its groups are tied across each other"
        for place in places(pattern):
            if isinstance(place.leaf, Neg):
                if aggregates and place.gap.at_edge and not _shortens(place, place.leaf, query):
                    return "a negation looks at each window that is aggregated"
                if any(len(alternatives(n.part)) > MAX_CHOICES for n in _negations(place.leaf)):
                    return "the ORs of a negation can be read in too many ways"
            elif aggregates and place.gap.at_edge and isinstance(place.leaf.quantifier, All):
                return f"{place.leaf.alias} is all that each window has, which is aggregated"
    return None


def _shortens(place: Position, negation: Neg, query: Query) -> bool:
    """Does it rule out all windows before or behind some event?

    Not where it depends on the window in other ways; nor anywhere in it unless single events are
    negated: of several, each end of a window could leave out one.
    """
    choices = negated_choices(negation, query.conditions)
    singles = all(isinstance(c, Event) and isinstance(c.quantifier, One) for c in choices)
    return (singles or not place.gap.anywhere) and not depends(negation, query.conditions)


def _negations(pattern: Pattern) -> Iterator[Neg]:
    return (node for node in walk(pattern) if isinstance(node, Neg))


class _Even(Statistics):
    """Every event and every condition is as good as any other."""

    def rate(self, symbol: Symbol) -> float:
        return 1.0

    def key(self, attributes: tuple[str, ...]) -> KeyStatistics:
        return KeyStatistics(1.0, 1.0)

    def selectivity(self, condition: ex.Expression, symbols: Mapping[str, Symbol]) -> float:
        return 0.5


def _has_tree(query: Query, pattern: Pattern) -> bool:
    """Is there an order in which each group is bound with all that its events are tied to?"""
    groups = [e for e in components(pattern) if not isinstance(e.quantifier, One)]
    if len(groups) < 2 and not (groups and len(list(components(pattern))) > MAX_EXACT_ITEMS):
        return True
    named = {event.alias for event in components(pattern)}
    conditions = tuple(c for c in query.conditions if ex.aliases(c) <= named)
    try:
        asked = replace(query, pattern=pattern, conditions=conditions)
        best_tree(asked, _Even(events=1, span=1.0))
    except TreeError:
        return False
    return True


ItemRange: TypeAlias = tuple[int, int]  # the numbers of its first and its last item
GIVEN, WALK = -1, -2  # in the place of the item that a stretch is split before


class Cheapest(NamedTuple):
    """The cost of a tree, and the given stretches that it is made of."""

    cost: float
    taken: tuple[ItemRange, ...]


class Stretches:
    """A sequence whose trees are asked for again and again; `exact`, or a bound from below."""

    def __init__(self, problem: TreeProblem, chain: SequenceItem) -> None:
        leaves = [SolvedTree(Leaf(""), 0.0) for _ in chain.items]
        found = SequenceTables(problem, chain, leaves, solve, "any")
        self.size, self.exact = found.size, not any(gap.negations for gap in chain.gaps)
        self.seconds = problem.seconds
        # Negations at the edges filter finished rows, however these were found.
        self._on_top = solve(problem).cost - found.solve().cost if problem.top else 0.0
        inner = found.least_pushes()
        self._splits = [
            (a, b, [(r, found.split_cost(a, b, r) + inner[r - 1]) for r in range(b, a, -1)])
            for size in range(2, self.size + 1)
            for a in range(self.size - size + 1)
            for b in [a + size - 1]
        ]
        self._walks = {
            (a, b): walk[0] + sum(inner[a:b])
            for a, b, _ in self._splits
            if (walk := found.walk(a, b)) is not None
        }

    def cheapest(self, prices: Mapping[ItemRange, float]) -> Cheapest:
        """The best tree in which each stretch with a price may be read instead of made."""
        n = self.size
        least = [[0.0] * n for _ in range(n)]
        roots = [[GIVEN] * n for _ in range(n)]
        for a, b, splits in self._splits:
            best, root, row = self._walks.get((a, b), math.inf), WALK, least[a]
            for r, own in splits:
                total = row[r - 1] + least[r][b] + own
                if total < best:
                    best, root = total, r
            price = prices.get((a, b))
            if price is not None and price <= best:
                best, root = price, GIVEN
            row[b], roots[a][b] = best, root
        taken: list[ItemRange] = []
        open_: list[ItemRange] = [(0, n - 1)]
        while open_:
            a, b = open_.pop()
            if a == b:
                continue
            r = roots[a][b]
            if r == GIVEN:
                taken.append((a, b))
            elif r != WALK:
                open_ += [(r, b), (a, r - 1)]
        return Cheapest(least[0][n - 1] + self._on_top, tuple(taken))


def stretches_of(query: Query, statistics: Statistics, model: JoinCosts) -> Stretches | None:
    """The table of a query; None where it is no sequence of single events, has groups between
    them, or negations that read more than their neighbours."""
    problem = compile_query(query, statistics, (), model)
    chain = problem.root
    if (
        isinstance(chain, SequenceItem)
        and all(isinstance(item, Single) for item in chain.items)
        and not any(gap.groups for gap in chain.gaps)
        and not any(_reads_far(chain, place) for place in range(len(chain.gaps)))
    ):
        return Stretches(problem, chain)
    return None


def _reads_far(chain: SequenceItem, place: int) -> bool:
    """Does a negation of a gap need more than the items beside it?"""
    beside = chain.items[place].aliases | chain.items[place + 1].aliases
    return any(not negation.needs <= beside for negation in chain.gaps[place].negations)
