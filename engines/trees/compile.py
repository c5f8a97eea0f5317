"""From an OR-free pattern and a tree for it to operators: conditions at the lowest node."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from engines.trees import operators as op
from engines.trees.operators import Conditions, Operator
from optimizer.canonical import canonical
from optimizer.ir.alternatives import alternatives
from optimizer.ir.pattern import And, Event, Neg, Pattern, Seq, positive_events
from optimizer.places import Place, places
from optimizer.trees import AndJoin, Leaf, NegTop, NSeq, SeqJoin, Tree, TreeError
from optimizer.trees.tree import Side, bound
from workloads import expressions as ex
from workloads.printer import print_expression


class Compiled(NamedTuple):
    """An operator, and the aliases of its components in their order."""

    operator: Operator
    aliases: tuple[str, ...]


class Reach(NamedTuple):
    """Only such events are joined as the component `last` can follow, which ends every match.

    `passing`: by the conditions that tie the two, besides the window.
    """

    last: str
    passing: bool


def compile_tree(
    tree: Tree, pattern: Pattern, conditions: Conditions, reach: Reach | None = None
) -> Compiled:
    """The operators of a tree; raises `TreeError` where it does not evaluate the pattern."""
    compiler = _Compiler.of(pattern, conditions)
    compiler.reach = reach
    found = compiler.visit(tree)
    if set(found.aliases) != compiler.own or compiler.absent:
        missing = compiler.own ^ set(found.aliases) | set().union(*compiler.absent)
        raise TreeError(f"the tree and the query differ in {', '.join(sorted(missing))}")
    constants = tuple(c for c in conditions if not ex.aliases(c))
    return found._replace(operator=_kept(found.operator, constants))


def plain_tree(pattern: Pattern) -> Tree:
    """A left-deep tree, with its negations on top."""
    match pattern:
        case Event(_, alias):
            return Leaf(alias)
        case Seq(parts) | And(parts):
            kind = SeqJoin if isinstance(pattern, Seq) else AndJoin
            trees = [plain_tree(part) for part in parts if not isinstance(part, Neg)]
            tree = trees[0]
            for other in trees[1:]:
                tree = kind(tree, other)
            for part in parts:
                if isinstance(part, Neg):
                    tree = NegTop(tree, _negated(part))
            return tree
        case _:
            raise TreeError("only SEQ and AND of events and negations have a tree here")


def _negated(negation: Neg) -> Tree:
    """Names a negation by its first choice; with several each has a tree of its own."""
    return plain_tree(alternatives(negation.part)[0])


@dataclass
class _Compiler:
    own: frozenset[str]
    components: dict[str, Place]
    absent: dict[frozenset[str], Place]  # negations that no node has checked yet, by what they bind
    conditions: Conditions
    reach: Reach | None = None

    @staticmethod
    def of(pattern: Pattern, conditions: Conditions) -> _Compiler:
        found = places(pattern)
        components = {p.leaf.alias: p for p in found if isinstance(p.leaf, Event)}
        absent = {_inside(p.leaf): p for p in found if isinstance(p.leaf, Neg)}
        return _Compiler(frozenset(components), components, absent, conditions)

    def visit(self, tree: Tree) -> Compiled:
        match tree:
            case Leaf(alias):
                return Compiled(self._reached(alias), (alias,))
            case SeqJoin(left, right):
                return self._joined(self.visit(left), self.visit(right), ordered=True)
            case AndJoin(left, right):
                return self._joined(self.visit(left), self.visit(right), ordered=False)
            case NSeq(part, negation) | NegTop(part, negation):
                below = self.visit(part)
                side = tree.side if isinstance(tree, NSeq) else None
                return self._without(below, negation, side)
            case _:
                raise TreeError(f"{type(tree).__name__} is not run as a tree")

    def _leaf(self, alias: str) -> Operator:
        place = self.components.get(alias)
        if place is None or not isinstance(place.leaf, Event):
            raise TreeError(f"{alias} is no component here")
        alone = self._asked({alias}, (frozenset(),))
        return _kept(op.Scan(place.leaf.symbol), _numbered(alone, (alias,)))

    def _reached(self, alias: str) -> Operator:
        """A component's events, but for those that the last component cannot follow."""
        leaf = self._leaf(alias)
        if self.reach is None or alias == self.reach.last:
            return leaf
        both = (alias, self.reach.last)
        tying = [c for c in self.conditions if ex.aliases(c) == set(both)]
        passed = _numbered(tying, both) if self.reach.passing else ()
        return op.Reached(leaf, self._leaf(self.reach.last), passed)

    def _asked(
        self, names: Iterable[str], below: tuple[frozenset[str], ...]
    ) -> list[ex.Expression]:
        """The conditions on some components that none of the inputs could check."""
        have = frozenset(names)
        found = []
        for condition in self.conditions:
            named = ex.aliases(condition)
            if named and named <= have and not any(named <= part for part in below):
                found.append(condition)
        return found

    def _joined(self, left: Compiled, right: Compiled, ordered: bool) -> Compiled:
        aliases = (*left.aliases, *right.aliases)
        asked = self._asked(aliases, (frozenset(left.aliases), frozenset(right.aliases)))
        rivals: tuple[tuple[int, int], ...] = ()
        if not ordered:
            rivals = tuple(
                (i, j)
                for i, one in enumerate(left.aliases)
                for j, other in enumerate(right.aliases)
                if other in self.components[one].rivals
            )
        conditions = _numbered(asked, aliases)
        joined = op.Join(left.operator, right.operator, ordered, conditions, rivals)
        return Compiled(joined, aliases)

    # --- negations -----------------------------------------------------------------------------

    def _without(self, part: Compiled, tree: Tree, side: Side | None) -> Compiled:
        names = bound(tree)
        inside = next((found for found in self.absent if names <= found), None)
        if inside is None:
            raise TreeError(f"{', '.join(sorted(names))} is no negation here")
        place = self.absent.pop(inside)
        assert isinstance(place.leaf, Neg)
        choices = alternatives(place.leaf.part)
        for choice in choices:
            inner = tree if len(choices) == 1 else plain_tree(choice)
            part = self._checked(part, place, choice, inner, side)
        return part

    def _checked(
        self, part: Compiled, place: Place, choice: Pattern, tree: Tree, side: Side | None
    ) -> Compiled:
        compiler = _Compiler.of(choice, self.conditions)
        negation = compiler.visit(tree)
        inside = frozenset(negation.aliases)
        around = self.own | inside
        tying = [
            c
            for c in self.conditions
            if (named := ex.aliases(c)) & inside and named <= around and not named <= inside
        ]
        missing = frozenset().union(*map(ex.aliases, tying)) - inside - set(part.aliases)
        if side is None:
            missing |= place.gap.aliases - set(part.aliases)
        if missing:
            raise TreeError(f"a negation is checked before {', '.join(sorted(missing))} is bound")
        conditions = _numbered(tying, (*part.aliases, *negation.aliases))
        operator: Operator
        if side is not None:
            operator = op.Push(part.operator, negation.operator, side, conditions)
        else:
            number = {alias: i for i, alias in enumerate(part.aliases)}
            before, after = (
                None if names is None else tuple(sorted(number[n] for n in names))
                for names in (place.gap.before, place.gap.after)
            )
            gap = op.Gap(before, after, place.gap.anywhere)
            operator = op.Absent(part.operator, negation.operator, gap, conditions)
        return Compiled(operator, part.aliases)


def _numbered(conditions: Iterable[ex.Expression], aliases: tuple[str, ...]) -> Conditions:
    """The conditions with numbers for aliases, in an order that does not depend on the query."""
    names = {alias: str(i) for i, alias in enumerate(aliases)}
    found = {canonical(ex.rename(condition, names)) for condition in conditions}
    return tuple(found if len(found) < 2 else sorted(found, key=print_expression))


def _kept(operator: Operator, conditions: Conditions) -> Operator:
    return op.Keep(operator, conditions) if conditions else operator


def _inside(negation: Neg) -> frozenset[str]:
    return frozenset(event.alias for event in positive_events(negation.part))
