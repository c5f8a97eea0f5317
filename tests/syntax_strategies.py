"""Any query that the parser can make, whether it means anything or not."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

from hypothesis import strategies as st

from tests.strategies import ARITHMETIC, COMPARISONS
from workloads import expressions as ex
from workloads import syntax as sx

_ANY_NAME = st.one_of(
    st.sampled_from(
        ["a", "b1", "_x", "Order", "seq", "time", "EVENTS", "sum", "Größe", 'say "hi"']
    ),
    st.text(st.characters(exclude_characters="\n", codec="utf-8"), min_size=1, max_size=6),
)
_ANY_NUMBER = st.one_of(
    st.integers(-(2**70), 2**70), st.floats(allow_nan=False, allow_infinity=True)
)
_ANY_LITERAL = st.builds(
    ex.Literal,
    st.one_of(_ANY_NUMBER, st.text(max_size=6), st.booleans(), st.none()),
)


def _unsigned(value: ex.Expression) -> bool:
    """Would a minus sign before it stay a sign? Before a number it makes another number."""
    return not (isinstance(value, ex.Literal) and type(value.value) in (int, float))


def _larger(inner: st.SearchStrategy[ex.Expression]) -> st.SearchStrategy[ex.Expression]:
    several = st.lists(inner, min_size=2, max_size=3).map(tuple)
    return st.one_of(
        st.builds(ex.Negative, inner.filter(_unsigned)),
        st.builds(ex.Arithmetic, ARITHMETIC, inner, inner),
        st.builds(ex.Comparison, COMPARISONS, inner, inner),
        st.builds(ex.Call, _ANY_NAME.map(str.lower).filter(_is_lower), st.none() | inner),
        st.builds(
            ex.Membership,
            inner,
            st.lists(_ANY_LITERAL, min_size=1, max_size=3).map(tuple),
            st.booleans(),
        ),
        st.builds(ex.IsNull, inner, st.booleans()),
        st.builds(ex.Not, inner),
        st.builds(ex.Logical, st.sampled_from(["AND", "OR"]), several),
    )


def _is_lower(name: str) -> bool:
    """Lowering some letters gives several that lower again to something else."""
    return bool(name) and name.lower() == name


def any_expressions() -> st.SearchStrategy[ex.Expression]:
    """Any value or condition that the parser can make."""
    leaves = st.one_of(
        st.builds(
            ex.DurationLiteral,
            st.decimals(0, 1000, allow_nan=False, allow_infinity=False, places=3).map(abs),
            st.sampled_from(list(sx.UNITS)),
        ),
        _ANY_LITERAL,
        st.builds(ex.Attribute, st.just("") | _ANY_NAME, _ANY_NAME),
        st.builds(ex.Equivalence, st.lists(_ANY_NAME, min_size=1, max_size=2).map(tuple)),
    )
    return st.recursive(leaves, _larger, max_leaves=6)


def any_patterns() -> st.SearchStrategy[sx.Pattern]:
    """Any pattern that the parser can make."""
    quantifier = st.one_of(
        st.just(sx.ONE),
        st.just(sx.Plus()),
        st.just(sx.All()),
        st.just(sx.ConsecutivePlus()),
        st.integers(1, 100).map(sx.Exactly),
        st.builds(
            lambda least, more, run: sx.Between(least, None if more is None else least + more, run),
            st.integers(2, 50),
            st.none() | st.integers(0, 50),
            st.booleans(),
        ),
    )
    may_be_absent = st.sampled_from(
        [sx.ONE, sx.Plus(), sx.ConsecutivePlus(), sx.Between(1, 1), sx.Between(1, 7, True)]
    )
    name, alias = _ANY_NAME, st.none() | _ANY_NAME
    leaves: st.SearchStrategy[sx.Pattern] = st.one_of(
        st.builds(sx.Component, name, alias, quantifier),
        st.builds(sx.Component, name, alias, may_be_absent, optional=st.just(True)),
    )
    return st.recursive(
        leaves,
        lambda inner: st.one_of(
            st.builds(sx.Negation, inner.filter(lambda p: not isinstance(p, sx.Negation))),
            st.builds(
                sx.Operation,
                st.sampled_from(["SEQ", "AND", "OR"]),
                st.lists(inner, min_size=1, max_size=3).map(tuple),
            ),
        ),
        max_leaves=6,
    )


def syntax_queries() -> st.SearchStrategy[sx.Query]:
    """Any query that the parser can make, whether it binds or not."""
    amount = st.one_of(
        st.integers(0, 10**6).map(Decimal),
        st.decimals(0, 1000, allow_nan=False, allow_infinity=False, places=3).map(abs),
    )
    duration = st.builds(sx.Duration, amount, st.sampled_from([*sx.UNITS, "EVENTS"]))
    value = any_expressions()
    item = st.one_of(
        st.builds(sx.Item, _ANY_NAME, st.none() | _ANY_NAME),
        st.just(sx.Item(None)),
        st.builds(
            sx.Item,
            value.filter(lambda v: not (isinstance(v, ex.Attribute) and v.alias == "")),
            st.none() | _ANY_NAME,
        ),
    )
    grouping = st.builds(
        lambda alias, name, shown: sx.Grouping(ex.Attribute(alias, name), shown or name),
        _ANY_NAME,
        _ANY_NAME,
        st.none() | _ANY_NAME,
    )
    output = st.one_of(
        st.builds(
            sx.Aggregates,
            st.lists(value, min_size=1, max_size=3).map(tuple),
            st.none() | value,
            groups=st.lists(grouping, max_size=2).map(tuple),
        ),
        st.builds(
            sx.Return,
            st.lists(item, min_size=1, max_size=3).map(tuple),
            st.none() | st.integers(1, 1_000_000),
        ),
    )
    plain = st.builds(
        sx.Query,
        name=st.none() | _ANY_NAME,
        pattern=any_patterns(),
        within=duration,
        output=output,
        where=st.none() | value,
        partition_by=st.lists(_ANY_NAME, max_size=2).map(tuple),
        slide=st.none() | duration,
        from_first=st.booleans(),
        empty_rows=st.booleans(),
    )
    types = st.lists(_ANY_NAME, min_size=1, max_size=2).map(tuple)
    return st.one_of(
        plain,
        plain.map(lambda query: replace(query, session=True)),
        st.builds(
            lambda query, counted: replace(
                query, within=replace(query.within, unit="EVENTS"), counted_types=counted
            ),
            plain,
            types,
        ),
        st.builds(_join_query, plain, st.builds(sx.Join, *[_sides(duration)] * 2, st.booleans())),
    )


def _sides(duration: st.SearchStrategy[sx.Duration]) -> st.SearchStrategy[sx.JoinSide]:
    component = st.builds(sx.Component, _ANY_NAME, st.none() | _ANY_NAME)
    return st.builds(sx.JoinSide, component, duration)


def _join_query(query: sx.Query, join: sx.Join) -> sx.Query:
    """A query whose pattern is a join, which has no window of its own."""
    sides = (join.left.within, join.right.within)
    counted = [side for side in sides if side.is_count] or sides
    within = counted[0] if len(counted) == 1 else max(counted, key=lambda side: side.size)
    return replace(query, pattern=join, within=within)
