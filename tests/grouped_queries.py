"""What random aggregates may be split by: single components that every match has."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hypothesis import strategies as st

from workloads import expressions as ex
from workloads import syntax as sx


def groupings(
    draw: st.DrawFn, pattern: sx.Pattern, names: Sequence[str], strategy: str = "any"
) -> tuple[sx.Grouping, ...]:
    """One or two attributes of such components; none where the pattern has no such component.

    Behind a group, NEXT can leave open which event a component takes: then it is refused.
    """
    aliases = list(_single(pattern))
    if strategy == "next" and _has_groups(pattern):
        first = next(_components(pattern))
        aliases = [first.name] if first.name in aliases else []
    if not aliases:
        return ()
    drawn = [
        (draw(st.sampled_from([aliases[0], aliases[-1], *aliases])), draw(st.sampled_from(names)))
        for _ in range(draw(st.sampled_from([1, 1, 1, 2])))
    ]
    return tuple(
        sx.Grouping(ex.Attribute(alias, name), f"by{number}")
        for number, (alias, name) in enumerate(drawn)
    )


def _components(pattern: sx.Pattern) -> Iterator[sx.Component]:
    match pattern:
        case sx.Component():
            yield pattern
        case sx.Operation(_, parts):
            for part in parts:
                yield from _components(part)
        case _:
            pass  # what must not occur


def _has_groups(pattern: sx.Pattern) -> bool:
    return any(not isinstance(each.quantifier, sx.One) for each in _components(pattern))


def _single(pattern: sx.Pattern) -> Iterator[str]:
    match pattern:
        case sx.Component(quantifier=sx.One()) if not pattern.optional:
            yield pattern.name
        case sx.Operation("SEQ" | "AND", parts):
            for part in parts:
                yield from _single(part)
        case _:
            pass
