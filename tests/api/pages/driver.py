"""A browser without a window, spoken to over the WebDriver protocol (W3C), which is JSON over HTTP.

Chromium and its driver come from the system; nothing is fetched.
"""

import base64
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import httpx

T = TypeVar("T")

PATIENCE = 20.0  # seconds; a busy machine may need some of them
ELEMENT = "element-6066-11e4-a52e-4f735466cecf"  # by which WebDriver marks an element's id
KEYS = {
    "Tab": "\ue004",
    "Enter": "\ue007",
    "Escape": "\ue00c",
    "ArrowDown": "\ue015",
    "ArrowRight": "\ue014",
    "Home": "\ue011",
}


def found_browser() -> tuple[str, str] | None:
    """The browser and its driver, where both are installed."""
    names = ("chromium", "chromium-browser", "google-chrome")
    browser = next((path for name in names if (path := shutil.which(name))), None)
    driver = shutil.which("chromedriver")
    return (browser, driver) if browser and driver else None


class DriverError(Exception):
    """The browser did not do what it was told."""


class Browser:
    """One window."""

    def __init__(self, client: httpx.Client, session: str) -> None:
        self._client, self._session = client, session

    def _do(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        sent = {"json": body or {}} if method == "POST" else {}
        value = self._client.request(method, f"/session/{self._session}{path}", **sent).json()[
            "value"
        ]
        if isinstance(value, dict) and "error" in value:
            raise DriverError(value["message"])
        return value

    def devtools(self, command: str, **parameters: Any) -> Any:
        return self._do("POST", "/goog/cdp/execute", {"cmd": command, "params": parameters})

    # --- where it is, and what it looks like ---------------------------------------------------

    def open(self, address: str) -> None:
        self._do("POST", "/url", {"url": address})

    @property
    def address(self) -> str:
        return str(self._do("GET", "/url"))

    def size(self, width: int, height: int) -> None:
        self.devtools(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )

    def prefer(self, scheme: str) -> None:
        """What the system prefers: light or dark."""
        feature = {"name": "prefers-color-scheme", "value": scheme}
        self.devtools("Emulation.setEmulatedMedia", features=[feature])

    def cookies(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self._do("GET", "/cookie")
        return found

    def forget(self) -> None:
        """All cookies."""
        self._do("DELETE", "/cookie")

    def picture(self, path: Path) -> None:
        path.write_bytes(base64.b64decode(self._do("GET", "/screenshot")))

    def complaints(self) -> list[str]:
        """What the console says is wrong since it was last asked: errors, broken policies."""
        found = self._do("POST", "/se/log", {"type": "browser"})
        return [entry["message"] for entry in found if entry["level"] == "SEVERE"]

    # --- what is on the page -------------------------------------------------------------------

    def run(self, script: str, *arguments: Any) -> Any:
        """What a script of the page's own gives back."""
        return self._do("POST", "/execute/sync", {"script": script, "args": list(arguments)})

    def _element(self, selector: str) -> str:
        found = self._do("POST", "/element", {"using": "css selector", "value": selector})
        return str(found[ELEMENT])

    def click(self, selector: str) -> None:
        """Click as soon as it is there and can be."""

        def done() -> bool:
            try:
                self._do("POST", f"/element/{self._element(selector)}/click")
            except DriverError:
                return False
            return True

        self.until(done, f"{selector} can be clicked")

    def type(self, selector: str, text: str) -> None:
        self._do("POST", f"/element/{self._element(selector)}/value", {"text": text})

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
        actions = [
            {"type": kind, "value": KEYS.get(key, key)}
            for key in keys
            for kind in ("keyDown", "keyUp")
        ]
        self._do("POST", "/actions", {"actions": [{"type": "key", "id": "k", "actions": actions}]})

    def point(self, selector: str) -> None:
        """Move the pointer there."""
        origin = {ELEMENT: self._element(selector)}
        move = {"type": "pointerMove", "duration": 0, "origin": origin, "x": 0, "y": 0}
        self._do(
            "POST", "/actions", {"actions": [{"type": "pointer", "id": "p", "actions": [move]}]}
        )

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
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    process = subprocess.Popen(
        [driver, f"--port={port}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60) as client:
        try:
            session = _session(client, chromium)
            try:
                yield Browser(client, session)
            finally:
                client.delete(f"/session/{session}")  # ends the browser
        finally:
            process.terminate()
            process.wait()


def _session(client: httpx.Client, chromium: str) -> str:
    options = {
        "binary": chromium,
        # As root, and where there is little shared memory, as in containers.
        "args": ["--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"],
    }
    wanted = {"goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"}}
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            answer = client.post("/session", json={"capabilities": {"alwaysMatch": wanted}})
            break
        except httpx.TransportError:  # it is still starting
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)
    value = answer.json()["value"]
    if "error" in value:
        raise DriverError(value["message"])
    return str(value["sessionId"])
