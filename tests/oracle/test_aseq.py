"""The worked examples of A-Seq (Qi's thesis, chapters 3 and 4), by number.

The figures themselves are not in the text; each stream is rebuilt from what its example says of
it, and the expected numbers are the thesis' own.
"""

from tests.oracle.notation import counts


def test_section_3_1_counts_four_matches_of_abc():
    assert counts("SEQ(A, B, C)", "a1 b2 c3 a4 b5 c6") == {3: 1, 6: 4}


def test_example_2_a_new_b_adds_the_count_of_a_to_that_of_ab():
    # (A) = 3 and (A, B) = 2 before the last b; 5 after it.
    assert counts("SEQ(A, B)", "a1 a2 b3 a4 b5") == {3: 2, 5: 5}


def test_example_3_outputs_2_when_d_arrives():
    assert counts("SEQ(A, B, C, D)", "a1 b2 c3 a4 c5 b6 d7") == {7: 2}


def test_example_4_expired_starts_no_longer_count():
    # Window of 7 s: a1 expires at 8 s, so d2 at 10 s sees a2's single match.
    stream = "a1 b2 c3 a4 c5 b6 d7 c8 a9 d10"
    assert counts("SEQ(A, B, C, D)", stream, "7 s") == {7: 2, 10: 1}


def test_example_5_a_negated_event_between_b_and_d_invalidates():
    assert counts("SEQ(A, B, !C, D)", "a1 b2 c3 a4 b5 d6") == {6: 2}


def test_section_3_3_negation_at_the_start_ends_with_the_negated_event():
    # (!A, B, C, D): while a1 is in the window nothing counts; when it has expired, all does.
    stream = "a1 b2 c3 d4 d9"
    assert counts("SEQ(!A, B, C, D)", stream, "7 s") == {}
    assert counts("SEQ(!A, B, C, D)", stream + " b9 c10 d11", "7 s") == {11: 1}


def test_section_3_3_negation_second_purges_the_starts_before_it():
    assert counts("SEQ(A, !B, C, D)", "a1 b2 a3 c4 d5") == {5: 1}


def test_example_6_an_equivalence_predicate_splits_the_stream():
    stream = "a1(id=1) a2(id=2) b3(id=1) a4(id=1) b5(id=2) c6(id=1) c7(id=2) d8(id=1) d9(id=3)"
    query = "SEQ(A a, B b, C c, D d)"
    where = "a.id = b.id AND b.id = c.id AND c.id = d.id"
    assert counts(query, stream, "8 s", where) == {(1,): {8: 1}}


def test_example_8_connects_abc_with_de():
    # #(A, B, C) is 1 when d1 arrives and 4 when d2 does: 1 * 1 + 4 * 1 = 5 at e1.
    stream = "a1 b2 c3 a4 b5 d6 c7 d8 e9"
    assert counts("SEQ(A, B, C)", stream) == {3: 1, 7: 4}
    assert counts("SEQ(A, B, C, D, E)", stream) == {9: 5}


def test_example_9_expired_starts_drop_out_of_the_snapshots():
    # a1 expires when e1 arrives at 10 s: 1 x 0 + (1 x 0 + 1 x 1) = 1.
    stream = "a1 b2 c3 a4 b5 d6 c7 a8 d9 e10"
    assert counts("SEQ(A, B, C, D, E)", stream, "9 s") == {10: 1}


def test_example_10_connects_three_pieces():
    # On f1 at 12 s, a1 has expired; tag a2 has count 1 on d1 and 2 on d2, together 3.
    stream = "a1 a3 b4 c5 d6 c7 d8 e9 f12 g13"
    assert counts("SEQ(A, B, C, D, E)", stream, "11 s") == {9: 6}
    assert counts("SEQ(A, B, C, D, E, F, G)", stream, "11 s") == {13: 3}
