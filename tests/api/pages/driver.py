"""A Chromium without a window, driven by selenium; browser and driver come from the system."""

import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from axe_core_python.selenium import Axe
from selenium import webdriver
from selenium.common.exceptions import WebDriverException
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webelement import WebElement

T = TypeVar("T")

PATIENCE = 20.0  # seconds; a busy machine may need some of them
KEYS = {
    "Tab": Keys.TAB,
    "Enter": Keys.ENTER,
    "Escape": Keys.ESCAPE,
    "ArrowDown": Keys.ARROW_DOWN,
    "ArrowRight": Keys.ARROW_RIGHT,
    "Home": Keys.HOME,
}


def found_browser() -> tuple[str, str] | None:
    """The browser and its driver, where both are installed."""
    names = ("chromium", "chromium-browser", "google-chrome")
    browser = next((path for name in names if (path := shutil.which(name))), None)
    driver = shutil.which("chromedriver")
    return (browser, driver) if browser and driver else None


class Browser:
    """One window, in the words of our tests: what they wait for is a selector and a text."""

    def __init__(self, driver: webdriver.Chrome) -> None:
        self.driver = driver

    # --- where it is, and what it looks like ---------------------------------------------------

    def open(self, address: str) -> None:
        self.driver.get(address)

    @property
    def address(self) -> str:
        return self.driver.current_url

    def size(self, width: int, height: int) -> None:
        """The size of the page itself; windows cannot be as narrow as a phone."""
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)

    def prefer(self, scheme: str) -> None:
        """What the system prefers: light or dark."""
        feature = {"name": "prefers-color-scheme", "value": scheme}
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})

    def cookies(self) -> list[dict[str, Any]]:
        return self.driver.get_cookies()

    def picture(self, path: Path) -> None:
        path.write_bytes(self.driver.get_screenshot_as_png())

    def complaints(self) -> list[str]:
        """What the console says is wrong since it was last asked: errors, broken policies."""
        found = self.driver.get_log("browser")
        return [entry["message"] for entry in found if entry["level"] == "SEVERE"]

    def barriers(self) -> list[str]:
        """What axe-core finds that keeps people out: the rule, then the element."""
        found = Axe().run(self.driver)["violations"]
        return [f"{v['id']}: {node['html'][:160]}" for v in found for node in v["nodes"]]

    # --- what is on the page -------------------------------------------------------------------

    def run(self, script: str, *arguments: Any) -> Any:
        """What a script of the page's own gives back."""
        return self.driver.execute_script(script, *arguments)

    def _element(self, selector: str) -> WebElement:
        return self.driver.find_element(By.CSS_SELECTOR, selector)

    def click(self, selector: str) -> None:
        """Click as soon as it is there and can be."""

        def done() -> bool:
            try:
                self._element(selector).click()
            except WebDriverException:
                return False
            return True

        self.until(done, f"{selector} can be clicked")

    def type(self, selector: str, text: str) -> None:
        self._element(selector).send_keys(text)

    def fill(self, selector: str, text: str) -> None:
        """As if it was pasted over what was there."""
        self.run(
            "const e = document.querySelector(arguments[0]); e.focus(); e.value = arguments[1];"
            "for (const n of ['input', 'change']) e.dispatchEvent(new Event(n, {bubbles: true}));",
            selector,
            text,
        )

    def press(self, *keys: str) -> None:
        """Keys where the focus is."""
        ActionChains(self.driver).send_keys(*(KEYS.get(key, key) for key in keys)).perform()

    def point(self, selector: str) -> None:
        """Move the pointer there."""
        ActionChains(self.driver, duration=0).move_to_element(self._element(selector)).perform()

    def text(self, selector: str) -> str:
        """What is to be read there; nothing where nothing is."""
        script = "return document.querySelector(arguments[0])?.innerText ?? ''"
        return str(self.run(script, selector))

    def texts(self, selector: str) -> list[str]:
        script = "return [...document.querySelectorAll(arguments[0])].map((e) => e.textContent)"
        return [str(text) for text in self.run(script, selector)]

    def count(self, selector: str) -> int:
        return int(self.run("return document.querySelectorAll(arguments[0]).length", selector))

    def until(self, found: Callable[[], T], what: str = "it") -> T:
        """What it gives as soon as it gives something."""
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            if value := found():
                return value
            time.sleep(0.05)
        raise AssertionError(
            f"{what} did not come about at {self.address}: {self.text('main')[:800]}"
        )

    def reads(self, selector: str, text: str) -> str:
        """Wait until a text is to be read there."""
        return self.until(
            lambda: (now := self.text(selector)) and text in now and now,
            f"'{text}' in {selector}",
        )


@contextmanager
def browser(chromium: str, driver: str) -> Iterator[Browser]:
    """A browser of our own for as long as the block runs."""
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    # As root, and where there is little shared memory, as in containers.
    for argument in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    with webdriver.Chrome(options, webdriver.ChromeService(driver)) as opened:
        yield Browser(opened)
