"""What constants say of other components, through keys and through conditions that tie them.

    a.x = 5 AND b.x = a.x  ->  b.x = 5        a.x > 5 AND b.x >= a.x  ->  b.x > 5

Only where the events of components are looked for: what a query asks for stays as it is.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from optimizer.ir.pattern import Event, Symbol
from optimizer.ir.query import Query
from workloads import expressions as ex

_EXACT_INTEGERS = 2**53  # below it a number is on the same side of a constant, whatever its type
_MIRRORED: dict[ex.ComparisonOperator, ex.ComparisonOperator] = {
    "=": "=", "<": ">", "<=": ">=", ">": "<", ">=": "<=",
}  # fmt: skip
# By how a value is to another one, and that to a constant, how it is to the constant.
_FOLLOWING: dict[tuple[ex.ComparisonOperator, ex.ComparisonOperator], ex.ComparisonOperator] = {
    **{("=", operator): operator for operator in _MIRRORED},
    ("<", "="): "<", ("<", "<"): "<", ("<", "<="): "<",
    ("<=", "="): "<=", ("<=", "<"): "<", ("<=", "<="): "<=",
    (">", "="): ">", (">", ">"): ">", (">", ">="): ">",
    (">=", "="): ">=", (">=", ">"): ">", (">=", ">="): ">=",
}  # fmt: skip

Place = tuple[str, str]  # an alias and an attribute
Bound = tuple[ex.ComparisonOperator, ex.Expression]
Tie = tuple[Place, ex.ComparisonOperator, Place]


def carried_symbols(query: Query, bound: Sequence[Event]) -> dict[str, Symbol]:
    """By alias what the events of components are that are bound together in every match."""
    symbols = {event.alias: event.symbol for event in bound}
    if len(symbols) < len(bound):
        return symbols
    known: dict[Place, dict[Bound, None]] = defaultdict(dict)
    for alias, symbol in symbols.items():
        for predicate in symbol.predicates:
            for part in ex.conjuncts(predicate):
                if (found := _bound(part)) is not None:
                    known[alias, found[0]][found[1]] = None
    given = {place: set(bounds) for place, bounds in known.items()}
    ties = [*_ties(query, symbols)]
    changed = bool(ties)
    while changed:
        changed = False
        for place, operator, other in ties:
            for second, constant in list(known.get(other, ())):
                following = _FOLLOWING.get((operator, second))
                if following is not None and (following, constant) not in known[place]:
                    known[place][following, constant] = None
                    changed = True
    for (alias, name), bounds in known.items():
        more = [
            ex.Comparison(operator, ex.Attribute("", name), constant)
            for operator, constant in bounds
            if (operator, constant) not in given.get((alias, name), ())
        ]
        symbol = symbols[alias]
        symbols[alias] = Symbol(symbol.type, (*symbol.predicates, *more))
    return symbols


def _bound(condition: ex.Expression) -> tuple[str, Bound] | None:
    match condition:
        case ex.Comparison(operator, ex.Attribute(_, name), constant) if operator in _MIRRORED:
            return (name, (operator, constant)) if _can_be_carried(constant) else None
        case _:
            return None


def _can_be_carried(constant: ex.Expression) -> bool:
    if isinstance(constant, ex.Negative):
        constant = constant.operand
    if not isinstance(constant, ex.Literal) or isinstance(constant.value, bool):
        return False
    value = constant.value
    return isinstance(value, str) or (
        isinstance(value, int | float) and abs(value) < _EXACT_INTEGERS
    )


def _ties(query: Query, symbols: dict[str, Symbol]) -> Iterator[Tie]:
    """How attributes of bound components are to each other, both ways."""
    for condition in query.conditions:
        match condition:
            case ex.Comparison(operator, ex.Attribute(a, x), ex.Attribute(b, y)) if (
                operator in _MIRRORED and a != b and a in symbols and b in symbols
            ):
                yield (a, x), operator, (b, y)
                yield (b, y), _MIRRORED[operator], (a, x)
    for name in query.key:
        for one in symbols:
            yield from (((one, name), "=", (other, name)) for other in symbols if other != one)
