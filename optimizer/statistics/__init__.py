"""What is known of a stream: rates, selectivities, keys and ties, and where each came from."""

from optimizer.statistics.statistics import (
    Defaults,
    KeyStatistics,
    MissingStatisticError,
    Sample,
    Statistics,
    StatisticsSource,
    given,
    missing,
    with_defaults,
)

__all__ = [
    "Defaults",
    "KeyStatistics",
    "MissingStatisticError",
    "Sample",
    "Statistics",
    "StatisticsSource",
    "given",
    "missing",
    "with_defaults",
]
