"""What the tests of the service share: databases to keep things in."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.api.databases import postgresql


@pytest.fixture(scope="session")
def new_postgresql() -> Iterator[Callable[[], str]]:
    with postgresql() as made:
        if made is None:
            pytest.skip("PostgreSQL's server is not installed (Debian: apt install postgresql)")
        yield made


@pytest.fixture(params=["sqlite", "postgresql"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where an empty store can be, in each kind of database."""
    if request.param == "sqlite":
        return str(tmp_path / "store.db")
    made: str = request.getfixturevalue("new_postgresql")()
    return made
