"""What the tests of the service share: databases to keep things in."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.api.databases import postgresql
from tests.api.service import write_rows


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


@pytest.fixture(scope="session")
def pretend(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The command of a job's process that only pretends to work."""
    results = tmp_path_factory.mktemp("results")
    write_rows(results)
    return [sys.executable, str(Path(__file__).with_name("pretend.py")), str(results)]


@pytest.fixture(autouse=True)
def pretended_sources(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Jobs that only pretend to work need no events: the name of their source says how they end."""
    if "pretend" in request.fixturenames:
        monkeypatch.setattr("api.http.routes.jobs.check_source", lambda *given: None)
