"""The measured cost model: what windows hold, what pieces queries have, what engines do."""

from __future__ import annotations

import itertools
import time
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from optimizer import engines
from optimizer.bind.binder import load_bound
from optimizer.cost.counting import (
    CountedQueries,
    aseq,
    chopconnect,
    events_per_pane,
    panes,
    pretree,
    product,
)
from optimizer.cost.engine_choice import cheapest
from optimizer.cost.substrings import (
    Arrivals,
    SoughtSequence,
    Word,
    changes,
    value_changes,
    words_of,
)
from optimizer.cost.unit_costs import (
    DEFAULTS,
    NAMES,
    Operations,
    UnitCosts,
    UnitCostsError,
    nanoseconds,
)
from optimizer.ir.pattern import Symbol
from optimizer.ir.query import Window
from optimizer.statistics import KeyStatistics, Statistics
from optimizer.statistics.statistics import MissingStatisticError

SECOND = 10**9
STREAM = {"time": "ts", "unit": "ms", "type": "type"}
RATES = {"A": 3.0, "B": 7.0, "C": 11.0, "D": 2.0, "E": 5.0, "N": 4.0}
STATISTICS = Statistics(
    RATES, keys={"k": KeyStatistics(4.0, 0.4)}, events=32_000, span=1000.0, ties=0.0
)
ENGINES = {"product": product, "aseq": aseq, "pretree": pretree, "chopconnect": chopconnect}
ONES = UnitCosts(Operations(*(1.0 for _ in NAMES)), "a test")


def group(*patterns: str, within: str = "10 s", aggregates: str = "COUNT(*)", where: str = ""):
    queries = [
        f"QUERY q{i} PATTERN SEQ({pattern}) {where} AGG {aggregates} WITHIN {within}"
        for i, pattern in enumerate(patterns)
    ]
    return CountedQueries(load_bound({"stream": STREAM, "queries": queries}).queries, STATISTICS)


def word(text: str) -> Word:
    """`A !N B`: a negation stands in the gap where it is written."""
    symbols, gaps = [], [frozenset()]
    for part in text.split():
        if part.startswith("!"):
            gaps[-1] |= {Symbol(part[1:])}
        else:
            symbols.append(Symbol(part))
            gaps.append(frozenset())
    return Word(tuple(symbols), tuple(gaps))


# --- pieces --------------------------------------------------------------------------------------


def naive_pieces(words):
    """Every distinct stretch, written out: what is negated before, between and behind is part."""
    found = {}
    for w in words:
        for i, j in itertools.combinations(range(len(w.symbols) + 1), 2):
            piece = (w.gaps[i : j + 1], w.symbols[i:j])
            found[piece] = found.get(piece, False) or i == 0
    return found


texts = st.lists(
    st.lists(st.sampled_from(["A", "B", "C", "C !N", "A !A"]), min_size=1, max_size=6).map(
        " ".join
    ),
    min_size=1,
    max_size=6,
)


@given(texts)
def test_pieces_are_counted_as_written_out(texts):
    words = [word(text) for text in texts]
    found = changes(words)
    plain = [Word(w.symbols, w.gaps) for w in words]
    pieces = naive_pieces(plain)
    arriving = Counter(symbols[-1] for _, symbols in pieces)
    leaving = Counter(symbols[0] for _, symbols in pieces)
    first = Counter(symbols[0] for (_, symbols), begins in pieces.items() if begins)
    # A negated event clears the pieces that end, or begin, in a gap where it is negated.
    empty = {((gap,), ()) for w in plain for gap in w.gaps}
    begins = {((w.gaps[0],), ()) for w in plain}
    for gaps, symbols in [*pieces, *empty]:
        arriving.update(gaps[-1])
        leaving.update(gaps[0])
        if pieces.get((gaps, symbols)) or (gaps, symbols) in begins:
            first.update(gaps[0])
    assert {s: n for s, n in found.arriving.items() if n} == arriving
    assert {s: n for s, n in found.leaving.items() if n} == leaving
    assert {s: n for s, n in found.first.items() if n} == first


def test_a_sum_travels_with_the_pieces_that_hold_its_component():
    (words,) = (
        words_of(query) for query in group("A, B, C", aggregates="SUM(B.x)").queries
    )  # fmt: skip
    found = value_changes(words)
    # B, AB, BC, ABC; a sum goes with the number of its values.
    assert found.arriving == {Symbol("A"): 0, Symbol("B"): 4, Symbol("C"): 4}
    assert found.leaving == {Symbol("A"): 4, Symbol("B"): 4, Symbol("C"): 0}


def test_a_thousand_queries_are_quick():
    random = np.random.default_rng(0)
    letters = [Symbol(f"T{i}") for i in range(50)]
    words = [
        Word(tuple(letters[i] for i in row), (frozenset(),) * 7)
        for row in random.integers(0, 50, (1000, 6))
    ]
    start = time.process_time()
    found = changes(words)
    assert time.process_time() - start < 1
    assert sum(found.arriving.values()) == sum(found.leaving.values()) == len(naive_pieces(words))


# --- windows -------------------------------------------------------------------------------------


def simulated_chance(symbols, gaps, seconds, per_trigger, rounds=2_000):
    """Windows drawn at random, their matches counted prefix by prefix."""
    random = np.random.default_rng(3)
    hits = 0
    for _ in range(rounds):
        events = [
            (at, name)
            for name, rate in RATES.items()
            for at in random.uniform(0, seconds, random.poisson(rate * seconds))
        ]
        names = [name for _, name in sorted(events)] + [symbols[-1]] * per_trigger
        counts = [1] + [0] * len(symbols)
        for name in names:
            for j in range(len(symbols), 0, -1):
                counts[j] += counts[j - 1] * (symbols[j - 1] == name)
            counts = [0 if name in gap else n for n, gap in zip(counts, gaps, strict=True)]
        hits += counts[-1] > 0
    return hits / rounds


@pytest.mark.parametrize("slide", [None, SECOND])
@pytest.mark.parametrize("negated", [None, 1, 2])
@pytest.mark.parametrize("seconds", [0.1, 0.4])
def test_the_chance_of_a_match_is_that_of_random_windows(slide, negated, seconds):
    symbols = ("A", "B", "C")
    gaps = ["N" if j == negated else "" for j in range(4)]
    arrivals = Arrivals(STATISTICS, (), Window(int(seconds * SECOND)), slide)
    wanted = SoughtSequence(
        tuple(map(Symbol, symbols)), tuple(frozenset(map(Symbol, g)) for g in gaps)
    )
    expected = simulated_chance(symbols, gaps, seconds, per_trigger=slide is None)
    assert arrivals.chances([wanted])[0] == pytest.approx(expected, abs=0.04)


def test_a_window_that_holds_all_has_a_match():
    arrivals = Arrivals(STATISTICS, (), Window(10_000 * SECOND))
    assert arrivals.chances([SoughtSequence((Symbol("A"), Symbol("B")), (frozenset(),) * 3)])[
        0
    ] == pytest.approx(1)


def test_a_key_leaves_a_window_its_part_of_the_events():
    whole = Arrivals(STATISTICS, (), Window(10 * SECOND))
    keyed = Arrivals(STATISTICS, ("k",), Window(10 * SECOND))
    assert whole.met(Symbol("A")) == pytest.approx(30)
    # An event is of the heaviest value in 40 % and of each other in 20 %.
    assert keyed.met(Symbol("A")) == pytest.approx(30 * (0.4**2 + 3 * 0.2**2))
    assert keyed.met_both(Symbol("A"), Symbol("B")) == pytest.approx(
        30 * 70 * (0.4**3 + 3 * 0.2**3)
    )


def test_a_window_in_events_holds_the_same_of_every_key():
    keyed = Arrivals(STATISTICS, ("k",), Window(320, is_count=True))
    assert keyed.met(Symbol("A")) == pytest.approx(30)


def test_an_unknown_rate_is_named():
    with pytest.raises(MissingStatisticError, match="rate of 'A'"):
        product(CountedQueries(group("A, B").queries, Statistics({"B": 1.0})))


# --- engines -------------------------------------------------------------------------------------


def simulate_prefix_counters(words, seconds, window, trees):
    """A stream run through counters for every START; what is done to them is counted."""
    random = np.random.default_rng(1)
    events = sorted(
        (at, Symbol(name))
        for name, rate in RATES.items()
        for at in random.uniform(0, seconds, random.poisson(rate * seconds))
    )
    done: Counter[str] = Counter()
    for tree in trees:
        nodes = {
            tuple(zip(w.symbols[:n], w.gaps[1 : n + 1], strict=True))
            for w in (words[q] for q in tree)
            for n in range(1, len(w.symbols) + 1)
        }
        start = words[tree[0]].symbols[0]
        active: list[float] = []
        for at, symbol in events:
            active = [t for t in active if t > at - window]
            for node in nodes:
                touched = (len(node) > 1 and node[-1][0] == symbol) or symbol in node[-1][1]
                done["nodes"] += touched
                done["counters"] += touched * len(active)
            done["reads"] += sum(words[q].symbols[-1] == symbol for q in tree)
            done["totals"] += sum(words[q].symbols[-1] == symbol for q in tree) * len(active)
            if symbol == start:
                active.append(at)
                done["cells"] += len(nodes)
    return {what: number / seconds for what, number in done.items()}


@pytest.mark.parametrize("engine", ["aseq", "pretree"])
@pytest.mark.parametrize(
    "patterns", [("A, B, C",), ("A, B, C", "A, B, D", "B, C"), ("A, !N, B, C", "A, B, !N, C")]
)
def test_prefix_counters_are_changed_as_often_as_a_simulation_does(engine, patterns):
    counted = group(*patterns, within="5 s")
    firsts = [w.symbols[0] for w in counted.chains]
    alone = [[q] for q in range(len(patterns))]
    shared = [[q for q, f in enumerate(firsts) if f == first] for first in dict.fromkeys(firsts)]
    expected = simulate_prefix_counters(
        counted.chains, 400.0, 5.0, alone if engine == "aseq" else shared
    )
    found = ENGINES[engine](counted)
    for what, number in expected.items():
        assert getattr(found, f"tree_{what}") == pytest.approx(number, rel=0.1), what


def test_snapshots_are_as_large_as_a_simulation_says():
    counted = group("A, B, C, D", "E, B, C, D", within="5 s")
    found = chopconnect(counted, {"q0": (1, 1, 2), "q1": (1, 1, 2)})
    random = np.random.default_rng(2)
    seconds, rows, products = 100.0, 0, 0
    at = {n: np.sort(random.uniform(0, seconds, int(r * seconds))) for n, r in RATES.items()}
    for root, connecting in itertools.product("AE", "BC"):
        for t in at[connecting]:
            first = np.searchsorted(at[root], t - 5)
            rows += np.searchsorted(at[root], t) - first
            if connecting == "C":
                inner = at["B"][np.searchsorted(at["B"], t - 5) : np.searchsorted(at["B"], t)]
                products += np.sum(np.searchsorted(at[root], inner) - first)
    assert found.chop_rows == pytest.approx(rows / seconds, rel=0.1)
    assert found.chop_products == pytest.approx(products / seconds, rel=0.1)
    assert found.chop_snapshots == pytest.approx(2 * (RATES["B"] + RATES["C"]))


def test_a_slide_is_evaluated_for_every_key_that_has_events():
    counted = group("A, B", within="10 s SLIDE 2 s", where="WHERE [k]")
    assert counted.evaluations.tolist() == pytest.approx([4 / 2], rel=1e-3)
    assert product(counted).reversible_reads == pytest.approx(4 / 2, rel=1e-3)


def test_what_cannot_be_taken_back_goes_through_two_stacks():
    for patterns, aggregates in ((("A, !N, B",), "COUNT(*)"), (("A, B",), "SUM(A.x)")):
        found = product(group(*patterns, aggregates=aggregates))
        assert found.reversible_events == 0 < found.stack_events
    assert product(group("A, B")).stack_events == 0


def test_counts_that_could_overflow_are_kept_twice():
    small, large = group("A, B, C, D"), group("A a, B b, C c, D, A x, B y, C z", within="600 s")
    assert not small.dual
    assert large.dual
    # One number more for each counter; too many of them even for that are floats.
    larger = group("A a, B b, C c, D w, A x, B y, C z, A d, B e, C f, D g", within="60000 s")
    assert product(large).reversible_adds > product(small).reversible_adds
    assert product(large).stack_floats == product(small).stack_floats == 0
    assert product(larger).stack_floats > 0


def test_windows_are_joined_from_panes_or_from_nodes_of_them():
    few = panes(group("A, B", within="10 s SLIDE 5 s").queries, STATISTICS)
    many = panes(group("A, B", within="10 s SLIDE 1 s").queries, STATISTICS)
    # B and AB end the query: 2 and 3 products each time that a stretch is put in front.
    assert few.pane_pairs == pytest.approx(1 / 5 * 2 * 5, rel=0.01)
    # Nodes of eight panes, each made by the 7 products of A, B and AB; three smaller ones a window.
    assert many.pane_pairs == pytest.approx(10 / 8 * 5 + 3 * 5 + 7 / 8 * 7, rel=0.01)
    assert many.pane_adds == few.pane_adds


def test_panes_are_cut_where_windows_open_and_close():
    whole = group("A, B", within="10 s SLIDE 5 s").queries
    parts = group("A, B", within="12 s SLIDE 5 s").queries
    spoken = RATES["A"] + RATES["B"]
    assert events_per_pane(whole, STATISTICS) == pytest.approx(5 * spoken)
    assert events_per_pane(parts, STATISTICS) == pytest.approx(2.5 * spoken)
    assert events_per_pane([*whole, *parts], STATISTICS) == pytest.approx(2.5 * spoken)
    with pytest.raises(ValueError, match="does not slide"):
        panes(group("A, B").queries, STATISTICS)


def test_patterns_that_are_no_sequences_are_counted_by_their_machines():
    queries = load_bound(
        {
            "stream": STREAM,
            "queries": [
                "QUERY a PATTERN SEQ(A, B+, C) AGG COUNT(*) WITHIN 1 s",
                "QUERY b PATTERN AND(A, B, C) AGG COUNT(*) WITHIN 1 s",
                "QUERY c PATTERN SEQ(A, !SEQ(B, D), C) AGG COUNT(*) WITHIN 1 s",
                "QUERY d PATTERN OR(A, SEQ(B, C)) AGG COUNT(*) WITHIN 1 s",
            ],
        }
    ).queries
    for query in queries:
        assert nanoseconds(product(CountedQueries((query,), STATISTICS)), ONES) > 0
    with pytest.raises(ValueError, match="not one sequence"):
        aseq(CountedQueries(queries[:1], STATISTICS))


patterns = st.lists(
    st.lists(st.sampled_from("ABCDE"), min_size=2, max_size=5, unique=True).map(", ".join),
    min_size=1,
    max_size=5,
)


@settings(max_examples=20)
@given(patterns, st.sampled_from(["1 s", "10 s", "10 s SLIDE 1 s"]))
def test_more_queries_never_cost_less(patterns, within):
    queries = group(*patterns, within=within).queries
    for engine in ENGINES.values():
        costs = [
            nanoseconds(engine(CountedQueries(queries[:n], STATISTICS)), ONES)
            for n in range(1, len(patterns) + 1)
        ]
        assert all(more >= fewer * (1 - 1e-9) for fewer, more in itertools.pairwise(costs))


@settings(max_examples=20)
@given(patterns)
def test_the_counters_of_equal_queries_cost_as_those_of_one(patterns):
    queries = group(*patterns).queries
    once, twice = (
        CountedQueries(queries, STATISTICS),
        CountedQueries((*queries, *queries), STATISTICS),
    )
    shared = {
        "product": ("reversible_adds", "reversible_events"),
        "pretree": ("tree_nodes", "tree_counters", "tree_cells"),
        "chopconnect": ("chop_nodes", "chop_counters", "chop_cells"),
    }
    for engine, names in shared.items():
        first, second = ENGINES[engine](once), ENGINES[engine](twice)
        for name in names:
            assert getattr(second, name) == pytest.approx(getattr(first, name))
    assert aseq(twice).tree_counters == pytest.approx(2 * aseq(once).tree_counters)


# --- unit costs ----------------------------------------------------------------------------------


def test_operations_cost_their_number_times_their_unit_cost():
    costs = UnitCosts(Operations(seen=2.0, tree_nodes=5.0), "a test")
    found = Operations(seen=10.0, tree_nodes=3.0, chop_nodes=100.0)
    assert nanoseconds(found, costs) == 35.0
    assert nanoseconds(found + found.times(2), costs) == 105.0


def test_unit_costs_come_back_from_their_document():
    assert UnitCosts.from_document(ONES.to_document()) == ONES
    assert not ONES.is_default
    assert DEFAULTS.is_default


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"version": 99}, "version 4"),
        ({"nanoseconds": {}}, "is missing or not known"),
        ({"nanoseconds": {**ONES.to_document()["nanoseconds"], "seen": -1.0}}, "seen is -1.0"),
        ({"nanoseconds": {**ONES.to_document()["nanoseconds"], "seen": True}}, "seen is True"),
        ({"source": None}, "source or nanoseconds"),
    ],
)
def test_other_documents_are_no_unit_costs(change, said):
    with pytest.raises(UnitCostsError, match=said):
        UnitCosts.from_document(ONES.to_document() | change)


# --- the choice ----------------------------------------------------------------------------------


def test_the_cheapest_engine_comes_first_and_says_why():
    queries = group("A, B, C", "A, B, D").queries
    lengths = {"q0": (1, 2), "q1": (1, 2)}
    ranked = cheapest(queries, STATISTICS, DEFAULTS, lengths=lengths)
    assert {r.engine for r in ranked} == {*ENGINES, "sem"}
    assert [r.nanoseconds for r in ranked] == sorted(r.nanoseconds for r in ranked)
    spoken = RATES["A"] + RATES["B"] + RATES["C"] + RATES["D"]
    for r in ranked:
        assert r.nanoseconds == nanoseconds(r.operations, DEFAULTS)
        assert r.per_event == pytest.approx(r.nanoseconds / spoken)
        assert "ns per event by default costs" in r.why
    assert "as long" in ranked[0].why
    assert all("of that" in r.why for r in ranked[1:])


def test_only_engines_that_are_allowed_are_ranked():
    queries = group("A, B, C").queries
    assert [r.engine for r in cheapest(queries, STATISTICS, ONES, [engines.product])] == ["product"]
    ranked = cheapest(queries, STATISTICS, ONES, [engines.product, engines.chopconnect])
    assert [r.engine for r in ranked] == ["product"]  # without segments nothing is connected
    assert "as measured on this machine" in ranked[0].why


def test_rare_starts_are_for_prefix_counters_and_many_queries_for_the_product():
    rare = Statistics({**RATES, "A": 0.001, "N": 40.0})
    one = group("A, B, !N, C, D", within="100 s").queries
    assert cheapest(one, rare, DEFAULTS)[0].engine in ("aseq", "pretree", "sem")
    many = [", ".join(p) for p in itertools.permutations("ABCDE", 4)][:60]
    assert cheapest(group(*many, within="100 s").queries, STATISTICS, DEFAULTS)[0].engine == (
        "product"
    )
