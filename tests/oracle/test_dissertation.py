"""Figure 2.6 of the dissertation on indexes, GPUs and temporal patterns."""

from tests.oracle.notation import matches


def test_figure_2_6_skip_till_any_finds_nine_matches():
    # The figure prints <a1, c2> twice; the second stands for <a2, c2>, else one match is missing.
    found = matches("OR(SEQ(A a, C c), SEQ(A a2, B+ b, C c2))", "a1 b2 a3 c4 b5 c6")
    assert found == sorted(
        [
            "a3 c4",
            "a1 b2 c4",
            "a1 b2 c6",
            "a1 c4",
            "a1 c6",
            "a1 b2 b5 c6",
            "a1 b5 c6",
            "a3 c6",
            "a3 b5 c6",
        ]
    )
