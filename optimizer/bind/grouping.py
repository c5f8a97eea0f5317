"""`GROUP BY`, checked: attributes by whose values aggregates are split."""

from __future__ import annotations

from dataclasses import dataclass, replace

from optimizer.bind.conditions import ordered_unique
from optimizer.bind.scope import QueryScope
from optimizer.ir.keys import GroupKey
from optimizer.ir.pattern import Event, Pattern, Symbol, positive_events, transform
from optimizer.ir.query import Query
from optimizer.rewrite.strategies import without_strategy
from workloads import syntax as sx
from workloads.errors import QueryError


@dataclass(frozen=True)
class GroupedQuery:
    """The groups of a query that are no part of its key, checked; `key` is with those that are."""

    groups: tuple[sx.Grouping, ...]
    key: tuple[str, ...]

    def of(self, query: Query) -> Query:
        """A bound query with its groups."""
        query = replace(query, key=self.key)
        if not self.groups:
            return query
        timed = query.is_timed and not query.has_own_clock
        within = query.window.size if timed else None
        by = (*query.key, *query.added_columns)
        found = {event.alias: event for event in positive_events(query.pattern)}
        keys = tuple(
            GroupKey(
                group.name,
                group.attribute.alias,
                group.attribute.name,
                found[group.attribute.alias].symbol,
                by,
                within,
            )
            for group in self.groups
        )

        def change(node: Pattern) -> Pattern:
            mine = [key.membership for key in keys if _is_of(node, key)]
            if not mine or not isinstance(node, Event):
                return node
            predicates = ordered_unique([*node.symbol.predicates, *mine])
            return replace(node, symbol=Symbol(node.symbol.type, predicates))

        pattern = transform(query.pattern, change)
        return replace(query, pattern=pattern, groups=keys)


def check_passed_over(scope: QueryScope, query: Query) -> None:
    """Where NEXT takes one event after the other, it cannot tell a component's from its group's."""
    if query.strategy != "next" or without_strategy(query) is not query:
        return
    first = next(positive_events(query.pattern)).alias
    for key in query.groups:
        if key.alias != first:
            assert isinstance(scope.query.output, sx.Aggregates)
            (span,) = (g.span for g in scope.query.output.groups if g.name == key.name)
            scope.report(
                QueryError(
                    f"which event '{key.alias}' is depends on what the groups of the pattern go on "
                    "with under STRATEGY NEXT",
                    span,
                    "group by the first component, or take groups 'E+' without conditions",
                )
            )


def _is_of(node: Pattern, key: GroupKey) -> bool:
    return isinstance(node, Event) and node.alias == key.alias


def bound_groups(scope: QueryScope, key: tuple[str, ...]) -> GroupedQuery:
    """The groups of a query that has this key; findings are reported."""
    output = scope.query.output
    assert isinstance(output, sx.Aggregates)
    found: list[sx.Grouping] = []
    names = {*key, *(tied.name for tied in scope.query.tied_keys)}
    for group in output.groups:
        # What all components have in common splits them already.
        if group.attribute.name == group.name and group.name in key:
            continue
        try:
            _check(scope, group, names)
        except QueryError as error:
            scope.report(error)
        names.add(group.name)
        if _is_key(scope.query, group):
            key = (*key, group.name)
        else:
            found.append(group)
    return GroupedQuery(tuple(found), key)


def _is_key(query: sx.Query, group: sx.Grouping) -> bool:
    """Is a group the same as a partition? So it is of single events in windows in time."""
    within = query.within
    plain = isinstance(query.pattern, sx.Component) and query.strategy == "any"
    timed = within is not None and not within.is_count and not query.session
    clocked = query.from_first or query.empty_rows
    return plain and timed and not clocked and group.name == group.attribute.name


def _check(scope: QueryScope, group: sx.Grouping, names: set[str]) -> None:
    attribute = group.attribute
    scope.check_names(attribute)
    alias = attribute.alias
    scope.check_returnable(alias, group.span, "grouped by")
    component = scope.components[alias]
    if group.name in names:
        raise QueryError(
            f"the key has '{group.name}' twice", group.span, "give it another name with AS"
        )
    if not isinstance(component.quantifier, sx.One):
        raise QueryError(
            f"'{alias}' is a group, whose events may have different values",
            group.span,
            "GROUP BY takes an attribute of a single event",
        )
    if component.optional or _in_choice(scope.query.pattern, alias):
        raise QueryError(
            f"a match need not have '{alias}', and would be in no group then",
            group.span,
            "take a component of every match, or write a query for each choice",
        )


def _in_choice(pattern: sx.Pattern, alias: str) -> bool:
    """Does a component stand in a part of an OR?"""
    match pattern:
        case sx.Operation("OR", parts):
            return any(_has(part, alias) for part in parts)
        case sx.Operation(_, parts):
            return any(_in_choice(part, alias) for part in parts)
        case _:
            return False


def _has(pattern: sx.Pattern, alias: str) -> bool:
    match pattern:
        case sx.Component():
            return pattern.name == alias
        case sx.Operation(_, parts):
            return any(_has(part, alias) for part in parts)
        case _:
            return False
