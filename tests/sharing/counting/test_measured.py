"""The measured benefit model says what Chop-Connect's operations say."""

from __future__ import annotations

import time

import numpy as np
import pytest

from optimizer.bind.binder import load_bound
from optimizer.cost.counting import CountedQueries, chopconnect
from optimizer.cost.unit_costs import DEFAULTS, NAMES, Operations, UnitCosts, nanoseconds
from optimizer.ir.query import Window
from optimizer.statistics import KeyStatistics, Statistics
from optimizer.statistics.statistics import MissingStatisticError
from sharing.counting.benefit import BenefitModel, LinearModel
from sharing.counting.benefit.measured import MeasuredModel
from sharing.counting.candidates import CountSetting, mine
from sharing.counting.choice import choose
from tests.sharing.chains import SECOND, queries, random_queries, words

RATES = {"A": 3.0, "B": 7.0, "C": 1.0, "D": 2.0, "E": 5.0, "F": 4.0, "N": 6.0}
STATISTICS = Statistics(RATES, keys={"k": KeyStatistics(5.0, 0.5)}, events=28_000, span=1000.0)
COSTS = UnitCosts(Operations(*(1.0 + i % 7 for i, _ in enumerate(NAMES))), "a test")


def as_patterns(texts):
    return [", ".join(text.split()) for text in texts]


def bound(texts, where=""):
    stream = {"time": "ts", "unit": "ms", "type": "type"}
    written = [
        f"QUERY q{i} PATTERN SEQ({pattern}) {where} AGG COUNT(*) WITHIN 10 s"
        for i, pattern in enumerate(as_patterns(texts), 1)
    ]
    return load_bound({"stream": stream, "queries": written}).queries


@pytest.mark.parametrize("keyed", [False, True])
@pytest.mark.parametrize(
    ("texts", "shared", "lengths"),
    [
        (["A C D", "B C D"], "C D", {"q1": (1, 2), "q2": (1, 2)}),  # last
        (["C D A", "C D B", "C D E F"], "C D", {"q1": (2, 1), "q2": (2, 1), "q3": (2, 2)}),  # first
        (["A C D E", "B C D F"], "C D", {"q1": (1, 2, 1), "q2": (1, 2, 1)}),  # in the middle
        (["A C !N D", "B F C !N D"], "C !N D", {"q1": (1, 2), "q2": (2, 2)}),
        (["A B", "A B"], "A B", {"q1": (2,), "q2": (2,)}),  # the whole query
    ],
)
def test_a_benefit_is_what_chopping_saves(texts, shared, lengths, keyed):
    setting = CountSetting(("k",) if keyed else (), Window(10 * SECOND))
    candidates = mine(queries(*texts, setting=setting))
    found = MeasuredModel(STATISTICS, COSTS).benefits(candidates)
    benefit = {words(c.steps): b for c, b in zip(candidates, found, strict=True)}[shared]
    every = bound(texts, "WHERE [k]" if keyed else "")
    alone = sum(nanoseconds(chopconnect(CountedQueries((q,), STATISTICS)), COSTS) for q in every)
    common = sum(nanoseconds(CountedQueries((q,), STATISTICS).common(), COSTS) for q in every)
    visits = sum(CountedQueries((q,), STATISTICS).spoken for q in every) * COSTS.each.chop_events
    group = CountedQueries(every, STATISTICS)
    together = nanoseconds(chopconnect(group, lengths), COSTS)
    together -= nanoseconds(group.common(), COSTS) + group.spoken * COSTS.each.chop_events
    assert benefit == pytest.approx(alone - common - visits - together)


def test_rare_connects_pay_and_frequent_ones_do_not():
    texts = ["A C D E F", "B C D E F"]
    rare = Statistics(RATES | {"C": 0.01})
    often = Statistics(RATES | {"C": 500.0})
    setting = CountSetting((), Window(100 * SECOND))
    candidates = mine(queries(*texts, setting=setting))
    place = [words(c.steps) for c in candidates].index("C D E F")
    assert MeasuredModel(rare, DEFAULTS).benefits(candidates)[place] > 0
    assert MeasuredModel(often, DEFAULTS).benefits(candidates)[place] < 0


def test_it_is_a_model_that_is_not_linear():
    model = MeasuredModel(STATISTICS, DEFAULTS)
    assert not isinstance(model, LinearModel)
    used: BenefitModel = model
    assert used.unit == "nanoseconds per second of stream"
    choice = choose(queries("A C D E", "B C D E", "F A C D"), model)
    assert len(choice.weights) == len(choice.candidates)


def test_a_bitmark_saves_nothing():
    candidates = mine(queries("A B !N C", "A B C"), ("substring", "bitmark"))
    found = MeasuredModel(STATISTICS, DEFAULTS).benefits(candidates)
    kinds = [c.kind for c in candidates]
    assert "bitmark" in kinds
    assert all(b == 0 for b, kind in zip(found, kinds, strict=True) if kind == "bitmark")


def test_an_unknown_rate_is_named():
    candidates = mine(queries("A X", "A X"))
    with pytest.raises(MissingStatisticError, match="rate of 'X'"):
        MeasuredModel(STATISTICS, DEFAULTS).benefits(candidates)


def test_no_candidates_have_no_benefits():
    assert len(MeasuredModel(STATISTICS, DEFAULTS).benefits(mine(queries("A B", "C D")))) == 0


def test_thousands_of_candidates_are_quick():
    candidates = mine(random_queries(1000))
    statistics = Statistics({f"T{i}": 1.0 + i for i in range(50)})
    start = time.process_time()
    found = MeasuredModel(statistics, DEFAULTS).benefits(candidates)
    assert time.process_time() - start < 1
    assert np.isfinite(found).all()
    assert len(found) == len(candidates) > 1000
