"""What tests of the pages share: one browser, and services for it to look at."""

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from api.http.app import create_app
from api.http.embedded_server import serving
from api.http.settings import Settings
from tests.api.pages.driver import Browser, browser, found_browser


@pytest.fixture(scope="session")
def window() -> Iterator[Browser]:
    """The browser of the whole run; tests ask for `page`, which is it without a past."""
    found = found_browser()
    if found is None:
        pytest.skip("no Chromium with its driver (Debian: apt install chromium chromium-driver)")
    with browser(*found) as opened:
        yield opened


@pytest.fixture
def address(pretend: list[str], tmp_path: Path) -> Iterator[str]:
    """A service whose jobs only pretend to run."""
    settings = Settings(data=tmp_path / "data", roots=(tmp_path, Path.cwd()))
    with serving(create_app(settings, pretend)) as address:
        yield address


@pytest.fixture
def client(address: str) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=address, timeout=60) as client:
        yield client


@pytest.fixture
def page(window: Browser, address: str) -> Iterator[Browser]:
    """The browser, as large as a desk's; whatever it complains of fails the test.

    The service outlives it, so that a page's last request does not find it gone.
    """
    window.open("about:blank")
    window.complaints()
    window.size(1280, 900)
    window.prefer("light")
    yield window
    complaints = window.complaints()
    window.open("about:blank")
    assert complaints == []
