"""What a tree costs, node by node from the leaves up."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from optimizer.cost import unit_costs as cost
from optimizer.trees.problem import (
    ClosureItem,
    Conjunction,
    Disjunction,
    Edge,
    GivenItem,
    GroupLeaf,
    NegatedItem,
    PatternPart,
    Predicate,
    SequenceGap,
    SequenceItem,
    Single,
    TreeProblem,
    items_of,
)
from optimizer.trees.tree import (
    AndJoin,
    Closure,
    KSeq,
    Latest,
    Leaf,
    Marked,
    Narrowed,
    NegTop,
    NSeq,
    OrMerge,
    Passed,
    SeqJoin,
    Shared,
    Side,
    Taken,
    TooEarlyError,
    Tree,
    TreeError,
    Walk,
    bound,
)
from optimizer.trees.walk_search import PushedGate, WalkOrders, WalkPart


class CostStep(NamedTuple):
    """A node of a tree: its own cost, that of its whole subtree, and its rows in a window."""

    node: Tree
    depth: int
    own: float
    cost: float
    rows: float


@dataclass(frozen=True, slots=True)
class _SubtreeCost:
    """A subtree so far; `pending` are negations that were pushed below and take effect above.

    `plain` are its rows as if none of the negations that are `decided` in it were there.
    """

    cost: float
    rows: float
    events: int
    aliases: frozenset[str]
    plain: float
    decided: tuple[NegatedItem, ...] = ()
    pending: tuple[tuple[NegatedItem, Side], ...] = ()


NO_ROWS = _SubtreeCost(0.0, 1.0, 0, frozenset(), 1.0)


def walk_cost(problem: TreeProblem, tree: Tree) -> list[CostStep]:
    """Every node of a tree with its cost, the root first; `TreeError` where it does not fit.

    The subtrees of negations follow their parts; their costs are part of those above them.
    """
    walker = _Walker(problem, _Scope.of(problem.root), list(problem.top))
    found = walker.visit(tree, 0)
    if walker.open_negations():
        names = ", ".join(sorted(a for n in walker.open_negations() for a in n.aliases))
        raise TreeError(f"the tree leaves out the negation of {names}")
    if found.aliases != problem.root.aliases:
        missing = sorted(problem.root.aliases ^ found.aliases)
        raise TreeError(f"the tree and the query differ in {', '.join(missing)}")
    return walker.steps


@dataclass
class _Scope:
    """What a tree may be built of, down to the parts of ORs, which are scopes of their own."""

    singles: dict[str, Single] = field(default_factory=dict)
    leaf_groups: dict[tuple[Closure, ...], GroupLeaf] = field(default_factory=dict)
    pieces: dict[str, GivenItem] = field(default_factory=dict)
    choices: dict[frozenset[str], Disjunction] = field(default_factory=dict)
    groups: dict[str, tuple[ClosureItem, SequenceGap, SequenceItem]] = field(default_factory=dict)
    predicates: list[Predicate] = field(default_factory=list)
    negations: list[NegatedItem] = field(default_factory=list)
    chains: list[SequenceItem] = field(default_factory=list)
    owners: dict[int, dict[str, int]] = field(default_factory=dict)  # of aliases, by chain
    together: list[Conjunction] = field(default_factory=list)

    @staticmethod
    def of(part: PatternPart) -> _Scope:
        scope = _Scope()
        scope._add(part)
        return scope

    def _add(self, part: PatternPart) -> None:
        match part:
            case Single():
                self.singles[part.alias] = part
            case GroupLeaf():
                self.leaf_groups[part.closure,] = part
            case GivenItem():
                self.pieces[part.given.name] = part
            case Disjunction():
                self.choices[part.aliases] = part
                return
            case Conjunction():
                self.together.append(part)
                self.predicates += part.predicates
            case SequenceItem():
                self.chains.append(part)
                self.owners[id(part)] = {a: i for i, item in enumerate(part.items)
                                         for a in item.aliases}  # fmt: skip
                self.predicates += part.predicates
                for gap in part.gaps:
                    self.negations += gap.negations
                    self.groups |= {g.closure.alias: (g, gap, part) for g in gap.groups}
        for item in items_of(part):
            self._add(item)


@dataclass
class _Walker:
    problem: TreeProblem
    scope: _Scope
    top: list[NegatedItem]
    steps: list[CostStep] = field(default_factory=list)
    done: set[int] = field(default_factory=set)

    def open_negations(self) -> list[NegatedItem]:
        return [n for n in (*self.scope.negations, *self.top) if id(n) not in self.done]

    def visit(self, tree: Tree, depth: int) -> _SubtreeCost:
        place = len(self.steps)
        self.steps.append(CostStep(tree, depth, 0.0, 0.0, 0.0))  # before those below it
        found, own = self._node(tree, depth)
        self.steps[place] = CostStep(tree, depth, own, found.cost, found.rows)
        return found

    def _node(self, tree: Tree, depth: int) -> tuple[_SubtreeCost, float]:
        match tree:
            case Leaf(alias):
                if alias not in self.scope.singles:
                    raise TreeError(f"{alias} is no single component here")
                single = self.scope.singles[alias]
                return _SubtreeCost(0.0, single.rows, 1, single.aliases, single.rows), 0.0
            case Shared(name):
                if name not in self.scope.pieces:
                    raise TreeError(f"{name} is not given")
                piece = self.scope.pieces[name]
                paid = piece.given.cost
                found = _SubtreeCost(
                    paid, piece.rows, piece.events, piece.aliases, piece.plain, piece.negations
                )
                return found, paid
            case SeqJoin(left, right):
                return self._sequence(self.visit(left, depth + 1), self.visit(right, depth + 1))
            case AndJoin(left, right):
                return self._conjunction(self.visit(left, depth + 1), self.visit(right, depth + 1))
            case Walk(parts, ordered):
                return self._walked([self.visit(part, depth + 1) for part in parts], ordered)
            case OrMerge():
                return self._disjunction(tree, depth)
            case NSeq():
                return self._pushed(tree, depth)
            case NegTop():
                return self._filtered(tree, depth)
            case KSeq():
                return self._closure(tree, depth)
            case Passed():
                raise TreeError("what is passed down to a tree stands above all of it")
            case Narrowed() | Marked() | Taken():
                raise TreeError("a piece that others read is costed as a query of its own")
            case Latest(parts):
                return self._latest(tree, [self.visit(part, depth + 1) for part in parts])

    # --- joins ---------------------------------------------------------------------------------

    def _sequence(self, left: _SubtreeCost, right: _SubtreeCost) -> tuple[_SubtreeCost, float]:
        chain = self._chain_of(left.aliases | right.aliases)
        gap = _split(chain, self.scope.owners[id(chain)], left.aliases, right.aliases)
        if gap is None or gap.groups:
            raise TreeError(f"{_names(left)} and {_names(right)} do not follow each other")
        return self._joined(left, right, gap, ordered=True)

    def _conjunction(self, left: _SubtreeCost, right: _SubtreeCost) -> tuple[_SubtreeCost, float]:
        both = left.aliases | right.aliases
        if not any(both <= part.aliases and _is_union(part, both) for part in self.scope.together):
            raise TreeError(f"{_names(left)} and {_names(right)} are not parts of one AND")
        return self._joined(left, right, None, ordered=False)

    def _joined(
        self, left: _SubtreeCost, right: _SubtreeCost, gap: SequenceGap | None, ordered: bool
    ) -> tuple[_SubtreeCost, float]:
        model, problem = self.problem.model, self.problem
        aliases = left.aliases | right.aliases
        same = problem.same_key(left.events, right.events)
        fit = same * cost.meeting(model, left.events, right.events, ordered)
        plain, count, equal = left.plain * right.plain * fit, 0, None
        for predicate in self._new(aliases, left, right):
            plain *= predicate.selectivity
            if predicate.equality and model.equality == "hash":
                equal = predicate.selectivity * (1.0 if equal is None else equal)
            else:
                count += 1
        below = decided = (*left.decided, *right.decided)
        pending, free = (*left.pending, *right.pending), (1.0, 1.0)
        if gap is not None:
            here = [(n, side) for n, side in pending if any(n is other for other in gap.negations)]
            decided = (*below, *(negation for negation, _ in here))
            self.done.update(id(negation) for negation, _ in here)
            pending = tuple(each for each in pending if id(each[0]) not in self.done)
            gates = [negation for negation, side in here if negation.is_gate(side, model)]
            if gates:
                free = problem.let_through(gates, below, aliases, right.aliases)
        tried = left.rows * right.rows * same
        tried *= cost.looked_at(model, left.events, right.events, ordered, free)
        made = plain * problem.survival(decided, aliases)
        lookups = right.rows if ordered else left.rows + right.rows
        own = cost.join(model, tried, lookups, count, equal, made)
        total, events = left.cost + right.cost + own, left.events + right.events
        return _SubtreeCost(total, made, events, aliases, plain, decided, pending), own

    def _walked(self, parts: Sequence[_SubtreeCost], ordered: bool) -> tuple[_SubtreeCost, float]:
        """Parts bound depth first, in their order."""
        aliases = frozenset().union(*(part.aliases for part in parts))
        gaps: list[SequenceGap] = []
        standing = list(parts)
        if ordered:
            chain = self._chain_of(aliases)
            owners = self.scope.owners[id(chain)]
            places = {id(part): _stretch(chain, owners, part.aliases) for part in parts}
            if any(place is None for place in places.values()):
                raise TreeError(f"{', '.join(sorted(aliases))} are not parts of one SEQ")
            standing.sort(key=lambda part: places[id(part)] or (0, 0))
            for one, other in itertools.pairwise(standing):
                gap = _split(chain, owners, one.aliases, other.aliases)
                if gap is None or gap.groups:
                    raise TreeError(f"{_names(one)} and {_names(other)} do not follow each other")
                gaps.append(gap)
        elif not any(aliases <= c.aliases and _is_union(c, aliases) for c in self.scope.together):
            raise TreeError(f"{', '.join(sorted(aliases))} are not parts of one AND")
        gates: list[PushedGate] = []
        pending: list[tuple[NegatedItem, Side]] = []
        for number, part in enumerate(standing):
            for negation, side in part.pending:
                beside = number - 1 if side == "left" else number + 1
                place = min(number, beside)
                if 0 <= place < len(gaps) and any(negation is n for n in gaps[place].negations):
                    gates.append(PushedGate(negation, number, beside))
                    self.done.add(id(negation))
                else:
                    pending.append((negation, side))
        new = self._new(aliases, *parts)
        walk = WalkOrders(
            self.problem,
            [WalkPart(p.rows, p.plain, p.events, p.aliases, p.decided) for p in standing],
            new,
            gates,
            ordered,
        )
        own = walk.cost([next(i for i, p in enumerate(standing) if p is part) for part in parts])
        decided = (*(n for p in standing for n in p.decided), *(gate.negation for gate in gates))
        plain, events = 1.0, 0
        for part in standing:
            plain *= part.plain * self.problem.same_key(events, part.events)
            plain *= cost.meeting(self.problem.model, events, part.events, ordered)
            events += part.events
        plain *= math.prod(predicate.selectivity for predicate in new)
        found = _SubtreeCost(
            sum(part.cost for part in parts) + own,
            plain * self.problem.survival(decided, aliases),
            events,
            aliases,
            plain,
            decided,
            tuple(pending),
        )
        return found, own

    def _closure(self, tree: KSeq, depth: int) -> tuple[_SubtreeCost, float]:
        if tree.start is None and tree.end is None:
            leaf = self.scope.leaf_groups.get(tree.closures)
            if leaf is not None:
                found = _SubtreeCost(leaf.cost, leaf.rows, leaf.events, leaf.aliases, leaf.rows)
                return found, leaf.cost
        start = NO_ROWS if tree.start is None else self.visit(tree.start, depth + 1)
        end = NO_ROWS if tree.end is None else self.visit(tree.end, depth + 1)
        known = [self.scope.groups.get(closure.alias) for closure in tree.closures]
        first = known[0] if known else None
        if first is None:
            raise TreeError("these are no groups of the query")
        _, gap, chain = first
        if tuple(group.closure for group in gap.groups) != tree.closures or not _spans(
            chain, self.scope.owners[id(chain)], gap, start.aliases, end.aliases
        ):
            raise TreeError(f"{tree.closures[0].alias} does not stand between the two")
        rows = start.aliases | end.aliases
        own_aliases = frozenset(closure.alias for closure in tree.closures)
        for group in gap.groups:
            items = frozenset().union(*(item.aliases for item in chain.items if group.whole))
            if not group.needs | items <= rows:
                raise TooEarlyError(
                    f"the events of {group.closure.alias} cannot be chosen so early"
                )
        model, problem = self.problem.model, self.problem
        fit = problem.same_key(start.events, end.events)
        fit *= cost.meeting(model, start.events, end.events, ordered=True)
        if not start.events and not end.events and isinstance(chain.items[0], Edge):
            fit *= chain.items[0].rows
        new = self._new(rows | own_aliases, start, end)
        own, _ = closure_cost(problem, start.rows * end.rows * fit, gap, new)
        _, plain = closure_cost(problem, start.plain * end.plain * fit, gap, new)
        decided = (*start.decided, *end.decided)
        found = _SubtreeCost(
            start.cost + end.cost + own,
            plain * problem.survival(decided, rows | own_aliases),
            start.events + end.events,
            rows | own_aliases,
            plain,
            decided,
            (*start.pending, *end.pending),
        )
        return found, own

    def _disjunction(self, tree: OrMerge, depth: int) -> tuple[_SubtreeCost, float]:
        choice = self.scope.choices.get(bound(tree))
        if choice is None or len(choice.items) != len(tree.parts):
            raise TreeError(f"{', '.join(sorted(bound(tree)))} are not the parts of an OR")
        rows = total = 0.0
        for item, part in zip(choice.items, tree.parts, strict=True):
            inner = _Walker(self.problem, _Scope.of(item), [], self.steps)
            found = inner.visit(part, depth + 1)
            if inner.open_negations() or found.aliases != item.aliases:
                raise TreeError("a part of an OR is not evaluated as a whole")
            rows, total = rows + found.rows, total + found.cost
        own = cost.merged(self.problem.model, rows)
        return _SubtreeCost(total + own, rows, choice.events, choice.aliases, rows), own

    # --- negations -----------------------------------------------------------------------------

    def _pushed(self, tree: NSeq, depth: int) -> tuple[_SubtreeCost, float]:
        part = self.visit(tree.part, depth + 1)
        negation, inner = self._negation(tree.negation, depth + 1)
        if not self._is_beside(negation, part.aliases, tree.side) or not (
            negation.reads <= part.aliases
        ):
            raise TreeError(
                f"the negation of {', '.join(sorted(negation.aliases))} cannot be pushed there"
            )
        own = cost.pushed(self.problem.model, part.rows, negation.predicates)
        pending = (*part.pending, (negation, tree.side))
        return replace(part, cost=part.cost + own + inner, pending=pending), own

    def _filtered(self, tree: NegTop, depth: int) -> tuple[_SubtreeCost, float]:
        part = self.visit(tree.part, depth + 1)
        negation, inner = self._negation(tree.negation, depth + 1)
        on_top = any(negation is n for n in self.top)
        needs = self.problem.root.aliases if on_top else negation.needs
        if not needs <= part.aliases:
            raise TooEarlyError(
                f"the negation of {', '.join(sorted(negation.aliases))} is checked too early"
            )
        decided = (*part.decided, negation)
        rows = part.plain * self.problem.survival(decided, part.aliases)
        own = cost.filtered(self.problem.model, part.rows, negation.predicates, rows)
        self.done.add(id(negation))
        total = part.cost + own + inner
        return replace(part, cost=total, rows=rows, decided=decided), own

    def _latest(self, tree: Latest, parts: list[_SubtreeCost]) -> tuple[_SubtreeCost, float]:
        """What one pass over the events of a negated sequence takes."""
        chain = self.problem.root
        in_order = isinstance(chain, SequenceItem) and [p.aliases for p in parts] == [
            item.aliases for item in chain.items
        ]
        if not self.problem.one_pass or not in_order:
            raise TreeError(f"one pass does not decide {', '.join(sorted(bound(tree)))}")
        pending = [negation for part in parts for negation, _ in part.pending]
        self.done.update(map(id, pending))
        own = cost.latest(self.problem.model, sum(part.rows for part in parts), parts[-1].rows)
        total = sum(part.cost for part in parts) + own
        rows, aliases = parts[-1].rows, self.problem.root.aliases
        return _SubtreeCost(total, rows, len(parts), aliases, rows), own

    def _negation(self, tree: Tree, depth: int) -> tuple[NegatedItem, float]:
        """The negation that a tree is of, and what finding its rows costs."""
        named, place = bound(tree), len(self.steps)
        for negation in (*self.scope.negations, *self.top):
            if negation.aliases == named and id(negation) not in self.done:
                for step in walk_cost(negation.problem, tree):
                    self.steps.append(step._replace(depth=step.depth + depth))
                return negation, self.steps[place].cost
        raise TreeError(f"{', '.join(sorted(named))} is not negated here, or twice")

    # --- what belongs where --------------------------------------------------------------------

    def _new(self, here: frozenset[str], *below: _SubtreeCost) -> list[Predicate]:
        """The predicates that can be evaluated here and could not be below."""
        return [
            predicate
            for predicate in self.scope.predicates
            if predicate.aliases <= here
            and not any(predicate.aliases <= found.aliases for found in below)
        ]

    def _is_beside(self, negation: NegatedItem, aliases: frozenset[str], side: Side) -> bool:
        """Is the negation next to these, and on which side of them?

        They are a neighbour, or a stretch with the neighbour at that end: a piece that is given
        is one item of the pattern, and a stretch where it is written out.
        """
        for chain in self.scope.chains:
            for place, gap in enumerate(chain.gaps):
                if not gap.groups and any(negation is n for n in gap.negations):
                    found = _stretch(chain, self.scope.owners[id(chain)], aliases)
                    if found is None:
                        return False
                    return found[0] == place + 1 if side == "left" else found[1] == place
        return False

    def _chain_of(self, aliases: frozenset[str]) -> SequenceItem:
        """The innermost sequence that has all of these."""
        found = [chain for chain in self.scope.chains if aliases <= chain.aliases]
        if not found:
            raise TreeError(f"{', '.join(sorted(aliases))} are not parts of one SEQ")
        return min(found, key=lambda chain: len(chain.aliases))


def closure_cost(
    problem: TreeProblem, pairs: float, gap: SequenceGap, new: list[Predicate]
) -> tuple[float, float]:
    """The cost of the groups of a gap, and their rows."""
    made, searched, size, tests = pairs, 0.0, 0.0, 0
    for group in gap.groups:
        quantifier = group.closure.quantifier
        made *= group.made
        searched += cost.searched(quantifier, group.candidates)
        size += cost.group_size(quantifier, group.candidates)
        tests += group.predicates
    for predicate in new:
        made *= predicate.selectivity
    own = cost.touched(problem.model, pairs * searched, len(new) + tests, made * size)
    return own, made


Owners = Mapping[str, int]  # the number of the item that has an alias


def _stretch(
    chain: SequenceItem, owners: Owners, aliases: frozenset[str]
) -> tuple[int, int] | None:
    """The items that aliases are made of: from, to; None where they are no such stretch."""
    some = sorted({owners[alias] for alias in aliases if alias in owners})
    inside = [i for i in some if chain.items[i].aliases <= aliases]
    if not inside:
        return None
    first, last = inside[0], inside[-1]
    whole = frozenset().union(*_contents(chain, first, last))
    if whole == aliases:
        return first, last
    # Closures at the edges have no item beyond them.
    for low, high in ((0, last), (first, len(chain.items) - 1), (0, len(chain.items) - 1)):
        if frozenset().union(*_contents(chain, low, high)) == aliases:
            return low, high
    return None


def _contents(chain: SequenceItem, first: int, last: int) -> Iterator[frozenset[str]]:
    for i in range(first, last + 1):
        yield chain.items[i].aliases
        if i < last:
            yield frozenset(group.closure.alias for group in chain.gaps[i].groups)


def _split(
    chain: SequenceItem, owners: Owners, left: frozenset[str], right: frozenset[str]
) -> SequenceGap | None:
    """The gap between two stretches that follow each other."""
    one, two = _stretch(chain, owners, left), _stretch(chain, owners, right)
    if one is None or two is None or one[1] + 1 != two[0]:
        return None
    return chain.gaps[one[1]]


def _spans(
    chain: SequenceItem,
    owners: Owners,
    gap: SequenceGap,
    start: frozenset[str],
    end: frozenset[str],
) -> bool:
    """Does the gap stand between the two, of which either may be an edge?"""
    place = next(i for i, found in enumerate(chain.gaps) if found is gap)
    edges = [isinstance(chain.items[i], Edge) for i in (place, place + 1)]
    left = _stretch(chain, owners, start) if start else ((place, place) if edges[0] else None)
    right = _stretch(chain, owners, end) if end else ((place + 1, place + 1) if edges[1] else None)
    return left is not None and right is not None and (left[1], right[0]) == (place, place + 1)


def _is_union(part: Conjunction, aliases: frozenset[str]) -> bool:
    covered = [item.aliases for item in part.items if item.aliases <= aliases]
    return frozenset().union(*covered) == aliases


def _names(found: _SubtreeCost) -> str:
    return ", ".join(sorted(found.aliases))
