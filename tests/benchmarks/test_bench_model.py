"""How the benchmark of the cost model judges predictions."""

import pytest

from tests.benchmarks.model import spearman


def test_a_rank_correlation_sees_order_alone():
    assert spearman([1, 2, 3, 4], [10, 100, 1000, 1001]) == pytest.approx(1)
    assert spearman([1, 2, 3, 4], [4, 3, 2, 1]) == pytest.approx(-1)


def test_equal_numbers_share_their_ranks():
    # Ranks 1, 2.5, 2.5, 4 and 1, 2, 3, 4, correlated by hand: 4.5 / sqrt(4.5 * 5).
    assert spearman([1, 2, 2, 3], [1, 2, 3, 4]) == pytest.approx((4.5 / 5) ** 0.5)
