"""What all tests share: the order they run in, Hypothesis' settings, and one Spark session."""

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

import hypothesis
import pytest

from engines.session import spark_session

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
    """Mark what uses Spark, and run the quick tests first."""
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker("spark")
    items.sort(key=_cost)


def _cost(item: pytest.Item) -> tuple[bool, bool, bool]:
    """Sorts before another test's if it is to run earlier."""
    soak, spark, slow = (
        item.get_closest_marker(mark) is not None for mark in ("soak", "spark", "slow")
    )
    return soak, spark, slow
