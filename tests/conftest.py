"""What all tests share: the order they run in, Hypothesis' settings, and one Spark session."""

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

import hypothesis
import pytest

from engines.spark.runtime.session import spark_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# The first call of a compiled function takes seconds, so no single example has a deadline. Where
# changes are accepted the examples are the same each time; elsewhere every run tries new ones.
hypothesis.settings.register_profile(
    "sheaf", deadline=None, print_blob=True, derandomize="CI" in os.environ
)
hypothesis.settings.load_profile("sheaf")


@pytest.fixture(scope="session")
def spark() -> Iterator["SparkSession"]:
    """The Spark session of the whole run; tests that need their own start a process."""
    with spark_session("local[2]", "tests") as session:
        yield session


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what uses Spark, and run the quick tests first; slow ones may take longer.

    Where several processes run them, tests of a file stay together, for they share what was
    compiled; and those that share the Spark session are all run by one, while others run slow ones.
    """
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker("spark")
        kind = _kind(item)
        if kind in ("spark", "slow") and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(SLOW_TEST_SECONDS))
        item.add_marker(pytest.mark.xdist_group(kind if kind == "spark" else f"{kind}-{item.path}"))
    items.sort(key=lambda item: KINDS.index(_kind(item)))


# A machine that does other things, too, is no reason to fail.
SLOW_TEST_SECONDS = 600
KINDS = ("quick", "spark", "slow", "soak")


def _kind(item: pytest.Item) -> str:
    """What decides when a test runs."""
    marked = (kind for kind in ("soak", "spark", "slow") if item.get_closest_marker(kind))
    return next(marked, "quick")
