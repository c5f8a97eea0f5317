"""What is known of a stream: rates, selectivities, keys and ties, and where each came from."""

from optimizer.statistics.given import given
from optimizer.statistics.known import (
    KeyStatistics,
    MissingStatisticError,
    Sample,
    Source,
    Statistics,
)
from optimizer.statistics.needs import Defaults, missing, with_defaults

__all__ = [
    "Defaults",
    "KeyStatistics",
    "MissingStatisticError",
    "Sample",
    "Source",
    "Statistics",
    "given",
    "missing",
    "with_defaults",
]
