"""The worked examples of NEEL (Liu et al.), by number; 5 to 8 are rewrites, in tests/optimizer."""

from tests.oracle.notation import matches

Q1 = (
    "SEQ(Recycle r, Washing w, !SEQ(Sharpening s, Disinfection d, Checking c), Operating o)",
    "[id]",
)


def test_example_1_a_sequence_matches_every_later_event():
    assert matches("SEQ(R r, W w)", "r1 w2 w3") == ["r1 w2", "r1 w3"]


def test_example_2_a_conjunction_matches_in_any_order():
    assert matches("AND(R r, W w)", "w1 r2 w3") == ["r2 w3", "w1 r2"]


def test_example_3_a_negation_in_a_conjunction_looks_at_the_whole_window():
    assert matches("AND(R r, W w, !C c)", "c1 w2 r3") == []
    assert matches("AND(R r, W w, !C c)", "w2 r3") == ["w2 r3"]


def test_q1_reports_a_tool_put_to_use_without_the_full_treatment():
    pattern, where = Q1
    treated = "recycle1(id=5) washing2(id=5) sharpening3(id=5) disinfection4(id=5) "
    assert matches(pattern, treated + "checking5(id=5) operating6(id=5)", where=where) == []
    assert matches(pattern, treated + "operating6(id=5)", where=where) == [
        "recycle1 washing2 operating6"
    ]


def test_q1_needs_the_steps_in_their_order():
    pattern, where = Q1
    stream = "recycle1(id=5) washing2(id=5) checking3(id=5) disinfection4(id=5) sharpening5(id=5)"
    found = matches(pattern, stream + " operating6(id=5)", where=where)
    assert found == ["recycle1 washing2 operating6"]


def test_example_11_only_the_missing_sharpening_keeps_the_match():
    # d6 and c16 lie between w5 and o20 and no Sharpening precedes d6: a match, by E3 alone.
    pattern, where = Q1
    stream = "recycle1(id=1) washing5(id=1) disinfection6(id=1) checking16(id=1) operating20(id=1)"
    assert matches(pattern, stream, where=where) == ["recycle1 washing5 operating20"]
    blocked = stream.replace("disinfection6", "sharpening5(id=1) disinfection6").replace(
        "washing5", "washing4"
    )
    assert matches(pattern, blocked, where=where) == []
