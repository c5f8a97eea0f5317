"""The thesis' benefit model: its equations, and what it says about them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from optimizer.bind.binder import load_bound
from optimizer.ir.pattern import Symbol
from optimizer.ir.query import Window
from sharing.counting.benefit import aseq
from sharing.counting.benefit.aseq import AseqModel
from sharing.counting.candidates import CandidateKind, Candidates, CountSetting, mine
from sharing.errors import MissingStatisticError
from sharing.planner import make_plan
from tests.sharing.chains import SECOND, queries, query, words

SIZES = st.integers(1, 1000).map(float)
LENGTHS = st.integers(2, 20).map(float)
QUERIES = st.integers(2, 50).map(float)
SHARES = st.floats(0, 1)

# Section 5.3, experiment 1; the last stock of q3 is printed INT, a slip for INTC.
WL1 = queries(
    "DELL AMAT YHOO AMAZ MSFT ORCL RIMM CSCO INTC",
    "IPIX FB YHOO AMAZ MSFT ORCL",
    "QQQ IBM MSFT ORCL RIMM CSCO INTC",
    "VMW GOOG YHOO AMAZ MSFT ORCL RIMM CSCO INTC",
    "LNKD NTAP YHOO AMAZ MSFT ORCL RIMM CSCO INTC",
)
STOCKS = sorted({step.symbol.type for q in WL1 for step in q.steps} | {"A1", "A2", "A3"})


def benefit_of(candidates: Candidates, model: AseqModel) -> dict[str, float]:
    found = model.benefits(candidates)
    return {words(c.steps): float(value) for c, value in zip(candidates, found, strict=True)}


def test_the_equations_by_hand() -> None:
    """N0 = 10, k = 3, l = 4, f = 0.5: each factor can be followed."""
    assert aseq.unshared(10.0, 3.0, 4.0, 0.5) == 100 * 3 * 4.5
    assert aseq.chop_connect(10.0, 3.0, 4.0, 0.5) == 1000 * 0.5 * 3 + 100 * 0.5 * 4
    assert aseq.benefit(10.0, 3.0, 4.0, 0.5) == 1350 - 1700


@given(SIZES, QUERIES, LENGTHS, SHARES)
def test_the_three_lines_are_the_same_benefit(N0: float, k: float, length: float, f: float) -> None:
    value = aseq.benefit(N0, k, length, f)
    close = pytest.approx(value, rel=1e-9, abs=1e-6 * N0**3 * k)
    assert aseq.by_frequency(N0, k, length).at(f) == close
    assert aseq.by_length(N0, k, f).at(length) == close
    assert aseq.by_queries(N0, length, f).at(k) == close


@given(st.integers(2, 1000).map(float), QUERIES, LENGTHS, SHARES)
def test_the_benefit_falls_with_f_and_grows_with_length(
    N0: float, k: float, length: float, f: float
) -> None:
    """What the thesis concludes from equation 4.5."""
    assert aseq.by_frequency(N0, k, length).slope < 0
    assert aseq.by_length(N0, k, f).slope > 0


def test_more_queries_may_help_or_harm() -> None:
    """And from 4.5 c."""
    assert aseq.by_queries(50, 7, 0.01).slope > 0
    assert aseq.by_queries(50, 7, 0.5).slope < 0


def experiment_1(connecting: float) -> tuple[Candidates, dict[str, float]]:
    """1,000 events in a window of 20 stocks, that share of them being YHOO."""
    rest = 1000.0 * (1 - connecting) / 19
    rates = dict.fromkeys(STOCKS, rest) | {"YHOO": 1000.0 * connecting}
    assert len(rates) == 20
    found = mine(WL1)
    return found, benefit_of(found, AseqModel(rates))


@pytest.mark.parametrize(
    ("connecting", "pays"),
    [(0.001, True), (0.005, True), (0.025, False), (0.05, False), (0.075, False), (0.1, False)],
)
def test_experiment_1_pays_where_the_thesis_says(connecting: float, pays: bool) -> None:
    """Section 5.3: sharing stops paying between 0.1 % and 2.5 %; at 0.5 % it is chosen to pay."""
    found, benefits = experiment_1(connecting)
    shared = "YHOO AMAZ MSFT ORCL RIMM CSCO INTC"
    (candidate,) = (c for c in found if words(c.steps) == shared)
    assert candidate.queries == ("q1", "q4", "q5")
    assert (benefits[shared] > 0) == pays


def test_experiment_1_has_its_turn_below_one_in_a_hundred() -> None:
    """Section 5.3 plugs l = 7 and k = 3 into the model: f should be smaller than 1 %."""
    assert 0.005 < aseq.by_frequency(50, 3, 7).root * 50 / 1000 < 0.01


def test_n0_is_the_mean_over_all_types_and_f_the_first_symbol_over_it() -> None:
    of = queries("A B C", "A B D", setting=CountSetting((), Window(2 * SECOND)))
    rates = {"A": 1.0, "B": 4.0, "C": 3.0, "D": 8.0}
    assert benefit_of(mine(of), AseqModel(rates)) == {
        "A B": pytest.approx(aseq.benefit(8.0, 2.0, 2.0, 0.25))
    }


def test_a_place_more_counts_like_a_query_more() -> None:
    of = queries("A B A B", "A B")
    assert benefit_of(mine(of), AseqModel({"A": 1.0, "B": 3.0})) == {
        "A B": pytest.approx(aseq.benefit(2.0, 3.0, 2.0, 0.5))
    }


def test_a_window_of_events_holds_each_type_by_its_share() -> None:
    of = queries("A B", "A B", setting=CountSetting((), Window(20, is_count=True)))
    assert benefit_of(mine(of), AseqModel({"A": 1.0, "B": 3.0})) == {
        "A B": pytest.approx(aseq.benefit(10.0, 2.0, 2.0, 0.5))
    }


def test_each_key_has_its_part_of_the_events() -> None:
    of = queries("A B", "A B", setting=CountSetting(("user",), Window(10 * SECOND)))
    model = AseqModel({"A": 1.0, "B": 3.0}, partitions={("user",): 5.0})
    assert benefit_of(mine(of), model) == {
        "A B": pytest.approx(5 * aseq.benefit(4.0, 2.0, 2.0, 0.5))
    }


def test_a_selective_first_symbol_connects_less() -> None:
    of = queries("A B", "A B")
    model = AseqModel({"A": 4.0, "B": 4.0}, {Symbol("A"): 0.25})
    assert benefit_of(mine(of), model) == {"A B": pytest.approx(aseq.benefit(4.0, 2.0, 2.0, 0.25))}


def test_a_bitmark_saves_nothing_by_chop_connect() -> None:
    kinds: tuple[CandidateKind, ...] = ("bitmark",)
    found = mine(queries("A !X B", "A B"), kinds)
    assert AseqModel({"A": 1.0, "B": 1.0}).benefits(found).tolist() == [0.0]


def test_a_rate_that_is_missing_is_named() -> None:
    with pytest.raises(MissingStatisticError, match="rate of A,"):
        AseqModel({"B": 1.0}).benefits(mine(queries("A B", "A B")))
    with pytest.raises(MissingStatisticError, match="rate of A,"):
        AseqModel({}).benefits(mine(queries("A B", "A B")))


def test_a_stream_without_events_saves_nothing() -> None:
    of = mine([query("q1", "A B"), query("q2", "A B")])
    assert AseqModel({"A": 0.0, "B": 0.0}).benefits(of).tolist() == [0.0]


def test_nothing_to_weigh_is_nothing() -> None:
    assert AseqModel({}).benefits(mine([])).dtype == np.float64


def test_the_thesis_model_counts_for_each_key_by_itself() -> None:
    """Equation 4.4 by hand: of 500 keys each has 6 events of a type in a window, and 0.6 of S.

    N0 = 36.6 / 7 = 5.2286, f = 0.6 / N0, l = 4, k = 3. Without the key it would be below zero.
    """
    document = {
        "name": "keyed",
        "stream": {"time": "ts", "unit": "ms", "type": "kind"},
        "statistics": {
            "rates": {"S": 0.5, **dict.fromkeys("TUVXYZ", 5.0)},
            "keys": {"user": {"cardinality": 500, "heaviest": 0.002}},
        },
        "queries": [
            f"QUERY {name} PATTERN SEQ({first} f, S s, T t, U u, V v) PARTITION BY user "
            "AGG COUNT(*) WITHIN 10 min"
            for name, first in zip("abc", "XYZ", strict=True)
        ],
    }
    plan = make_plan(load_bound(document), document, model="aseq")
    (found,) = [c for c in plan.candidates if c.pattern == ("S", "T", "U", "V")]
    assert found.benefit == pytest.approx(137_855, abs=1)
    assert plan.chosen == (found.id,)
    (group,) = plan.groups
    assert (group.queries, group.engine) == (("a", "b", "c"), "chopconnect")
