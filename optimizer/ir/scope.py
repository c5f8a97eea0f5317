"""Which negation each alias belongs to, and so where each condition is checked."""

from __future__ import annotations

from optimizer.ir.pattern import Event, Neg, Pattern, parts_of

Scope = tuple[int, ...]  # the path of negations from the root; () for what a match binds


def scopes(pattern: Pattern) -> dict[str, Scope]:
    """Each alias' path of negations, numbered left to right."""
    found: dict[str, Scope] = {}
    counter = 0

    def visit(node: Pattern, scope: Scope) -> None:
        nonlocal counter
        if isinstance(node, Event):
            found[node.alias] = scope
        elif isinstance(node, Neg):
            counter += 1
            visit(node.part, (*scope, counter))
        else:
            for part in parts_of(node):
                visit(part, scope)

    visit(pattern, ())
    return found


def innermost(paths: list[Scope]) -> Scope | None:
    """The deepest of scopes that lie inside one another; None where two do not."""
    deepest = max(paths, key=len, default=())
    return deepest if all(deepest[: len(p)] == p for p in paths) else None
