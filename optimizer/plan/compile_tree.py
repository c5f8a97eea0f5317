"""From the tree of an OR-free reading to the operators that run it."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from optimizer.bind.conditions import canonical
from optimizer.ir.implication import all_implied
from optimizer.ir.pattern import (
    Event,
    Neg,
    Pattern,
    Position,
    Seq,
    Symbol,
    alternatives,
    places,
    positive_events,
)
from optimizer.ir.query import Aggregation, Query, Reading
from optimizer.plan import join_operators as op
from optimizer.plan.join_operators import (
    Conditions,
    Operator,
    ends_of,
    in_turn,
    late_groups,
    nearest,
    tests_of,
)
from optimizer.plan.plan import PlanError
from optimizer.trees import (
    AndJoin,
    KSeq,
    Latest,
    Leaf,
    Narrowed,
    NegTop,
    NSeq,
    SeqJoin,
    Tree,
    TreeError,
    Walk,
    print_tree,
)
from optimizer.trees.marks import MarkTest, component, mark_test
from optimizer.trees.narrowing import left_to_check
from optimizer.trees.negation import depends, links, negated_choices
from optimizer.trees.plain import is_latest_of, latest_tree, negated_tree, plain_tree
from optimizer.trees.propagation import EventPassing
from optimizer.trees.propagation import Reach as PassDownReach
from optimizer.trees.tree import Marked, Side, Taken, bound, readings_of, without_passing
from workloads import expressions as ex
from workloads.printing import print_expression
from workloads.syntax import All


class CompiledOperator(NamedTuple):
    """An operator, and the aliases of its components in their order."""

    operator: Operator
    aliases: tuple[str, ...]


class CompiledTree(NamedTuple):
    """The operators of a tree, and the operator that each of its nodes has become."""

    operator: Operator
    aliases: tuple[str, ...]
    nodes: Mapping[Tree, Operator]


def compile_tree(
    tree: Tree,
    pattern: Pattern,
    conditions: Conditions,
    reach: PassDownReach | None = None,
    windows: bool = False,
) -> CompiledTree:
    """The operators of a tree; raises `TreeError` where it does not evaluate the pattern.

    With `windows` negations at its edges look at each window of a match, and not at its own.
    """
    compiler = _Compiler.of(pattern, conditions, reach, windows)
    found = compiler.whole(tree)
    constants = tuple(c for c in conditions if not ex.aliases(c))
    operator = _kept(found.operator, constants)
    return CompiledTree(operator, found.aliases, {**compiler.nodes, tree: operator})


@dataclass
class _Compiler:
    own: frozenset[str]
    components: dict[str, Position]
    absent: dict[
        frozenset[str], Position
    ]  # negations that no node has checked yet, by what they bind
    conditions: Conditions
    reach: PassDownReach | None = None
    windows: bool = False
    outer: frozenset[str] = frozenset()  # what is bound around a negation
    inside: bool = False  # are rows bound in the gap of a negation, which they know?
    late: frozenset[str] = frozenset()  # groups that are bound behind all else
    postponed: list[tuple[Position, Tree]] = field(
        default_factory=list
    )  # negations that wait so long
    unsettled: list[str] = field(default_factory=list)  # groups whose ends are to be checked
    nodes: dict[Tree, Operator] = field(default_factory=dict)  # what each node has become

    @staticmethod
    def of(
        pattern: Pattern,
        conditions: Conditions,
        reach: PassDownReach | None = None,
        windows: bool = False,
    ) -> _Compiler:
        found = places(pattern)
        components = {p.leaf.alias: p for p in found if isinstance(p.leaf, Event)}
        absent = {_inside(p.leaf): p for p in found if isinstance(p.leaf, Neg)}
        return _Compiler(frozenset(components), components, absent, conditions, reach, windows)

    def whole(self, tree: Tree) -> CompiledOperator:
        """The operators of the whole pattern."""
        self.late = late_groups(tree, self.components, self.conditions, self.outer)
        found = self._visit(tree)
        for alias in in_turn(self.late, self.components):
            found = self._with_group(found, alias)
        names = set(() if found is None else found.aliases)
        if found is None or names != self.own or self.absent:
            missing = self.own ^ names | set().union(*self.absent)
            raise TreeError(f"the tree and the query differ in {', '.join(sorted(missing))}")
        for alias in self.unsettled:
            found = self._settled(found, alias)
        for place, inner in self.postponed:
            found = self._absent(found, place, inner, None)
        return found

    def _visit(self, tree: Tree) -> CompiledOperator | None:
        """The operators of a subtree; None where all that it binds is late."""
        found = self._compiled(tree)
        if found is not None:
            self.nodes[tree] = found.operator
        return found

    def _compiled(self, tree: Tree) -> CompiledOperator | None:
        match tree:
            case Leaf(alias):
                return CompiledOperator(self._reached(alias), (alias,))
            case SeqJoin(left, right):
                return self._joined(self._visit(left), self._visit(right), ordered=True)
            case AndJoin(left, right):
                return self._joined(self._visit(left), self._visit(right), ordered=False)
            case Walk(parts, ordered):
                return self._walked([self._visit(part) for part in parts], ordered)
            case NSeq(part, negation) | NegTop(part, negation):
                below = self._visit(part)
                side = tree.side if isinstance(tree, NSeq) else None
                return self._without(below, negation, side)
            case Latest(parts):
                events = [found for part in parts if (found := self._visit(part)) is not None]
                aliases = tuple(alias for found in events for alias in found.aliases)
                return CompiledOperator(
                    op.Latest(tuple(found.operator for found in events)), aliases
                )
            case KSeq(start, closures, end):
                sides = [None if side is None else self._visit(side) for side in (start, end)]
                found = self._joined(sides[0], sides[1], ordered=True)
                groups = {closure.alias for closure in closures}
                if unknown := groups - self.own:
                    raise TreeError(f"{', '.join(sorted(unknown))} is no component here")
                for alias in in_turn(groups - self.late, self.components):
                    found = self._with_group(found, alias)
                return found
            case Narrowed():
                return self._narrowed(tree)
            case Marked():
                return self._marked(tree)
            case Taken():
                return self._taken(tree)
            case _:
                raise TreeError(f"{type(tree).__name__} is not run as a tree")

    def _narrowed(self, tree: Narrowed) -> CompiledOperator:
        """The rows of a piece that asks for less, and a filter."""
        components = dict(self.components)
        for alias, symbol in tree.symbols:
            place = components.get(alias)
            if place is None or not isinstance(place.leaf, Event):
                raise TreeError(f"{alias} is no component here")
            components[alias] = replace(place, leaf=replace(place.leaf, symbol=symbol))
        inner = replace(self, components=components, conditions=tree.conditions)
        found = inner._visit(tree.part)
        if found is None:
            raise TreeError("a piece that asks for less binds something")
        names, own = frozenset(found.aliases), {a: self._symbol(a) for a, _ in tree.symbols}
        asked = {event for event in self.components if event in names}
        if asked != names or not self._are_implied(tree, names):
            raise TreeError("a piece that is read asks for more than the query does")
        operator = found.operator
        if tree.window is not None:
            operator = op.Within(operator, tree.window)
        left = left_to_check(own, self.conditions, tree, names)
        return found._replace(operator=_kept(operator, _numbered(left, found.aliases)))

    def _are_implied(self, tree: Narrowed, names: frozenset[str]) -> bool:
        """Does the query ask for all that a piece asks of what it binds?"""
        asked = [c for c in tree.conditions if ex.aliases(c) <= names]
        return all_implied(asked, tuple(map(canonical, self.conditions))) and all(
            symbol.type == self._symbol(alias).type
            and all_implied(symbol.predicates, self._symbol(alias).predicates)
            for alias, symbol in tree.symbols
        )

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
        if not self.reach.passing:
            return op.Reached(leaf, self._leaf(self.reach.last))
        tying = [c for c in self.conditions if ex.aliases(c) == set(both)]
        if not tying:
            return leaf
        return op.Reached(leaf, self._leaf(self.reach.last), _numbered(tying, both))

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

    def _joined(
        self, left: CompiledOperator | None, right: CompiledOperator | None, ordered: bool
    ) -> CompiledOperator | None:
        if left is None or right is None:
            return right if left is None else left
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
        return CompiledOperator(joined, aliases)

    def _walked(
        self, parts: list[CompiledOperator | None], ordered: bool
    ) -> CompiledOperator | None:
        """Parts as they are bound; in the operator they stand as in the pattern."""
        known = [part for part in parts if part is not None]
        if len(known) < 2:
            return known[0] if known else None
        place = {alias: i for i, alias in enumerate(self.components)}
        standing = sorted(known, key=lambda part: min(place[alias] for alias in part.aliases))
        aliases = tuple(alias for part in standing for alias in part.aliases)
        own = [frozenset(part.aliases) for part in standing]
        if ordered:
            self._follow(own)
        rivals: tuple[tuple[int, int], ...] = ()
        if not ordered:
            owner = {alias: i for i, names in enumerate(own) for alias in names}
            rivals = tuple(
                (i, j)
                for (i, one), (j, other) in itertools.combinations(enumerate(aliases), 2)
                if owner[one] != owner[other] and other in self.components[one].rivals
            )
        walk = op.Walk(
            tuple(part.operator for part in standing),
            tuple(standing.index(part) for part in known),
            ordered,
            _numbered(self._asked(aliases, tuple(own)), aliases),
            rivals,
        )
        return CompiledOperator(walk, aliases)

    def _follow(self, parts: list[frozenset[str]]) -> None:
        """Raise an error where parts do not follow each other in the pattern."""
        for left, right in itertools.pairwise(parts):
            for alias in right:
                earlier = frozenset().union(*self.components[alias].earlier)
                if not left <= earlier:
                    names = ", ".join(sorted(left - earlier))
                    raise TreeError(f"{alias} does not follow {names}")

    # --- groups --------------------------------------------------------------------------------

    def _with_group(self, part: CompiledOperator | None, alias: str) -> CompiledOperator:
        place = self.components[alias]
        event = place.leaf
        assert isinstance(event, Event)
        have = () if part is None else part.aliases
        aliases = (*have, alias)
        number = {name: i for i, name in enumerate(have)}
        before, after = (
            tuple(sorted(number[name] for name in nearest(parts, have))) or None
            for parts in (place.earlier, place.later)
        )
        tests = tests_of(alias, have, self.conditions)
        lower: op.End = "gap"
        upper: op.End = "gap"
        if isinstance(event.quantifier, All):
            lower, upper = ends_of(place, have, self.components, self.inside)
            if not {lower, upper} <= {"gap", "reach"}:
                self.unsettled.append(alias)
        operator: Operator = op.Closure(
            None if part is None else part.operator,
            event.symbol,
            event.quantifier,
            op.Gap(before, after, inside=self.inside),
            _numbered(tests, aliases),
            tuple((number[name], self._symbol(name)) for name in have if name in place.rivals),
            lower,
            upper,
        )
        asked = [c for c in self._asked(aliases, (frozenset(have),)) if c not in tests]
        return CompiledOperator(_kept(operator, _numbered(asked, aliases)), aliases)

    def _symbol(self, alias: str) -> Symbol:
        event = self.components[alias].leaf
        assert isinstance(event, Event)
        return event.symbol

    def _settled(self, part: CompiledOperator, alias: str) -> CompiledOperator:
        """The rows whose group is whole, now that all is bound."""
        place = self.components[alias]
        event = place.leaf
        assert isinstance(event, Event)
        # Tests name the group's event behind all that is bound.
        others = tuple("" if name == alias else name for name in part.aliases)
        asked = tests_of(alias, self.own | self.outer, self.conditions)
        tests = _numbered(asked, (*others, alias))
        number, gap = part.aliases.index(alias), self._gap(place, part.aliases)
        whole = op.Whole(part.operator, number, event.symbol, gap, tests)
        return part._replace(operator=whole)

    # --- negations -----------------------------------------------------------------------------

    def _without(
        self, part: CompiledOperator | None, tree: Tree, side: Side | None
    ) -> CompiledOperator | None:
        names = bound(tree)
        inside = next((found for found in self.absent if names <= found), None)
        if inside is None:
            raise TreeError(f"{', '.join(sorted(names))} is no negation here")
        place = self.absent.pop(inside)
        reads = frozenset().union(*(n for c in self.conditions if (n := ex.aliases(c)) & inside))
        assert isinstance(place.leaf, Neg)
        later = self.late | self.outer
        if (
            later & (place.gap.aliases | reads)
            or (later and place.gap.at_edge)
            or depends(place.leaf, self.conditions)
        ):
            self.postponed.append((place, tree))
            return part
        assert part is not None
        return self._absent(part, place, tree, side)

    def _absent(
        self, part: CompiledOperator, place: Position, tree: Tree, side: Side | None
    ) -> CompiledOperator:
        assert isinstance(place.leaf, Neg)
        choices = negated_choices(place.leaf, self.conditions)
        as_planned = choices == (place.leaf.part,)
        for choice in choices:
            inner = tree if as_planned else plain_tree(choice)
            chain = links(choice, self.conditions)
            if chain is not None and not isinstance(inner, Latest):
                inner = latest_tree(chain)  # however it was planned: no sequence of it need be made
            if isinstance(inner, Latest) and not is_latest_of(inner, chain):
                raise TreeError(f"one pass does not decide {print_tree(inner)}")
            part = self._checked(part, place, choice, inner, side)
        return part

    def _checked(
        self,
        part: CompiledOperator,
        place: Position,
        choice: Pattern,
        tree: Tree,
        side: Side | None,
    ) -> CompiledOperator:
        assert isinstance(place.leaf, Neg)
        if depends(place.leaf, self.conditions):
            return self._lacking(part, place, choice, tree)
        within = _Compiler.of(choice, self.conditions)
        negation = within.whole(tree)
        self.nodes |= within.nodes
        inside = frozenset(negation.aliases)
        around = self.own | self.outer | inside
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
            gap = self._gap(place, part.aliases)
            kind = op.Shorten if self.windows and place.gap.at_edge else op.Absent
            operator = kind(part.operator, negation.operator, gap, conditions)
        return CompiledOperator(operator, part.aliases)

    # --- negations of several readers ----------------------------------------------------------

    def _marked(self, tree: Marked) -> CompiledOperator:
        """The rows of a piece, and all negations that its readers ask for."""
        found = self._visit(tree.part)
        if found is None or sorted(found.aliases) != sorted(tree.aliases):
            raise TreeError("what is marked is not the piece that its negations are of")
        if any(not 0 <= number < len(tree.tests) for asked in tree.readers for number in asked):
            raise TreeError("a reader asks for a negation that is not there")
        names = {alias: component(i) for i, alias in enumerate(tree.aliases, 1)}
        events = [self.components[alias].leaf for alias in tree.aliases]
        renamed = [replace(event, alias=names[event.alias]) for event in events
                   if isinstance(event, Event)]  # fmt: skip
        part = found._replace(aliases=tuple(names[alias] for alias in found.aliases))
        checks: dict[op.Check, int] = {}
        numbers = [
            [checks.setdefault(c, len(checks)) for c in self._checks(part, test, i, renamed)]
            for i, test in enumerate(tree.tests)
        ]
        readers = tuple(
            tuple(sorted({number for test in asked for number in numbers[test]}))
            for asked in tree.readers
        )
        return found._replace(operator=op.Marked(found.operator, tuple(checks), readers))

    def _checks(
        self, part: CompiledOperator, test: MarkTest, number: int, events: Sequence[Event]
    ) -> Iterator[op.Check]:
        """What a negation of a piece looks for; components have the names they have in tests."""
        if not 0 < test.after < len(events):
            raise TreeError("a negation stands between two components of a piece")
        own = test.numbered(number)
        negation = Neg(own.negation)
        pattern = Seq((*events[: test.after], negation, *events[test.after :]))
        compiler = _Compiler.of(pattern, own.conditions)
        (place,) = compiler.absent.values()
        if depends(negation, own.conditions):
            raise TreeError("a negation that depends on what is around it has no mark")
        found = compiler._absent(part, place, negated_tree(negation), None).operator
        self.nodes |= compiler.nodes
        while isinstance(found, op.Absent) and found != part.operator:
            yield op.Check(found.negation, found.gap, found.conditions)
            found = found.part

    def _taken(self, tree: Taken) -> CompiledOperator:
        """The rows of one reader, whose negations in the piece are all checked with that."""
        marked = tree.part
        if not isinstance(marked, Marked) or not 0 <= tree.reader < len(marked.readers):
            raise TreeError("rows are taken by a mark that nothing has set")
        found = self._visit(marked)
        assert found is not None
        assert isinstance(found.operator, op.Marked)
        names = {alias: component(i) for i, alias in enumerate(marked.aliases, 1)}
        checked = {marked.tests[number] for number in marked.readers[tree.reader]}
        own: set[MarkTest] = set()
        for inside, place in list(self.absent.items()):
            gap = place.gap
            if gap.before and gap.after and gap.aliases <= names.keys():
                assert isinstance(place.leaf, Neg)
                after = marked.aliases.index(gap.before[-1]) + 1
                test = mark_test(after, place.leaf, self.conditions, names)
                if test is not None and test in checked:
                    own.add(test)
                    del self.absent[inside]
        if own != checked:
            raise TreeError("the negations of a mark are not those of the query")
        return found._replace(operator=op.Taken(found.operator, tree.reader))

    def _lacking(
        self, part: CompiledOperator, place: Position, choice: Pattern, tree: Tree
    ) -> CompiledOperator:
        """What a negation says of rows whose surroundings it depends on."""
        inner = _Compiler.of(choice, self.conditions)
        inner.outer = frozenset(part.aliases)
        inner.late = late_groups(tree, inner.components, self.conditions, inner.outer)
        alone = inner._visit(tree)
        own = () if alone is None else alone.aliases
        aliases = (*part.aliases, f"row {len(part.aliases)}", *own)
        tying = [
            c
            for c in self.conditions
            if (named := ex.aliases(c)) & set(own) and named <= set(aliases) and named - set(own)
        ]
        within = op.Inside(
            None if alone is None else alone.operator,
            self._gap(place, part.aliases),
            _numbered(tying, aliases),
        )
        found = CompiledOperator(within, aliases)
        inner.inside = True
        for alias in in_turn(inner.late, inner.components):
            found = inner._with_group(found, alias)
        for alias in inner.unsettled:
            found = inner._settled(found, alias)
        for below, its_tree in inner.postponed:
            found = inner._absent(found, below, its_tree, None)
        if inner.absent:
            raise TreeError("the tree leaves out a negation in a negation")
        return part._replace(operator=op.Lacking(part.operator, found.operator))

    def _gap(self, place: Position, aliases: tuple[str, ...]) -> op.Gap:
        number = {alias: i for i, alias in enumerate(aliases)}
        before, after = (
            None if names is None else tuple(sorted(number[n] for n in names))
            for names in (place.gap.before, place.gap.after)
        )
        return op.Gap(before, after, place.gap.anywhere, self.inside)


def _numbered(conditions: Iterable[ex.Expression], aliases: tuple[str, ...]) -> Conditions:
    """The conditions with numbers for aliases, in an order that does not depend on the query."""
    names = {alias: str(i) for i, alias in enumerate(aliases)}
    found = {canonical(ex.rename(condition, names)) for condition in conditions}
    return tuple(found if len(found) < 2 else sorted(found, key=print_expression))


def _kept(operator: Operator, conditions: Conditions) -> Operator:
    return op.Keep(operator, conditions) if conditions else operator


def _inside(negation: Neg) -> frozenset[str]:
    return frozenset(event.alias for event in positive_events(negation.part))


@dataclass(frozen=True)
class ReadingTree:
    """One OR-free reading of a query's pattern, and the operators that find its matches.

    `asked` is the query that the reading makes alone.
    """

    pattern: Pattern
    asked: Query
    tree: Tree
    compiled: CompiledTree

    @staticmethod
    def of(reading: Reading, tree: Tree) -> ReadingTree:
        _, pattern, asked = reading
        joins, way = without_passing(tree)
        reach = None if way == "push" else EventPassing(asked, way).reach
        windows = isinstance(asked.output, Aggregation)
        compiled = compile_tree(joins, pattern, asked.conditions, reach, windows)
        return ReadingTree(pattern, asked, joins if reach is None else tree, compiled)

    def __str__(self) -> str:
        return print_tree(self.tree)


def reading_trees(query: Query, tree: Tree) -> tuple[ReadingTree, ...]:
    """The trees of a query's readings, from the tree that a plan has for all of them."""
    patterns = alternatives(query.pattern)
    trees = readings_of(tree)
    if len(trees) != len(patterns):
        raise PlanError(
            f"the plan has {len(trees)} trees for query {query.name}, which can be read in "
            f"{len(patterns)} ways; make it again from its workload"
        )
    return tuple(
        ReadingTree.of(Reading.of(query, pattern), part)
        for pattern, part in zip(patterns, trees, strict=True)
    )
