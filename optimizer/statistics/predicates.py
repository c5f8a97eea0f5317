"""What a predicate is called in statistics: its canonical form with symbols for aliases.

`a.x < b.x` with `A a, B b` is `A.x < B.x`; where a condition ties two components of one symbol the
later one in the pattern has a number: `A.x < "A#2".x`. The name does not say which of the
components comes first, nor in which window they stand.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from optimizer.canonical import canonical
from optimizer.ir.pattern import Pattern, Symbol, events
from workloads import expressions as ex
from workloads.printer import print_expression

Symbols = Mapping[str, Symbol]  # by alias, in the order of the pattern


def symbols_of(pattern: Pattern) -> dict[str, Symbol]:
    """The symbol of every alias, negated ones included, left to right."""
    found: dict[str, Symbol] = {}
    for event in events(pattern):
        found.setdefault(event.alias, event.symbol)
    return found


def local_text(symbol: Symbol, predicate: ex.Expression) -> str:
    """`A.x > 5` for the predicate `x > 5` of a symbol of type A."""
    return print_expression(canonical(ex.rename(predicate, {"": symbol.type})))


def joint_text(condition: ex.Expression, symbols: Symbols) -> str:
    """The condition's name by symbols: `"A[x > 1]".y < B.y`."""
    return _text(condition, symbols, str)


def joint_texts(condition: ex.Expression, symbols: Symbols) -> Iterator[str]:
    """All its names, the most exact first: by symbols, and by their types alone."""
    yield joint_text(condition, symbols)
    yield _text(condition, symbols, lambda symbol: symbol.type)


def _text(condition: ex.Expression, symbols: Symbols, call: Callable[[Symbol], str]) -> str:
    named = ex.aliases(condition)
    names: dict[str, str] = {}
    uses: dict[str, int] = {}
    for alias, symbol in symbols.items():
        if alias in named:
            name = call(symbol)
            uses[name] = uses.get(name, 0) + 1
            names[alias] = name if uses[name] == 1 else f"{name}#{uses[name]}"
    return print_expression(canonical(ex.rename(condition, names)))
