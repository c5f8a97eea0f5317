"""The best tree of a sequence: ZStream algorithm 5, with the Odense thesis' selectivities.

The tables are filled stretch by stretch, from short to long; what a stretch costs is the best of
its splits. A sequence of very many items is cut into blocks: trees are the best of those in which
each block is joined by itself, which keeps them shallow.

Every gap is split exactly once in a tree, so pushing a negation of that gap down, whose cost is
that of its neighbour's rows, or filtering where it is split, is a choice made there.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple, TypeAlias

from optimizer.cost import unit_costs as cost
from optimizer.trees.cost_walk import closure_cost
from optimizer.trees.problem import (
    CLOSE,
    Edge,
    GivenItem,
    NegatedItem,
    PatternPart,
    Predicate,
    SequenceGap,
    SequenceItem,
    Shape,
    SolvedTree,
    TreeProblem,
    negations_of,
    plain_rows,
)
from optimizer.trees.tree import KSeq, NegTop, NSeq, SeqJoin, Side, Tree, TreeError, Walk
from optimizer.trees.walk_search import (
    MAX_PARTS,
    MAX_SETS,
    PushedGate,
    WalkOrders,
    WalkPart,
    is_walked,
    least_parts,
)

MAX_SEQUENCE_CHOICES = 4  # negations of one gap that are tried in every way
MAX_EXACT_ITEMS = 40  # of a sequence whose trees are all compared: 40^3 / 6 splits
BLOCK_ITEMS = 20  # of a longer one, that are joined with each other before others


class _Push(NamedTuple):
    """A negation pushed down: to which item, on which side of it."""

    negation: NegatedItem
    item: int
    side: Side
    cost: float


class _Option(NamedTuple):
    """Which negations of a gap are pushed; the others filter."""

    pushes: tuple[_Push, ...]
    cost: float
    filters: tuple[NegatedItem, ...]


PLAIN = _Option((), 0.0, ())


class _WalkRoot(NamedTuple):
    """Items bound one by one, in an order; `option` is what is done about all negations of them."""

    order: tuple[int, ...]
    option: _Option


_Root: TypeAlias = tuple[int, _Option] | _WalkRoot  # the item to split before, or a walk


class _Hull(NamedTuple):
    """The items from first to last that something needs."""

    first: int
    last: int


class SequenceTables:
    """The tables of a sequence: entry [a][b] is the stretch of items a to b."""

    def __init__(
        self,
        problem: TreeProblem,
        chain: SequenceItem,
        items: Sequence[SolvedTree],
        inner: Callable[[TreeProblem], SolvedTree],
        shape: Shape,
    ) -> None:
        """`items` are solved already, edges apart; `inner` solves what is negated."""
        self.problem, self.chain, self.shape = problem, chain, shape
        self.worst = shape == "worst"
        self.size = len(chain.items)
        self.blocks = _blocks(self.size)
        self.items = items
        self.inner = {id(n): inner(n.problem) for gap in chain.gaps for n in gap.negations}
        edges = [isinstance(item, Edge) for item in chain.items]
        self.real = [i for i, edge in enumerate(edges) if not edge] or [0]
        self.where = self._whereabouts()
        self.predicates = [(self._hull(p.aliases), p) for p in chain.predicates]
        self.far: list[tuple[_Hull, NegatedItem]] = []  # those that need more than their gap
        self.options = [self._gap_options(i, gap) for i, gap in enumerate(chain.gaps)]
        self.needs = [self._closure_needs(i, gap) for i, gap in enumerate(chain.gaps)]
        simple = shape not in ("left", "right") and not self.far
        self.plain = [simple and not gap.groups and not gap.negations for gap in chain.gaps]
        self._known_pairs: dict[tuple[int, int], tuple[float, float]] = {}
        self.constant = sum(found.cost for found in self.inner.values())
        self._tabulate()
        self._walks = self._walks_of_runs() if is_walked(problem.model, shape) else []

    def _whereabouts(self) -> dict[str, _Hull]:
        found = {a: _Hull(i, i) for i, item in enumerate(self.chain.items) for a in item.aliases}
        for i, gap in enumerate(self.chain.gaps):
            found |= {group.closure.alias: _Hull(i, i + 1) for group in gap.groups}
        return found

    def _hull(self, aliases: frozenset[str]) -> _Hull:
        places = [self.where[alias] for alias in aliases]
        return _Hull(min(p.first for p in places), max(p.last for p in places))

    def _closure_needs(self, place: int, gap: SequenceGap) -> _Hull:
        first, last = place, place + 1
        for group in gap.groups:
            if group.whole:
                return _Hull(min(place, self.real[0]), max(place + 1, self.real[-1]))
            if group.needs:
                hull = self._hull(group.needs)
                first, last = min(first, hull.first), max(last, hull.last)
        return _Hull(first, last)

    def _gap_options(self, place: int, gap: SequenceGap) -> list[_Option]:
        """The ways to treat the negations that only need the gap's own neighbours."""
        near: list[NegatedItem] = []
        choices: list[list[_Push | None]] = []
        for negation in gap.negations:
            hull = self._hull(negation.needs) if negation.needs else _Hull(place, place + 1)
            hull = _Hull(min(hull.first, place), max(hull.last, place + 1))
            if hull != (place, place + 1):
                self.far.append((hull, negation))
                continue
            near.append(negation)
            choices.append([None, *self._pushes(place, negation)])
        if len(near) > MAX_SEQUENCE_CHOICES:
            choices = [[ways[-1]] for ways in choices]
        found = []
        for picked in itertools.product(*choices):
            pushes = tuple(push for push in picked if push is not None)
            found.append(
                _Option(
                    pushes,
                    sum(push.cost for push in pushes),
                    tuple(n for n, push in zip(near, picked, strict=True) if push is None),
                )
            )
        return found

    def _pushes(self, place: int, negation: NegatedItem) -> list[_Push]:
        """To the better of its neighbours; nothing but the cost of it depends on which."""
        ways: list[tuple[int, Side]] = []
        if negation.push_left:
            ways.append((place, "right"))
        if negation.push_right:
            ways.append((place + 1, "left"))
        found = [
            _Push(negation, item, side, cost.pushed(self.problem.model, rows, negation.predicates))
            for item, side in ways
            for rows in [self.chain.items[item].rows]
        ]
        found.sort(key=lambda push: push.cost, reverse=self.worst)
        return found[:1]

    def _tabulate(self) -> None:
        """Rows, events, and the number and selectivity of predicates of every stretch."""
        n, model = self.size, self.problem.model
        hashed = model.equality == "hash"
        self.rows = [[0.0] * n for _ in range(n)]
        self.plain_rows = [[0.0] * n for _ in range(n)]  # without negations
        self.events = [[0] * n for _ in range(n)]
        self.counts = [[0] * n for _ in range(n)]
        self.equal = [[0.0] * n for _ in range(n)]  # logarithms
        self.equalities = [[0] * n for _ in range(n)]
        ending: list[list[tuple[int, Predicate]]] = [[] for _ in range(n)]
        for hull, predicate in self.predicates:
            ending[hull.last].append((hull.first, predicate))
        making: list[list[tuple[int, float]]] = [[] for _ in range(n)]
        for i, gap in enumerate(self.chain.gaps):
            making[i + 1] += [(i, group.made) for group in gap.groups]
        negated = any(negations_of(self.chain))
        for a in range(n):
            item = self.chain.items[a]
            self.rows[a][a], self.plain_rows[a][a] = item.rows, plain_rows(item)
            self.events[a][a] = item.events
            for b in range(a + 1, self._last_end(a) + 1):
                new = self.chain.items[b]
                before = self.events[a][b - 1]
                fit, _ = self._pairs(before, new.events)
                rows = self.plain_rows[a][b - 1] * plain_rows(new) * fit
                count, equal = self.counts[a][b - 1], self.equal[a][b - 1]
                equalities = self.equalities[a][b - 1]
                for first, made in making[b]:
                    if first >= a:
                        rows *= made
                for first, predicate in ending[b]:
                    if first >= a:
                        rows *= predicate.selectivity
                        if hashed and predicate.equality:
                            equal += math.log(predicate.selectivity)
                            equalities += 1
                        else:
                            count += 1
                self.plain_rows[a][b], self.events[a][b] = rows, before + new.events
                decided = negated and self._is_stretch(a, b)
                left = self._survival(a, b, self._inside(a, b)) if decided else 1.0
                self.rows[a][b] = rows * left
                self.counts[a][b], self.equal[a][b] = count, equal
                self.equalities[a][b] = equalities

    def _last_end(self, a: int) -> int:
        """The last item of the longest stretch from an item on that a tree may have."""
        inside = next(block for block in self.blocks if a in block)
        return self.size - 1 if a == inside[0] else inside[-1]

    def _is_stretch(self, a: int, b: int) -> bool:
        """May a tree have the stretch of these items as a subtree?"""
        if len(self.blocks) == 1:
            return True
        one = next(block for block in self.blocks if a in block)
        return b in one or (a == one[0] and any(b == block[-1] for block in self.blocks))

    def _stretches(self) -> Iterator[tuple[int, int, Iterable[int]]]:
        """The stretches that a tree may have, shorter ones first, with the items to split before.

        From right to left, so that of equal costs the left-deep tree is found first.
        """
        for block in self.blocks:
            first, end = block[0], block[-1] + 1
            for size in range(2, len(block) + 1):
                for a in range(first, end - size + 1):
                    yield a, a + size - 1, range(a + size - 1, a, -1)
        starts = [block[0] for block in self.blocks]
        for number in range(2, len(self.blocks) + 1):
            for i in range(len(self.blocks) - number + 1):
                j = i + number - 1
                yield starts[i], self.blocks[j][-1], starts[j:i:-1]

    def _pairs(self, left: int, right: int) -> tuple[float, float]:
        """How many pairs of rows of so many events fit in time and key; and are looked at."""
        known = self._known_pairs.get((left, right))
        if known is None:
            model, same = self.problem.model, self.problem.same_key(left, right)
            known = (
                same * cost.meeting(model, left, right, ordered=True),
                same * cost.looked_at(model, left, right, ordered=True),
            )
            self._known_pairs[left, right] = known
        return known

    def _inside(self, a: int, b: int) -> list[NegatedItem]:
        """The negations that are decided in a stretch."""
        found = [n for hull, n in self.far if a <= hull.first and hull.last <= b]
        for item in self.chain.items[a : b + 1]:
            found += item.negations if isinstance(item, GivenItem) else ()
        for options in self.options[a:b]:
            found += options[0].filters
            found += [push.negation for push in options[0].pushes]
        return found

    def _survival(self, a: int, b: int, negations: Sequence[NegatedItem]) -> float:
        """The share of a stretch's rows that negations leave."""
        if not negations:
            return 1.0
        return self.problem.survival(negations, self._aliases(a, b))

    def _aliases(self, a: int, b: int) -> frozenset[str]:
        return frozenset().union(*(item.aliases for item in self.chain.items[a : b + 1]))

    def solve(self) -> SolvedTree:
        """Algorithm 5; ties go to the left-deep tree."""
        n = self.size
        least = [[math.inf] * n for _ in range(n)]
        roots: list[list[_Root | None]] = [[None] * n for _ in range(n)]
        for i in range(n):
            least[i][i] = self.items[i].cost
        root: _Root | None
        for a, b, splits in self._stretches():
            best, root = math.inf, None
            walk = self.walk(a, b) if self._walks else None
            if walk is not None:
                best, root = sum(item.cost for item in self.items[a : b + 1]) + walk[0], walk[1]
                splits = () if self.shape == "walk" else splits
            for r in splits:
                total = least[a][r - 1] + least[r][b]
                if total == math.inf:
                    continue
                if self.plain[r - 1]:
                    total += self.plain_cost(a, b, r)
                    option = PLAIN
                elif self._allowed(a, b, r):
                    own, option = self._split_cost(a, b, r)
                    total += own
                else:
                    continue
                if root is None or (total * CLOSE > best if self.worst else total < best * CLOSE):
                    best, root = total, (r, option)
            least[a][b], roots[a][b] = best, root
        if roots[0][n - 1] is None:
            raise TreeError(f"no {self.shape}-deep tree evaluates this pattern")
        tree = self._build(0, n - 1, roots, {})
        assert tree is not None
        exact = (
            len(self.blocks) == 1
            and all(item.exact for item in self.items)
            and all(
                len(options) > 1 or len(gap.negations) <= MAX_SEQUENCE_CHOICES
                for options, gap in zip(self.options, self.chain.gaps, strict=True)
            )
        )
        return SolvedTree(tree, least[0][n - 1] + self.constant, exact)

    def _walks_of_runs(self) -> list[_Run]:
        """The stretches whose items a walk can bind: nothing is grouped between them."""
        found: list[_Run] = []
        start = 0
        for place, item in enumerate(self.chain.items):
            joined = not isinstance(item, Edge | GivenItem)
            behind = place + 1 < self.size and not self.chain.gaps[place].groups
            if joined and behind:
                continue
            stop = place + joined
            if 1 < stop - start <= MAX_PARTS or (stop - start > 1 and self.shape == "walk"):
                found += [self._run(start, stop, pushed) for pushed in self._ways(start, stop)]
            start = place + 1
        return found

    def _ways(self, start: int, stop: int) -> list[bool]:
        """Whether negations are pushed, where there are any that can be."""
        pushes = any(option.pushes for o in self.options[start : stop - 1] for option in o)
        return [True, False] if pushes else [True]

    def _run(self, start: int, stop: int, pushed: bool) -> _Run:
        options = []
        for ways in self.options[start : stop - 1]:
            many = [len(option.pushes) for option in ways]
            options.append(ways[many.index(max(many) if pushed else min(many))])
        parts = [
            WalkPart(item.rows, plain_rows(item), item.events, item.aliases, self._decided(item))
            for item in self.chain.items[start:stop]
        ]
        every = frozenset().union(*(part.aliases for part in parts))
        gates = [
            PushedGate(push.negation, push.item - start, other - start)
            for place, option in enumerate(options, start)
            for push in option.pushes
            for other in [place if push.item > place else place + 1]
        ]
        predicates = [p for _, p in self.predicates if p.aliases <= every]
        return _Run(start, stop, options, WalkOrders(self.problem, parts, predicates, gates))

    def _decided(self, item: PatternPart | Edge) -> tuple[NegatedItem, ...]:
        return item.negations if isinstance(item, GivenItem) else ()

    def walk(self, a: int, b: int) -> tuple[float, _WalkRoot] | None:
        """The cheapest walk over a stretch, but for what its items cost; None where none can be."""
        best: tuple[float, _WalkRoot] | None = None
        if b - a + 1 < least_parts(self.shape):
            return None
        for run in self._walks:
            if a < run.start or b >= run.stop:
                continue
            whole = (a, b + 1) == (run.start, run.stop)
            if run.orders.size <= MAX_SETS:
                total, order = run.orders.best_of(((1 << b - a + 1) - 1) << a - run.start)
            elif whole:
                total, order = run.orders.best()
            else:
                continue
            options = run.options[a - run.start : b - run.start]
            far = [n for hull, n in self.far if a <= hull.first and hull.last <= b]
            merged = _Option(
                tuple(push for option in options for push in option.pushes),
                sum(option.cost for option in options),
                tuple(_in_turn(_Option((), 0.0, sum((o.filters for o in options), ())), far)),
            )
            total += merged.cost
            decided = [push.negation for push in merged.pushes]
            for item in self.chain.items[a : b + 1]:
                decided += self._decided(item)
            rows = self.plain_rows[a][b] * self._survival(a, b, decided)
            for negation in merged.filters:
                decided.append(negation)
                after = self.plain_rows[a][b] * self._survival(a, b, decided)
                total += cost.filtered(self.problem.model, rows, negation.predicates, after)
                rows = after
            if best is None or total < best[0]:
                best = total, _WalkRoot(tuple(run.start + i for i in order), merged)
        return best

    def plain_cost(self, a: int, b: int, r: int) -> float:
        """The operator at a root where nothing stands in the gap, as in most: `_split_cost`."""
        model = self.problem.model
        _, look = self._pairs(self.events[a][r - 1], self.events[r][b])
        count = self.counts[a][b] - self.counts[a][r - 1] - self.counts[r][b]
        right = self.rows[r][b]
        tried = self.rows[a][r - 1] * right * look
        if self.equalities[a][b] > self.equalities[a][r - 1] + self.equalities[r][b]:
            equal = math.exp(self.equal[a][b] - self.equal[a][r - 1] - self.equal[r][b])
            tried = tried * equal + right
        return tried * (1 + count * model.predicate) + model.output * self.rows[a][b]

    def _allowed(self, a: int, b: int, r: int) -> bool:
        first, last = self.needs[r - 1]
        if a > first or b < last:
            return False
        items = self.chain.items
        if self.shape == "left":
            return r == b or (r == 1 and isinstance(items[0], Edge))
        if self.shape == "right":
            return r == a + 1 or (r == b and isinstance(items[b], Edge))
        return True

    def _split_cost(self, a: int, b: int, r: int) -> tuple[float, _Option]:
        """The operator at a root (`calc_inputcost` and `calc_CARD`), and how negations are done."""
        model = self.problem.model
        left, right = self.rows[a][r - 1], self.rows[r][b]
        fit, look = self._pairs(self.events[a][r - 1], self.events[r][b])
        gap = self.chain.gaps[r - 1]
        far = self._far(a, b, r) if self.far else []
        below = [*self._inside(a, r - 1), *self._inside(r, b)]
        grouped: float | None = None
        count, equal = 0, None
        if gap.groups:
            new = [p for hull, p in self.predicates if a <= hull.first < r <= hull.last <= b]
            grouped, _ = closure_cost(self.problem, left * right * fit, gap, new)
        else:
            count = self.counts[a][b] - self.counts[a][r - 1] - self.counts[r][b]
            if self.equalities[a][b] > self.equalities[a][r - 1] + self.equalities[r][b]:
                equal = math.exp(self.equal[a][b] - self.equal[a][r - 1] - self.equal[r][b])
        found: tuple[float, _Option] | None = None
        for option in self.options[r - 1]:
            decided = [*below, *(push.negation for push in option.pushes)]
            rows = self.plain_rows[a][b] * self._survival(a, b, decided)
            own = grouped
            if own is None:
                gates = [p.negation for p in option.pushes if p.negation.is_gate(p.side, model)]
                seen = self._gated(a, b, r, below, gates) if gates else look
                own = cost.join(model, left * right * seen, right, count, equal, rows)
            own += option.cost
            for negation in _in_turn(option, far):
                decided.append(negation)
                after = self.plain_rows[a][b] * self._survival(a, b, decided)
                own += cost.filtered(model, rows, negation.predicates, after)
                rows = after
            if found is None or (own > found[0] if self.worst else own < found[0]):
                found = own, option
        assert found is not None
        return found

    def _gated(
        self, a: int, b: int, r: int, below: list[NegatedItem], gates: list[NegatedItem]
    ) -> float:
        """How many of the pairs at a root are looked at where gates let only some through."""
        problem, left, right = self.problem, self.events[a][r - 1], self.events[r][b]
        free = problem.let_through(gates, below, self._aliases(a, b), self._aliases(r, b))
        seen = cost.looked_at(problem.model, left, right, True, free)
        return problem.same_key(left, right) * seen

    def split_cost(self, a: int, b: int, r: int) -> float:
        """The operator at a root, with the best way to do the negations of its gap."""
        return self.plain_cost(a, b, r) if self.plain[r - 1] else self._split_cost(a, b, r)[0]

    def least_pushes(self) -> list[float]:
        """Let negations be pushed to any stretch beside them, and give what finding them costs.

        A stretch that is given may have fewer rows than the item at its end.
        """
        for place, options in enumerate(self.options):
            before = min(self.rows[i][place] for i in range(place + 1))
            after = min(self.rows[place + 1][place + 1 :])
            self.options[place] = [
                option._replace(
                    cost=sum(self._least_push(p.negation, before, after) for p in option.pushes)
                )
                for option in options
            ]
        return [sum(self.inner[id(n)].cost for n in gap.negations) for gap in self.chain.gaps]

    def _least_push(self, negation: NegatedItem, before: float, after: float) -> float:
        rows = [before] * negation.push_left + [after] * negation.push_right
        return min(cost.pushed(self.problem.model, r, negation.predicates) for r in rows)

    def _far(self, a: int, b: int, r: int) -> list[NegatedItem]:
        """The negations that have all they need for the first time at this root."""
        return [n for hull, n in self.far if a <= hull.first < r <= hull.last <= b]

    def _build(
        self,
        a: int,
        b: int,
        roots: list[list[_Root | None]],
        pushed: dict[int, list[_Push]],
    ) -> Tree | None:
        """The tree of a stretch; None for an edge. A gap is split before its items are reached."""
        if a == b:
            if isinstance(self.chain.items[a], Edge):
                return None
            leaf = self.items[a].tree
            for push in pushed.get(a, ()):
                leaf = NSeq(leaf, self.inner[id(push.negation)].tree, push.side)
            return leaf
        root = roots[a][b]
        assert root is not None
        option = root[1]
        for push in option.pushes:
            pushed.setdefault(push.item, []).append(push)
        if isinstance(root, _WalkRoot):
            leaves = (self._build(i, i, roots, pushed) for i in root.order)
            walk: Tree = Walk(tuple(leaf for leaf in leaves if leaf is not None))
            for negation in _in_turn(option, []):
                walk = NegTop(walk, self.inner[id(negation)].tree)
            return walk
        r, _ = root
        left, right = self._build(a, r - 1, roots, pushed), self._build(r, b, roots, pushed)
        gap = self.chain.gaps[r - 1]
        tree: Tree
        if gap.groups:
            tree = KSeq(left, tuple(group.closure for group in gap.groups), right)
        else:
            assert left is not None
            assert right is not None
            tree = SeqJoin(left, right)
        for negation in _in_turn(option, self._far(a, b, r)):
            tree = NegTop(tree, self.inner[id(negation)].tree)
        return tree


class _Run(NamedTuple):
    """Items from `start` to before `stop`, and what is done about the negations between them."""

    start: int
    stop: int
    options: list[_Option]
    orders: WalkOrders


def _blocks(size: int) -> list[range]:
    """The items in stretches of which each is joined by itself first; all in one of few items."""
    if size <= MAX_EXACT_ITEMS:
        return [range(size)]
    return [range(a, min(a + BLOCK_ITEMS, size)) for a in range(0, size, BLOCK_ITEMS)]


def _in_turn(option: _Option, far: list[NegatedItem]) -> Sequence[NegatedItem]:
    """Filters, those first that leave the least."""
    if not far and len(option.filters) < 2:
        return option.filters
    return sorted((*option.filters, *far), key=lambda negation: negation.survival)
