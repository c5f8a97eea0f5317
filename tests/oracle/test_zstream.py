"""ZStream's worked examples (Mei and Madden), by figure."""

from tests.oracle.notation import matches


def test_figure_5_only_the_a_after_the_last_b_matches():
    assert matches("A; !B; C", "a1 b2 b3 a4 c5") == ["a4 c5"]


def test_figure_6_a_closure_of_two_slides_over_the_middle():
    assert matches("A; B^2 b; C", "a1 b2 b3 b5 c6") == ["a1 b2 b3 c6", "a1 b3 b5 c6"]


def test_figure_6_a_closure_without_count_takes_all():
    assert matches("A; ALL B b; C", "a1 b2 b3 b5 c6") == ["a1 b2 b3 b5 c6"]


def test_section_5_2_1_two_spellings_of_one_pattern():
    stream = "a1 d2 b3 d4 a5 d6 c7 d8"
    expected = ["a1 d2", "a5 d6"]
    assert matches("A; (!B & !C); D", stream) == expected
    assert matches("A; !(B | C); D", stream) == expected
