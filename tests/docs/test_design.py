"""The formulas of docs/design.md hold, by what the reference enumerates."""

from collections.abc import Mapping, Sequence

from hypothesis import given
from hypothesis import strategies as st

from tests.oracle.notation import matches

# Pattern, its components, which of them are groups, and what is negated behind which.
PATTERNS: list[tuple[str, str, frozenset[int], Mapping[int, str]]] = [
    ("SEQ(A a, B b, C c)", "abc", frozenset(), {}),
    ("SEQ(A a, !X, B b, C c)", "abc", frozenset(), {1: "x"}),
    ("SEQ(A a, B+ b, C c)", "abc", frozenset({2}), {}),
    ("SEQ(A+ a, B b, !X, C c)", "abc", frozenset({1}), {2: "x"}),
    ("SEQ(A a, B b, A again)", "aba", frozenset(), {}),
]


def recurrence(
    components: str, groups: frozenset[int], negated: Mapping[int, str], moments: Sequence[str]
) -> int:
    """`v'[j] = k[j] v[j] + m[j] (v[j-1] + p[j] v[j])`, moment by moment; the last entry."""
    v = [1] + [0] * len(components)
    for moment in moments:
        before = list(v)
        for j, letter in enumerate(components, 1):
            k = negated.get(j, "-") not in moment
            p = j in groups
            v[j] = k * before[j] + moment.count(letter) * (before[j - 1] + p * before[j])
    return v[-1]


@given(
    st.sampled_from(PATTERNS),
    st.lists(st.text("abcx", min_size=1, max_size=2), max_size=7),
)
def test_the_recurrence_counts_the_matches_of_the_reference(
    query: tuple[str, str, frozenset[int], Mapping[int, str]], moments: list[str]
) -> None:
    pattern, *shape = query
    names = [
        letter + str(time) + "'" * moment[:i].count(letter)
        for time, moment in enumerate(moments, 1)
        for i, letter in enumerate(moment)
    ]
    assert recurrence(*shape, moments) == len(matches(pattern, " ".join(names)))
