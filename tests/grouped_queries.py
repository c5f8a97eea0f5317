"""What random aggregates may be split by: single components that every match has."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hypothesis import strategies as st

from workloads import expressions as ex
from workloads import syntax as sx


def groupings(
    draw: st.DrawFn, pattern: sx.Pattern, names: Sequence[str]
) -> tuple[sx.Grouping, ...]:
    """One or two attributes of such components; none where the pattern has no such component."""
    aliases = list(_single(pattern, False))
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


def _single(pattern: sx.Pattern, marked: bool) -> Iterator[str]:
    match pattern:
        case sx.Component(quantifier=sx.One()) if not pattern.optional and not marked:
            yield pattern.name
        case sx.Operation("SEQ" | "AND"):
            for mark, part in pattern.marked_parts:
                yield from _single(part, marked or mark == "next")
        case _:
            pass
